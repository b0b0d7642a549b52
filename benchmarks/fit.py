"""How good is the model that `karenina fit` chooses? On data whose labels it does not see.

python benchmarks/fit.py FOLDER [blobs dsprites digits fashion] [--populations 5] [--write]   # resumes; again: seconds
python benchmarks/fit.py FOLDER --rules [--write]               # other rules of the choice, on the populations above
python benchmarks/fit.py FOLDER --search [--repetitions 5] [--seconds 60] [--write]           # the search and the grid

For each data set, populations of 20 models by `karenina.fit(models=20)`, each from other seeds. All models are then
scored with the labels: the percentile of the chosen one among its population by MIG and by DCI disentanglement (boosted
trees), and what the highest ELBO, a random choice and the labels themselves (the oracle) would have given.
"""

import argparse
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from pages import markdown, write_part

import karenina
from karenina._files import atomic
from karenina.selection.choice import KEPT

METRICS = {"mig": "MIG", "dci_boosted": "DCI"}
FASHION = Path("/usr/share/datasets/fashion-mnist")
_KINDS = {"images-idx3": 16, "labels-idx1": 8}  # and the bytes of their heads
MODELS = 20
# Steps for which the models of a population can be trained in minutes of one core.
STEPS = {"blobs": 3000, "dsprites": 3000, "digits": 2000, "fashion": 1500}


def data_set(name: str, folder: Path) -> str:
    """A name or a path, for `karenina.fit` and, with its labels, for the judgement."""
    if name == "blobs":
        return "blobs"
    if name == "dsprites":
        return "dsprites:side=16"
    path = folder / f"{name}.npz"
    if not path.exists():
        if name == "digits":
            from sklearn.datasets import load_digits

            found = load_digits()
            images, labels = np.round(found.images * (255 / 16)).astype(np.uint8), found.target
        else:
            read = {kind: gzip.decompress((FASHION / f"train-{kind}-ubyte.gz").read_bytes()) for kind in _KINDS}
            images, labels = (np.frombuffer(read[kind], np.uint8, offset=skip) for kind, skip in _KINDS.items())
            images = images.reshape(-1, 28, 28)
        np.savez(path, images=images, factors=labels.astype(np.int64)[:, None], factor_names=["label"])
    return str(path)


def judge(folder: Path, data: karenina.data.DataSet) -> dict[str, dict[str, float]]:
    """run -> its scores with labels and its ELBO, kept beside the fit."""
    kept = folder / "labels.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    for path in sorted((folder / "runs").rglob("run.json")):
        name = path.parent.name
        if name in known or json.loads(path.read_text())["status"] != "finished":
            continue
        found = karenina.evaluate(karenina.open(path.parent), data, metrics=list(METRICS), rows=2000)
        assert found.table is not None
        known[name] = {key: float(found.table[key].value) for key in METRICS} | {"elbo": found.label_free["elbo"]}
        with atomic(kept) as part:
            part.write_text(json.dumps(known))
    return known


def percentile(values: np.ndarray, chosen: int) -> float:
    """Share of the other models that the chosen one beats; ties count half."""
    others = np.delete(values, chosen)
    return 100 * float(((others < values[chosen]) + 0.5 * (others == values[chosen])).mean())


def population(name: str, seed: int, folder: Path) -> dict[str, float]:
    source, out = data_set(name, folder), folder / f"{name}-{seed}"
    began = time.perf_counter()
    karenina.fit(source, out=out, models=MODELS, steps=STEPS[name], seed=seed)  # ranks again what is there
    run = karenina.pick(out)
    assert run.path is not None
    known = judge(out, karenina.data.load_again(run.config.data, source if name in ("digits", "fashion") else None))
    runs = list(known)
    chosen = runs.index(run.path.name)
    elbo = int(np.argmax([known[one]["elbo"] for one in runs]))
    row: dict[str, float] = {"models": len(runs), "seconds": time.perf_counter() - began}
    for key in METRICS:
        values = np.array([known[one][key] for one in runs])
        row |= {f"{key} chosen": values[chosen], f"{key} elbo": values[elbo], f"{key} mean": values.mean()}
        row |= {f"{key} oracle": values.max(), f"{key} percentile": percentile(values, chosen)}
        row[f"{key} percentile of elbo"] = percentile(values, elbo)
    print(name, seed, {key: round(float(value), 2) for key, value in row.items()}, flush=True)
    return row


