"""How many modules a reader opens to follow a call from end to end: those in which a function of it runs."""

import sys
from pathlib import Path

import numpy as np

import karenina
import karenina.training

PACKAGE = str(Path(karenina.__file__).parent)


def modules(call, *arguments, **options):
    """The modules of karenina in which a function runs during the call; what runs at import does not count."""
    found = set()

    def enter(frame, event, _):
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE) and path not in found:
            outer = frame
            while outer is not None and outer.f_code.co_name != "<module>":
                outer = outer.f_back
            if outer is None or not outer.f_code.co_filename.startswith(PACKAGE):
                found.add(path)

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call(*arguments, **options)
    finally:
        sys.settrace(before)
    return sorted(found)


def test_import_does_not_count():
    assert modules(lambda: None) == []
    sys.modules.pop("karenina._style", None)
    assert modules(__import__, "karenina._style") == []


def test_score_down_to_one_mig_is_six_modules():
    score = karenina.score
    factors = np.random.default_rng(0).integers(4, size=(300, 3))
    assert len(modules(score, factors, factors, metrics=["mig"])) == 6


def test_training_on_the_command_line_is_eighteen_modules(command, tmp_path):
    words = ("train", "blobs", "beta_vae", "--set", "beta=4", "--steps", 2, "--out", tmp_path / "run")
    assert len(modules(command, *words)) == 18
    assert (tmp_path / "run" / "model.safetensors").exists()
