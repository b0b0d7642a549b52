"""The main job in small: train a sweep, choose a model without labels, check the choice with labels, show it all."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from karenina._files import atomic
from karenina.data import DataSet, load
from karenina.pages.choice import choices
from karenina.pages.contents import read_study
from karenina.pages.page import write
from karenina.studies.plan import parse
from karenina.studies.runner import run

# Rooms of Shapes3D: four hues of floor, wall and object, whose factors differ in how much they change the picture, so
# that small VAEs separate them in seconds. With all ten hues, a circle, they do not.
ROOMS = "shapes3d:side=16,only=floor_hue=0..3+wall_hue=0..3+object_hue=0..3+orientation=7"
PLAN = """
name = "Rooms: beta-VAE on a part of Shapes3D"
data = {data}
seeds = 4
steps = 2000
latents = 6
network = "mlp"
learning_rate = 0.002

[methods.beta_vae]
beta = [2, 8, 16]

[evaluation]
metrics = ["mig", "modularity", "sap", "dci_lasso"]
rows = 2000

[selection]
udr = ["udr_lasso", "udr_lasso_a2a"]
"""


def demo(out: str | os.PathLike[str], workers: int = 2, *, say: Callable[[str], None] = print) -> tuple[Path, Path]:
    """Run the demo into a folder and tell what happens, with the numbers of this run; return the page and the best run.

    A second call finds the models trained, and only makes the page again.
    """
    started = time.perf_counter()
    folder = Path(out)
    rooms = folder / "rooms.npz"
    if not rooms.exists():
        _draw(load(ROOMS), rooms)
    plan = parse(PLAN.format(data=json.dumps(str(rooms.resolve()))))
    say(f"Training {len(plan.points)} models on 2,048 pictures of rooms: beta_vae, three strengths, four seeds.")
    status = run(plan, folder / "study", workers=workers, quiet=not sys.stderr.isatty())
    if status.failed:
        say(f"{len(status.failed)} of them failed; `karenina study status {folder / 'study'}` says why.")
    contents = read_study(folder / "study")
    found = choices(contents)
    choice = found[0]
    say(f"{len(status.done)} models are trained and scored ({time.perf_counter() - started:.0f} s).")
    say("")
    say(choice.headline)
    if choice.worth:
        say(f"Why: seeds that agree learnt the same from different beginnings. How sure: {choice.level}.")
    say("")
    check = choice.checks[0]
    say(f"{'the five best, without labels':32s}{'UDR':>6s}{'chance':>9s}{'active':>9s}{check + ' (labels)':>16s}")
    for one in choice.leaders:
        say(f"{one.label:32s}{one.score:6.2f}{one.chance:9.2f}{one.active:9d}{one.checks[0]:16.2f}")
    say("")
    for reading in choice.readings[-1:]:
        agree = "Labels agree" if reading.holds else "Labels do not agree"
        say(f"{agree}: {reading.value:.2f} by {reading.text}; {reading.threshold}.")
    page = write(contents, folder / "report", found=found)
    say(f"Page: {page} ({time.perf_counter() - started:.0f} s in all). Open it and move the latents.")
    return page, contents.paths[choice.best]


def _draw(data: DataSet, file: Path) -> None:
    """Write every picture of the data set that training can draw, with its factors."""
    grid: Any = data.factors
    rows = grid.rows(np.flatnonzero(grid.weights(grid.rows(np.arange(len(grid))))))
    varied = [column for column in range(rows.shape[1]) if len(np.unique(rows[:, column])) > 1]
    names = [data.factor_names[column] for column in varied]
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic(file) as part, part.open("wb") as opened:
        np.savez(opened, images=data.images(rows), factors=rows[:, varied], factor_names=names)