def choices(names: list[str], populations: int, folder: Path) -> str:
    lines = []
    for name in names:
        rows = [population(name, seed, folder) for seed in range(populations)]
        for key, shown in METRICS.items():
            mean = {what: np.mean([row[f"{key} {what}"] for row in rows]) for what in _WHAT}
            if mean["oracle"] == mean["mean"]:
                continue  # with one factor every model has a DCI of 1: there is nothing to choose by
            spread = np.std([row[f"{key} percentile"] for row in rows])
            lines.append(
                [f"{name}, {STEPS[name]:,} steps", str(len(rows)), shown]
                + [f"{mean['percentile']:.0f} (± {spread:.0f})", f"{mean['percentile of elbo']:.0f}"]
                + [f"{mean[what]:.2f}" for what in ("chosen", "elbo", "mean", "oracle")]
            )
    header = ["data", "populations", "metric", "percentile of the chosen", "of the highest ELBO"]
    return markdown([*header, "chosen", "highest ELBO", "random choice", "oracle"], lines)


_WHAT = ("percentile", "percentile of elbo", "chosen", "elbo", "mean", "oracle")


def kept(table: pd.DataFrame, score: pd.Series) -> int:
    """The model with the highest UDR of all to all where the score of its setting is nearly that of the best one."""
    good = score[(score > 0) & (score >= KEPT * score.max())]
    return int(table["udr_a2a"][good.index if len(good) else score.index].idxmax())


def middle(table: pd.DataFrame, column: str) -> pd.Series:
    return table.groupby(["method", "strength"])[column].transform("median")


# Table of models with an active latent -> row of the chosen one.
RULES: dict[str, Callable[[pd.DataFrame], int]] = {
    "as it is": lambda t: kept(t, t["agreement"]),
    "only settings that explain 3/4 of what the best does": lambda t: kept(
        t, t["agreement"][middle(t, "explained") >= 0.75 * t["explained"].max()]
    ),
    "UDR of all to all alone": lambda t: int(t["udr_a2a"][t["active"] > 1].idxmax()),
    "agreement x active latents": lambda t: kept(t, t["agreement"] * middle(t, "active")),
    "agreement x (active latents - 1)": lambda t: kept(t, t["agreement"] * (middle(t, "active") - 1)),
    "highest ELBO": lambda t: int(t["elbo"].idxmax()),
}
_DECIDE = 3  # populations to decide by; the others judge


def rules(folder: Path) -> str:
    """Percentile of what each rule chooses: first populations / last populations."""
    lines = []
    for rule, choose in RULES.items():
        line = [rule]
        for name, metrics in (("blobs", METRICS), ("dsprites", METRICS), ("digits", ["mig"]), ("fashion", ["mig"])):
            for key in metrics:
                found: tuple[list[float], list[float]] = ([], [])
                for seed, labels in enumerate(sorted(folder.glob(f"{name}-?/labels.json"))):
                    known = pd.DataFrame(json.loads(labels.read_text())).T
                    table = pd.read_csv(labels.parent / "ranking.csv").merge(known, left_on="run", right_index=True)
                    if len(table) == MODELS:
                        row = choose(table[table["active"] > 0])
                        found[seed >= _DECIDE].append(percentile(table[key].to_numpy(), table.index.get_loc(row)))
                line.append(" / ".join(f"{np.mean(part):.0f} ({len(part)})" if part else "–" for part in found))
        lines.append(line)
    return markdown(["rule", "blobs, MIG", "DCI", "dsprites, MIG", "DCI", "digits, MIG", "fashion, MIG"], lines)


def searches(repetitions: int, seconds: float, folder: Path) -> str:
    """The search and the grid with the same time on blobs."""
    lines = []
    for kind in ("grid", "optuna"):
        rows = []
        for seed in range(repetitions):
            out = folder / f"search-{kind}-{seed}"
            if not (out / "labels.json").exists():
                karenina.fit("blobs", out=out, time=seconds, steps=STEPS["blobs"], seed=seed, search=kind)
            run = karenina.pick(out)
            assert run.path is not None
            known = judge(out, karenina.load("blobs"))
            mine = known[run.path.name]
            rows.append([*(mine[key] for key in METRICS), len(known)])
            print(kind, seed, [round(float(value), 2) for value in rows[-1]], flush=True)
        table = np.array(rows)
        lines.append([kind, *(f"{m:.2f} (± {s:.2f})" for m, s in zip(table.mean(0), table.std(0)))])
    return markdown(["", "MIG of the chosen", "DCI of the chosen", "models"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=["blobs", "digits"])
    parser.add_argument("--populations", type=int, default=5)
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--write", action="store_true", help="into docs/fit.md")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.rules:
        text, part = rules(given.folder), "benchmarks/fit.py --rules"
    elif given.search:
        text, part = searches(given.repetitions, given.seconds, given.folder), "benchmarks/fit.py --search"
    else:
        text, part = choices(given.names, given.populations, given.folder), "benchmarks/fit.py"
    print(text)
    if given.write:
        write_part("fit.md", part, text)


if __name__ == "__main__":
    main()
