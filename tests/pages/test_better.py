"""What a page says when one model is better than another: planted codes, and a page's own words."""

import re

import numpy as np
import pandas as pd
import pytest

from karenina.pages.choice import DataSetChoice, better, with_comparison
from karenina.pages.contents import Contents, EncodedImages
from karenina.studies.study import COLUMNS

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(5, size=(600, 3))
CODES = {
    name: (FACTORS + noise * RNG.normal(size=FACTORS.shape)).astype(np.float32)
    for name, noise in (("good", 0.1), ("alike", 0.1), ("bad", 2.0))
}


@pytest.fixture(autouse=True)
def few_resamples():
    """As many as a page has."""


def contents(udr, **more):
    """Three models with these UDRs; more: further scores of each."""
    lines = []
    for name, value in zip(CODES, udr):
        about = {"run": name, "data": "planted", "method": "vae", "parameters": f"x={name}", "setting": name}
        about |= {"latents": 3, "network": "mlp", "steps": 1, "seed": 0, "strength": 0.0, "parameter": ""}
        scores = {"udr_lasso": ("selection", value), "mig": ("information", value)}
        scores |= {metric: ("task", values[name]) for metric, values in more.items()}
        for metric, (family, score) in scores.items():
            lines.append({**about, "metric": metric, "family": family, "property": "", "factor": "", "value": score})
    frame = pd.DataFrame(lines).reindex(columns=COLUMNS["results"])
    inputs = EncodedImages(np.zeros((600, 1, 4, 4), np.uint8), FACTORS, ("a", "b", "c"), (False,) * 3)
    return Contents("", frame, {}, None, lambda run: (CODES[run], np.ones(3)), lambda name: inputs)


def said(best, udr, **more):
    found = contents(udr, **more)
    choice = DataSetChoice("planted", 3, "", best, (), ("mig",), "", "Labels.")
    return with_comparison(found, choice, np.arange(3)).labels


def test_a_clear_difference_is_said_with_its_interval():
    text = said("good", (0.9, np.nan, 0.5))
    assert text.startswith(
        "Labels. On the same 600 inputs vae x=good, seed 0 is better than vae x=bad, seed 0 (next by udr_lasso)"
    )
    assert re.search(r"mig 0\.9\d against 0\.\d\d, \+0\.\d\d \[\+0\.\d\d, \+0\.\d\d\], p 0\.01", text)
    assert "is worse than vae x=good" in said("bad", (0.9, np.nan, 0.95))


def test_models_that_differ_by_chance_are_not_called_better():
    text = said("good", (0.9, 0.8, 0.5))
    assert "cannot be told from vae x=alike" in text
    same = better(("A", "B"), CODES["good"], CODES["good"], FACTORS)
    assert "A cannot be told from B" in same
    assert "better" not in same


def test_zero_shot_and_wrong_labels_are_said_where_they_were_measured():
    noise = {
        f"mig_noise_{regime}": dict(zip(CODES, values))
        for regime, values in enumerate(((0.1, 0.2, 0.3), (0.1, 0.2, 0.3), (0.3, 0.2, 0.1), (0.1, 0.1, 0.4)))
    }
    corner = {
        f"zero_shot_{m}_{where}": dict.fromkeys(CODES, value)
        for m, where, value in (("lasso", "inside", 0.75), ("lasso", "outside", 0.25))
    }
    text = said("good", (0.9, np.nan, 0.5), **noise, **corner)
    assert "NRMSE 0.75 (lasso; 0.25 outside)" in text
    assert "mig 1.00, -1.00, 0.87" in text
    assert "NRMSE" not in said("good", (0.9, np.nan, 0.5))


def test_without_labels_nothing_is_said():
    choice = DataSetChoice("planted", 3, "", "good", (), (), "", "")
    assert with_comparison(contents((0.9, 0.8, 0.5)), choice, np.arange(3)).labels == ""
    with pytest.raises(ValueError, match="same rows"):
        better(("A", "B"), CODES["good"][:50], CODES["bad"], FACTORS)


def test_a_difference_that_rounds_to_nothing_has_no_minus(monkeypatch):
    import pandas as pd

    row = {"metric": "mig", "property": "compactness", "a": 0.5, "b": 0.501, "difference": -0.001, "low": -0.004}
    monkeypatch.setattr(
        "karenina.pages.choice.difference", lambda *_, **__: pd.DataFrame([{**row, "high": 0.1, "p": 0.7}])
    )
    assert "0.50 against 0.50, +0.00 [+0.00, +0.10]" in better(("A", "B"), CODES["good"], CODES["good"], FACTORS)
