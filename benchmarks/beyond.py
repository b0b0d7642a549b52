"""Methods of 2020 to 2023 beside the beta-VAE, on blobs and on small dSprites. Writes docs/results/beyond.md.

python benchmarks/beyond.py --estimate             # CPU minutes of every part, from a few steps of it
python benchmarks/beyond.py --out DIR              # trains and scores what is missing in DIR, part after part
python benchmarks/beyond.py --out DIR --only qlae --data blobs
python benchmarks/beyond.py --out DIR --only why_gamma why_beta    # explanations, where a claim does not hold
python benchmarks/beyond.py --out DIR --write      # scores -> docs/results/beyond.json, and the page from that file
python benchmarks/beyond.py --write                # the page alone, from the stored scores

A run that is stopped resumes where it was. Parts that are not in DIR keep the scores that are stored already.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import cpu_seconds

import karenina
from karenina.data import DataSet, load
from karenina.evaluation.scoring import evaluate
from karenina.training import Run, train_many
from karenina.training.batches import labelled_images

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "beyond.json"
SEEDS = 10
LABELS = 100
ROWS = 3000
METRICS = ["mig", "dci_boosted", "infomec"]
SETS: dict[str, dict[str, Any]] = {
    "blobs": {"network": "mlp", "latents": 8, "steps": 4000},
    "dsprites:side=16": {"network": "mlp", "latents": 10, "steps": 3000},
}
BETAS = {"blobs": [1, 4, 16], "dsprites:side=16": [4, 16]}
CORRELATED = {"blobs": "blobs:correlate=x+y,sigma=0.1", "dsprites:side=16": "dsprites:correlate=x+y,side=16,sigma=0.1"}


@dataclass(frozen=True)
class Part:
    """Models of one data set that are trained together. name: of its folder."""

    name: str
    data: str
    method: str
    grid: dict[str, list[Any]]
    fixed: dict[str, Any] = field(default_factory=dict)

    def train(self, out: Path | None, **instead: Any) -> list[Run]:
        settings = {**SETS[load(self.data).whole.name], **self.fixed, **instead}
        folder = None if out is None else self.folder(out)
        return train_many(load(self.data), self.method, self.grid, SEEDS, out=folder, **settings)

    def folder(self, out: Path) -> Path:
        return out / load(self.data).whole.name.replace(":", "-") / self.name

    @property
    def models(self) -> int:
        return SEEDS * int(np.prod([len(values) for values in self.grid.values()], dtype=int))


def parts() -> Iterator[Part]:
    """The most important first."""
    for data in SETS:
        yield Part("beta_vae", data, "beta_vae", {"beta": BETAS[data]})
        yield Part("ada_gvae", data, "ada_gvae", {"beta": BETAS[data]}, {"k": 1})
    for data in SETS:
        yield Part("supervised", data, "beta_vae", {"beta": [4]}, {"supervised": LABELS})
        # Hsu et al. (2023): twice as many latents as factors, and a rate that their decay of weights is relative to.
        twice = {"latents": 2 * len(load(data).factor_names), "learning_rate": 1e-3}
        yield Part("qlae", data, "qlae", {}, twice)
        yield Part("correlated_beta_vae", CORRELATED[data], "beta_vae", {"beta": [4]})
        yield Part("correlated_hfs", CORRELATED[data], "hfs", {"gamma": [100]}, {"beta": 4})


def explanations() -> Iterator[Part]:
    """What is trained when a claim does not hold, if asked for by name; beyond_page.EXPLANATIONS says why."""
    for data in SETS:
        yield Part("why_oracle", data, "ada_gvae", {"beta": BETAS[data]}, {"k": 1, "known": "shared"})
        yield Part("why_random", data, "ada_gvae", {"beta": BETAS[data]}, {"k": "random"})
        yield Part("why_weight", data, "beta_vae", {"supervised_weight": [10, 1000]}, {"beta": 4, "supervised": LABELS})
        yield Part("why_few", data, "beta_vae", {"beta": [4]}, {"supervised": 10 * LABELS})
        twice = {"latents": 2 * len(load(data).factor_names), "learning_rate": 1e-3}
        yield Part("why_decay", data, "qlae", {"weight_decay": [0, 1]}, twice)
        yield Part("why_short", data, "qlae", {}, {**twice, "steps": 3 * SETS[data]["steps"]})
        yield Part("why_gamma", CORRELATED[data], "hfs", {"gamma": [1, 10, 1000]}, {"beta": 4})
        yield Part("why_beta", CORRELATED[data], "hfs", {"gamma": [100]}, {"beta": 1})


def estimate(part: Part) -> float:
    """CPU seconds of training: those of 30 steps less those of 10, times the steps that there are."""
    took = [cpu_seconds(part.train, None, steps=steps)[0] for steps in (10, 10, 30)]  # the first warms up
    steps = {**SETS[load(part.data).whole.name], **part.fixed}["steps"]
    return (took[2] - took[1]) / 20 * int(steps)


def scores_of(run: Run, data: DataSet) -> dict[str, float]:
    """Scores on uniform factors, and for the choice of models those on the labels of every seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = evaluate(run, data, metrics=METRICS, rows=ROWS)
    table: Any = found.table
    scores = {f"{row.metric} {row.property}": float(row.value) for row in table.rows}
    scores |= {name: found.label_free[name] for name in ("reconstruction", "kl", "informative_latents")}
    return scores


