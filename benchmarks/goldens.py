"""Does a change of the code change a number? Hashes of what the code makes, stored before it and compared after it.

python benchmarks/goldens.py store FOLDER    # with the code as it was
python benchmarks/goldens.py check FOLDER    # with the code as it is: what differs; exits with 1

CPUs round differently, so both must run on one machine. Golden are: runs of every method, alone and trained as one;
every metric in every protocol on tests/reference; the analyses and the page of the study in tests/studies/stored; a
small fit; and half-trained checkpoints of a single model and of a population, which must go on to the same weights.
"""

import hashlib
import json
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import karenina
from karenina.metrics import METRICS, PROTOCOLS
from karenina.training import METHODS

TESTS = Path(__file__).resolve().parents[1] / "tests"
STEPS, HALF = 40, 20
SETTINGS: dict[str, Any] = {"latents": 4, "steps": STEPS}
METHODS_OF_HALVES = ("beta_vae", "factor_vae", "beta_tcvae")


class Stop(Exception):
    """Raised in the middle of training."""


def digest(*parts: Any) -> str:
    """Return the hash of arrays, tensors and what JSON can say."""
    found = hashlib.sha256()
    for part in parts:
        value = part.detach().numpy() if isinstance(part, torch.Tensor) else part
        found.update(value.tobytes() if isinstance(value, np.ndarray) else json.dumps(value, default=str).encode())
    return found.hexdigest()[:16]


def of_run(run: Any) -> str:
    """Return the hash of a run's weights and history."""
    history = run.history.to_numpy(dtype=np.float64)
    weights = [value for _, value in sorted(run.module.state_dict().items())] if run.config.method != "pca" else []
    return digest(history, *weights, run.encode(karenina.load("blobs").sample(8, 0)[0])[0])


def runs() -> Iterator[tuple[str, str]]:
    for name in METHODS:
        steps = {} if name == "pca" else {"steps": STEPS}
        yield f"run {name}", of_run(karenina.train("blobs", name, latents=4, **steps))
        if name not in ("pca", "infogan"):
            for run in karenina.train_many("blobs", name, seeds=2, **SETTINGS):
                yield f"run {name} of two, seed {run.config.seed}", of_run(run)


def metrics() -> Iterator[tuple[str, str]]:
    factors = np.load(TESTS / "reference" / "factors.npz")["factors_test"][:3000]
    for file in sorted((TESTS / "reference").glob("codes_*.npz")):
        codes = np.load(file)["codes_test"][:3000]
        for protocol in (None, *PROTOCOLS):
            for name in METRICS:
                try:
                    table = karenina.score(codes, factors, metrics=[name], protocol=protocol)
                    rows = [list(map(repr, row)) for row in table.frame.drop(columns="seconds").to_numpy()]
                except ValueError as error:  # a metric may refuse codes that say nothing
                    rows = [str(error)]
                yield f"metric {name}, {protocol or 'ours'}, {file.stem}", digest(rows)


def study() -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        place = shutil.copytree(TESTS / "studies" / "stored", Path(folder) / "stored")
        yield "study results", digest(karenina.results(place).to_csv())
        for name, frame in karenina.studies.analyse(place, figures=False).items():
            yield f"analysis {name}", digest(frame if isinstance(frame, str) else frame.to_csv(index=False))
        text = karenina.report(place, Path(folder) / "page").read_text()
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
        for key, value in data.items():
            yield f"page {key}", digest(value)
        captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)
        yield "page captions", digest(captions)


def fit() -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        images = karenina.load("blobs").sample(400, 0)[0]
        found = karenina.fit(images, out=Path(folder) / "fit", models=6, steps=60)
        ranking = found.ranking.drop(columns=[name for name in found.ranking if "second" in name])
        yield "fit ranking", digest(ranking.to_csv(index=False))
        yield "fit verdict", digest(str(found.verdict))


def halves(folder: Path) -> None:
    """Train half of some models into a folder, alone and together, and leave their checkpoints there."""

    def stop(at: Any) -> None:
        if at.step >= HALF:
            raise Stop

    for name in METHODS_OF_HALVES:
        for call, options in ((karenina.train, {"seed": 3}), (karenina.train_many, {"seeds": [3, 4]})):
            try:
                call("blobs", name, out=folder / f"{name}-{call.__name__}", progress=stop, **options, **SETTINGS)
            except Stop:
                continue
            raise RuntimeError(f"{name} was not stopped")


def resumed(folder: Path) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as place:
        for name in METHODS_OF_HALVES:
            half = shutil.copytree(folder / f"{name}-train", Path(place) / name)
            yield f"resumed {name}", of_run(karenina.train("blobs", name, out=half, seed=3, **SETTINGS))
            half = shutil.copytree(folder / f"{name}-train_many", Path(place) / f"{name}-many")
            for run in karenina.train_many("blobs", name, out=half, seeds=[3, 4], **SETTINGS):
                yield f"resumed {name} of two, seed {run.config.seed}", of_run(run)


def main(task: str, folder: str) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    place = Path(folder)
    if task == "store":
        shutil.rmtree(place, ignore_errors=True)
        halves(place / "halves")
    found = {}
    for part in (runs(), metrics(), study(), fit(), resumed(place / "halves")):
        found.update(part)
    if task == "store":
        (place / "goldens.json").write_text(json.dumps(found, indent=1))
        print(f"{len(found)} goldens stored in {place}")
        return 0
    stored = json.loads((place / "goldens.json").read_text())
    other = [name for name in {**stored, **found} if stored.get(name) != found.get(name)]
    print(f"{len(found) - len(other)} of {len(stored)} goldens are as they were", *other, sep="\n  ")
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
