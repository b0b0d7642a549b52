"""Initial weights and step sizes compared: how soon a model leaves collapse, and what becomes of it.

python benchmarks/initialisation.py --out DIR            # one thread; hours. The same command again resumes
python benchmarks/initialisation.py --out DIR --write    # also puts the tables of what is finished into docs/methods.md
"""

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

from karenina.data import load
from karenina.metrics.information import mig
from karenina.training import Run, train

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods.md"
INITS = ("torch", "glorot", "he")
# A model has left collapse when its codes say something of the image: of what the best constant image loses on top of
# the entropy of grey pixels, it loses less than this, in this row of its history and in all that follow.
SHARE = 0.9


@dataclass(frozen=True)
class Task:
    data: str
    network: str
    init: str
    learning_rate: float
    beta: float
    steps: int
    seed: int

    @property
    def name(self) -> str:
        return "-".join(str(value) for value in asdict(self).values())


def tasks() -> dict[str, list[Task]]:
    """The tasks of each table."""
    blobs = [Task("blobs", "mlp", init, 1e-3, 16, 6000, seed) for seed in range(6) for init in INITS]
    sprites = [
        Task(data, "conv64", init, 1e-3, 4, 600, seed)
        for seed in range(3)
        for data in ("dsprites", "color_dsprites")
        for init in INITS
    ]
    fully = [
        Task("dsprites", "fc", init, rate, 4, 600, seed) for seed in range(3) for rate in (1e-3, 1e-4) for init in INITS
    ]
    rates = [
        Task("dsprites", "conv64", init, rate, 4, 600, 0)
        for init, rate in (("he", 1e-4), ("torch", 1e-4), ("he", 3e-4), ("he", 5e-4))
    ]
    rates += [task for task in sprites if task.data == "dsprites" and task.seed == 0 and task.init in ("he", "torch")]
    whole = [
        Task("dsprites", "conv64", "he", 1e-3, 4, 10_000, 0),
        Task("dsprites", "conv64", "torch", 1e-4, 4, 10_000, 0),
    ]
    return {"initialisations": [*sprites, *fully, *blobs], "rates": rates, "first model": whole}


def work(task: Task, out: Path) -> dict[str, Any]:
    """The figures of a task, from the file that an earlier call left, or trained for it."""
    file = out / f"{task.name}.json"
    if not file.exists():
        latents = 8 if task.data == "blobs" else 10
        run = train(
            task.data,
            "beta_vae",
            out=out / task.name,
            latents=latents,
            **{name: value for name, value in asdict(task).items() if name != "data"},
        )
        part = file.with_suffix(".part")
        part.write_text(json.dumps(measure(run), indent=1), encoding="utf-8")
        part.rename(file)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def measure(run: Run) -> dict[str, Any]:
    images, factors = load(run.config.data).sample(3000, np.random.default_rng(1))
    constant, least = entropy((images / 255).mean(axis=0)), entropy(images / 255) / len(images)
    error = run.history["reconstruction"].to_numpy() / run.config.reconstruction_weight
    blind = np.flatnonzero(error - least > SHARE * (constant - least))
    rows = run.history["step"].tolist()
    return {
        "left": None if len(blind) and blind[-1] == len(rows) - 1 else rows[blind[-1] + 1] if len(blind) else rows[0],
        "constant": constant,
        "least": least,
        **run.evaluate(images),
        "active": int((run.kl(images) > 0.1).sum()),
        "mig": float(mig(run.encode(images)[0], factors)),
    }


def entropy(p: NDArray[np.float64]) -> float:
    """Summed over Bernoulli variables: the cross entropy of pixels p with the best prediction, p."""
    return float((special.entr(p) + special.entr(1 - p)).sum())


def table(keys: Callable[[Task], tuple[str, ...]], heads: tuple[str, ...], rows: Iterable[tuple[Task, Any]]) -> str:
    """Markdown: one line per group of seeds; every seed's step, medians of the rest."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for task, row in rows:
        groups.setdefault(keys(task), []).append(row)
    columns = ("seeds", "left collapse by step", "ELBO", "reconstruction", "KL", "active latents", "MIG")
    lines = ["| " + " | ".join([*heads, *columns]) + " |", "|---" * (len(heads) + len(columns)) + "|"]
    for key, found in groups.items():
        left = ", ".join("never" if row["left"] is None else str(row["left"]) for row in found)
        middle = {name: statistics.median(row[name] for row in found) for name in found[0] if name != "left"}
        figures = [f"{middle[name]:.1f}" for name in ("elbo", "reconstruction", "kl")]
        cells = [*key, str(len(found)), left, *figures, f"{middle['active']:g}", f"{middle['mig']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables(done: dict[Task, dict[str, Any]]) -> dict[str, str]:
    shapes: dict[str, tuple[Callable[[Task], tuple[str, ...]], tuple[str, ...]]] = {
        "initialisations": (
            lambda t: (t.data, t.network, f"{t.learning_rate:g}", f"{t.steps:,}", t.init),
            ("data", "network", "rate", "steps", "init"),
        ),
        "rates": (lambda t: (t.init, f"{t.learning_rate:g}"), ("init", "rate")),
        "first model": (lambda t: (t.init, f"{t.learning_rate:g}", f"{t.steps:,}"), ("init", "rate", "steps")),
    }
    order = {
        name: sorted(
            (task for task in group if task in done), key=lambda t: (t.data, t.network, t.init, t.learning_rate)
        )
        for name, group in tasks().items()
    }
    return {name: table(*shapes[name], ((task, done[task]) for task in group)) for name, group in order.items()}


def write(made: dict[str, str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, content in made.items():
        marks = f"<!-- table {name} -->\n", "<!-- end -->"
        pattern = re.escape(marks[0]) + ".*?" + re.escape(marks[1])
        text, count = re.subn(pattern, lambda _, c=content, m=marks: f"{m[0]}{c}\n{m[1]}", text, flags=re.DOTALL)
        assert count == 1, f"{PAGE.name} has no place for the table {name!r}"
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where runs and figures are kept")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/")
    parser.add_argument("--only", choices=list(tasks()), help="train the models of one table")
    parser.add_argument("--tables", action="store_true", help="train nothing: tables of what is finished")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = [task for name, group in tasks().items() if arguments.only in (None, name) for task in group]
    todo = sorted(dict.fromkeys(wanted), key=lambda t: (t.steps > 6000, t.seed, t.steps))  # tables fill evenly
    for task in [] if arguments.tables else todo:
        print(task.name, work(task, arguments.out), flush=True)
    every = [task for group in tasks().values() for task in group]
    done = {task: work(task, arguments.out) for task in every if (arguments.out / f"{task.name}.json").exists()}
    made = tables(done)
    for name, content in made.items():
        print(f"\n{name}\n{content}")
    if arguments.write:
        write(made)


if __name__ == "__main__":
    main()