def choosing_scores(run: Run, data: DataSet) -> list[float]:
    """MIG on the 100 labelled images of every seed: what a choice by these labels goes by."""
    found = []
    for seed in range(SEEDS):
        images, factors = labelled_images(data, LABELS, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(float(karenina.metrics.mig(run.encode(images)[0], factors)))
    return found


def work(out: Path, wanted: list[Part]) -> None:
    """Train and score these parts; what is there already is left as it is."""
    for part in wanted:
        data = load(part.data)
        start = time.process_time()
        runs = part.train(out)
        trained = time.process_time() - start
        for run in runs:
            assert run.path is not None
            file = run.path / "beyond.json"
            row = json.loads(file.read_text()) if file.exists() else {}
            if row.get("metrics") == METRICS:
                continue
            strength = " ".join(f"{name} {run.config.parameters[name]:g}" for name in part.grid) or "-"
            row = {"part": part.name, "data": data.whole.name, "trained_on": part.data, "method": part.method}
            row |= {"strength": strength, "seed": run.config.seed, "steps": run.config.steps, "metrics": METRICS}
            row["scores"] = scores_of(run, data)
            if part.name in ("beta_vae", "supervised"):
                row["mig_on_labels"] = choosing_scores(run, data)
            file.write_text(json.dumps(row))
        (part.folder(out) / "done").touch()
        scored = time.process_time() - start - trained
        cost = f"CPU seconds: {trained:.0f} of training, {scored:.0f} of scoring"
        print(f"{part.name:<22} {data.whole.name:<17} {len(runs)} models; {cost}", flush=True)


def collected(out: Path) -> list[dict[str, Any]]:
    """The rows of all parts that are complete, in the order of the parts; of others those that are stored."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    rows = []
    for part in (*parts(), *explanations()):
        if (part.folder(out) / "done").exists():
            rows += [json.loads(file.read_text()) for file in sorted(part.folder(out).glob("*/beyond.json"))]
        else:
            name = load(part.data).whole.name
            rows += [row for row in before if (row["part"], row["data"]) == (part.name, name)]
    return rows


def main() -> None:
    names = list(dict.fromkeys(part.name for part in (*parts(), *explanations())))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", default=[], choices=names)
    parser.add_argument("--data", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--estimate", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    wanted = [
        part
        for part in (*parts(), *explanations())
        if part.name in (arguments.only or [name for name in names if not name.startswith("why_")])
        and load(part.data).whole.name in arguments.data
    ]
    if arguments.estimate:
        for part in wanted:
            cost = f"{estimate(part) / 60:.1f} CPU minutes of training"
            print(f"{part.name:<22} {load(part.data).whole.name:<17} {part.models} models: {cost}", flush=True)
    if arguments.out is not None:
        if arguments.write:
            rows = compact(collected(arguments.out))
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(rows, separators=(",", ":")).replace("},{", "},\n{") + "\n")
        else:
            work(arguments.out, wanted)
    if arguments.write:
        from beyond_page import write

        write(RESULTS)


def compact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Numbers with five digits: the page shows fewer, and the file stays small."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: short(one) for key, one in value.items()}
        if isinstance(value, list):
            return [short(one) for one in value]
        return float(np.format_float_positional(value, 5, fractional=False)) if isinstance(value, float) else value

    return [short(row) for row in rows]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
