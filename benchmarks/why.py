"""Why a claim of a paper does not come out here: what was varied, and what each variation gives.

    python benchmarks/why.py dynamics STUDY [STUDY ...] [--layers FOLDER] [--data NAME]   # trains models
    python benchmarks/why.py udr STUDY [STUDY ...]
    python benchmarks/why.py noise STUDY [STUDY ...]
    python benchmarks/why.py variance STUDY [STUDY ...]
    python benchmarks/why.py teapots FOLDER                      # trains models, and keeps them in the folder
    python benchmarks/why.py page                                # docs/results/why.md from docs/results/why.json

A STUDY is the directory of `karenina study run`, with its models.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from why_page import KEPT, correlation, page, rounded

import karenina
from karenina.papers.duan2020.tables import METRICS as FOUR
from karenina.papers.holtz2022.tables import METRICS as THREE
from karenina.papers.locatello2019.tables import METRICS as SIX
from karenina.selection import dynamics, udr
from karenina.studies.analyses.by_setting import variance_explained
from karenina.studies.analyses.scores import wide_table
from karenina.studies.study import Study
from karenina.tasks import label_noise
from karenina.training.learners import PopulationLearner

SEEDS = 5  # of each setting, from which the dynamics score is computed again and again
# What a variation changes: options of `karenina.selection.dynamics`, and which of the 30 moments it sees.
VARIATIONS: dict[str, tuple[dict[str, Any], slice]] = {
    "as it is": ({}, slice(None)),
    "embedding of 2 dimensions": ({"rank": 2}, slice(None)),
    "16 steps of diffusion": ({"steps": 16}, slice(None)),
    "units not standardised": ({"normalise": False}, slice(None)),
    "the last 15 moments": ({"steps": 8}, slice(15, None)),
}
LAYERS: dict[str, Callable[[PopulationLearner, Any], Any]] = {
    "mean codes": lambda learner, mean: mean,
    "decoder's second layer": lambda learner, mean: learner.stacks["network"](learner.shape.decoder[:4], mean),
    "decoded images": lambda learner, mean: learner.stacks["network"](learner.shape.decoder, mean),
}


def vary_dynamics(folder: Path | None, studies: list[Path], only: str | None) -> None:
    """Kept after each variation, which takes minutes, beside those of other studies."""
    opened = {path: Study(path) for path in studies}
    again = {study.plan.name for study in opened.values()}
    lines = [
        one
        for one in json.loads(KEPT.read_text()).get("dynamics", [])
        if one["study"] not in again or only not in (None, one["data"])
    ]
    for path, study in opened.items():
        mig = study.frame[(study.frame["metric"] == "mig") & (study.frame["factor"] == "")]
        for (data, method), rows in mig.groupby(["data", "method"], sort=False):
            if method != "beta_vae" or only not in (None, data):
                continue
            settings = [part.sort_values("seed").head(SEEDS) for _, part in rows.groupby("setting", sort=False)]
            known = np.array([part["value"].mean() for part in settings])
            groups = [i for i, part in enumerate(settings) for _ in part.itertuples()]
            traces = [np.load(path / "runs" / run / "trace.npy") for part in settings for run in part["run"]]
            about = {"data": str(data), "study": study.plan.name, "settings": len(settings), "seeds": SEEDS}
            for name, (options, moments) in VARIATIONS.items():
                found = dynamics([trace[moments] for trace in traces], groups, **options)
                lines.append({**about, "variation": name, "rho": correlation(np.asarray(found.scores), known)})
                keep("dynamics", lines)
            if len(settings) > 10 or folder is None:
                continue
            layers = other_layers(study, settings, folder / str(data).replace(":", "-"))
            for name, other in layers.items():
                found = dynamics(other, groups)
                lines.append(
                    {**about, "variation": f"trace of {name}", "rho": correlation(np.asarray(found.scores), known)}
                )
                keep("dynamics", lines)


def other_layers(study: Study, settings: list[pd.DataFrame], where: Path) -> dict[str, list[np.ndarray]]:
    """Traces of the same models, trained again, of each other layer."""
    points = {point.hash: point for point in study.plan.points}
    first = points[settings[0]["run"].iloc[0]]
    betas = [dict(points[part["run"].iloc[0]].parameters)["beta"] for part in settings]
    fixed = {name: value for name, value in first.arguments.items() if name not in ("beta", "seed")}
    with traced():
        runs = karenina.train_many(first.data, "beta_vae", {"beta": betas}, SEEDS, out=where, **fixed)
    return split_layers([np.load(run.path / "trace.npy") for run in runs], first.latents, runs[0].config.image_shape)


def split_layers(traces: list[np.ndarray], latents: int, image_shape: tuple[int, ...]) -> dict[str, list[np.ndarray]]:
    """What `traced` put side by side; between the codes and the images are the units of the second layer."""
    if len({trace.shape for trace in traces}) > 1:
        raise SystemExit("a model was trained by itself, and its trace is of the usual layer")
    ends = (0, latents, traces[0].shape[-1] - math.prod(image_shape), traces[0].shape[-1])
    return {name: [trace[..., a:b] for trace in traces] for name, a, b in zip(LAYERS, ends, ends[1:])}


@contextmanager
def traced() -> Iterator[None]:
    """Populations that are trained inside have traces of all these layers side by side."""
    before = PopulationLearner.activations

    def activations(self: PopulationLearner, x: Any) -> np.ndarray:
        mean, _ = self.encode(x.expand(len(self.members), *x.shape))
        found = [layer(self, mean).detach().flatten(2).cpu().numpy() for layer in LAYERS.values()]
        return np.concatenate(found, axis=-1).astype(np.float16)

    PopulationLearner.activations = activations  # type: ignore[method-assign]
    try:
        yield
    finally:
        PopulationLearner.activations = before  # type: ignore[method-assign]


def vary_udr(studies: list[Path]) -> list[dict[str, Any]]:
    """UDR_L of each method's models with four metrics: mean rank correlation, over all models, of the settings' means,
    and within settings; with other thresholds, and without models that found little."""
    lines = []
    for path in studies:
        study = Study(path)
        scores = wide_table(study.words_of(FOUR))
        names = [scores.names.index(name) for name in FOUR]
        for (data, method), rows in scores.groups("data", "method"):
            runs = scores.runs.iloc[rows]
            codes, kl = zip(*(study.codes(run) for run in runs["run"]))
            groups = list(runs["setting"])
            metrics = scores.values[np.ix_(rows, names)]
            for name, options in {
                "as it is": {},
                "active above .01": {"kl_threshold": 0.01},
                "active above .2": {"kl_threshold": 0.2},
                "Spearman": {"similarity": "spearman"},
            }.items():
                value = np.asarray(udr(codes, kl, groups, seed=0, **options).scores)
                lines.append(_line(data, method, name, value, metrics, groups))
                if name == "as it is":
                    active = np.array([int((one > 0.05).sum()) for one in kl])
                    many = active >= np.median(active)
                    kept = [group for group, keep in zip(groups, many) if keep]
                    words = "models with the median of active latents or more"
                    lines.append(_line(data, method, words, value[many], metrics[many], kept))
                    lines.append(
                        _line(data, method, "number of active latents in place of UDR", active, metrics, groups)
                    )
                print(lines[-1], flush=True)
    return lines


def _line(
    data: str, method: str, name: str, value: np.ndarray, metrics: np.ndarray, groups: list[str]
) -> dict[str, Any]:
    frame = pd.DataFrame(np.column_stack([value, metrics])).assign(setting=groups)
    means = frame.groupby("setting", sort=False).mean()
    within = [part.drop(columns="setting") for _, part in frame.groupby("setting") if len(part) > 3]

    def mean_rho(part: pd.DataFrame) -> float:
        return float(part.corr("spearman").iloc[0, 1:].mean())

    over = [r for part in within if np.isfinite(r := mean_rho(part))]
    return {
        "data": str(data),
        "method": str(method),
        "variation": name,
        "models": len(frame),
        "all": round(mean_rho(frame.drop(columns="setting")), 4),
        "settings": round(mean_rho(means), 4),
        "within": round(float(np.mean(over)), 4) if over else None,
    }


def vary_noise(studies: list[Path]) -> list[dict[str, Any]]:
    """Pearson correlation over models of scores under label noise with those under true labels.

    The table has all models judged by the same rows and the same wrong labels; here these are drawn anew for each.
    """
    lines = []
    for path in studies:
        study = Study(path)
        frame = study.frame[study.frame["factor"] == ""]
        noisy = frame[frame["metric"].str.contains("_noise_")]
        runs = noisy.drop_duplicates("run").set_index("run")
        wide = noisy.pivot(index="run", columns="metric", values="value").loc[runs.index]
        codes = [study.codes(run)[0] for run in runs.index]
        factors = study.inputs(runs["data"].iloc[0])[1]
        for name, (metric, _) in THREE.items():
            table = wide[[f"{metric}_noise_{regime}" for regime in range(4)]].to_numpy()
            apart = np.array([_noisy(one, factors, metric, i) for i, one in enumerate(codes)])
            other = np.array([_noisy(one, factors, metric, i, halves=True) for i, one in enumerate(codes)])
            for words, scores in (
                ("as it is: the same rows and wrong labels for all models", table),
                ("wrong labels drawn for each model", apart),
                ("wrong labels drawn for each model, true and wrong ones of different rows", other),
            ):
                lines.append({"variation": words, "score": name, "over": "all models", "r": _pearson(scores)})
                within = [_pearson(scores[rows]) for rows in runs.reset_index().groupby("setting").indices.values()]
                lines.append({**lines[-1], "over": "seeds of a setting", "r": rounded(np.nanmean(within, axis=0))})
                print(lines[-2:], flush=True)
    return lines


def _noisy(codes: np.ndarray, factors: np.ndarray, metric: str, seed: int, *, halves: bool = False) -> list[float]:
    """A metric with true labels and in the three regimes. halves: with true labels of one half of the rows, and with
    wrong ones of the other."""
    half = len(codes) // 2
    true, wrong = (slice(half), slice(half, None)) if halves else (slice(None), slice(None))
    found = [karenina.score(codes[true], factors[true], [metric])]
    for regime in (1, 2, 3):
        found.append(karenina.score(codes[wrong], label_noise(factors[wrong], regime, seed=seed), [metric]))
    return [float(table[metric]) for table in found]


def _pearson(scores: np.ndarray) -> list[float]:
    """Of the first column with each other one."""
    with np.errstate(invalid="ignore"):
        return rounded(np.corrcoef(scores.T)[0, 1:])


def vary_variance(studies: list[Path]) -> list[dict[str, Any]]:
    """Variance explained by method and by setting, with other models and other scores; and how much is measuring."""
    lines = []
    for path in studies:
        study = Study(path)
        words = study.words_of(SIX)
        active = words[words["metric"] == "informative_latents"].set_index("run")["value"]
        words = words[words["metric"].isin(SIX)]
        ranks = words.assign(value=words.groupby(["data", "metric"])["value"].rank())
        alive = words[words["run"].map(active) >= 3]
        for name, part in {
            "as it is": words,
            "ranks of the scores": ranks,
            "models with 3 active latents or more": alive,
            "three strengths of six (first, third, last)": words[_few_strengths(words)],
        }.items():
            found = variance_explained(part)
            for (data, predictor), rows in found.groupby(["data", "predictor"], sort=False):
                shares = dict(zip(rows["score"], rounded(rows["adjusted"])))
                lines.append({"data": data, "variation": name, "predictor": predictor, "shares": shares})
        lines += _measuring(study, words)
    return lines


def _few_strengths(frame: pd.DataFrame) -> pd.Series:
    order = frame.groupby(["data", "method"])["strength"].rank("dense")
    return order.isin([1, 3, order.max()])


def _measuring(study: Study, words: pd.DataFrame) -> list[dict[str, Any]]:
    """The share of a score's variance that comes back with other rows: the correlation of scores of two halves of them,
    by Spearman and Brown's formula for the whole. Without DCI, whose trees take hours."""
    lines = []
    for data, rows in words.drop_duplicates("run").groupby("data", sort=False):
        factors = study.inputs(str(data))[1]
        halves = (slice(0, len(factors) // 2), slice(len(factors) // 2, None))
        shares = {}
        for name, (metric, _) in SIX.items():
            if metric.startswith("dci"):
                continue
            both = []
            for run in rows["run"]:
                codes = study.codes(run)[0]
                both.append([float(karenina.score(codes[h], factors[h], [metric])[metric]) for h in halves])
            r = np.corrcoef(np.array(both).T)[0, 1]
            shares[name] = round(float(2 * r / (1 + r)), 4)
            print(data, name, shares[name], flush=True)
        lines.append({"data": data, "variation": "other rows", "predictor": "model", "shares": shares})
    return lines


# Teapots were tried with these: side, network, method, its parameters, steps, learning rate; seed 0.
_GAN = {"mi_weight": 6, "critic_steps": 1}
TRIED: list[tuple[int, str, str, dict[str, Any], int, float]] = [
    (32, "conv32", "vae", {}, 2_000, 1e-3),
    (32, "conv32", "vae", {}, 10_000, 1e-3),
    (32, "conv32", "beta_vae", {"beta": 6}, 2_000, 1e-3),
    (32, "conv32", "beta_vae", {"beta": 6}, 10_000, 1e-3),
    (32, "conv32", "infogan", _GAN, 2_000, 1e-4),
    (32, "conv32", "infogan", _GAN, 4_000, 1e-4),
    *((16, "mlp256", "infogan", _GAN, 10_000, rate) for rate in (1e-4, 3e-4, 1e-3)),
]


def vary_teapots(folders: list[Path]) -> list[dict[str, Any]]:
    """Methods of `eastwood2018` with other images, networks, steps and rates. Kept after each, which takes minutes;
    what was kept before is not trained again."""
    before, lines = json.loads(KEPT.read_text())["teapots"], []
    for side, network, method, parameters, steps, rate in TRIED:
        about = {"side": side, "network": network, "method": method, "steps": steps, "learning_rate": rate}
        known = [one for one in before if about.items() <= one.items()]
        if not known:
            data = karenina.load(f"teapots:gap=exclude,part=train,side={side}")
            options = {"network": network, "latents": 10, "steps": steps, "learning_rate": rate, **parameters}
            run = karenina.train(data, method, out=folders[0] / f"{method}-{side}-{steps}-{rate:g}", **options)
            found = karenina.evaluate(run, data, metrics=["dci_lasso"], also=["regression"], rows=3000)
            parts = {
                f"{metric} {part}": round(value, 4)
                for metric, _, part, of, value, _ in found.rows()
                if metric in ("regression_lasso", "regression_forest") and of == ""
            }
            known = [{**about, **parts}]
            print(known[0], flush=True)
            keep("teapots", lines + known)
        lines += known
    return lines


def keep(part: str, lines: list[dict[str, Any]]) -> None:
    found = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    KEPT.write_text(json.dumps({**found, part: lines}, indent=1) + "\n")
    page()


VARIED = {"teapots": vary_teapots, "udr": vary_udr, "noise": vary_noise, "variance": vary_variance}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("dynamics")
    one.add_argument("studies", type=Path, nargs="+")
    one.add_argument("--layers", type=Path, metavar="FOLDER")
    one.add_argument("--data", metavar="NAME", help="only this data set")
    for name in VARIED:
        commands.add_parser(name).add_argument("studies", type=Path, nargs="+")
    commands.add_parser("page")
    options = parser.parse_args()
    if options.command == "dynamics":
        vary_dynamics(options.layers, options.studies, options.data)
    elif options.command in VARIED:
        keep(options.command, VARIED[options.command](options.studies))
    else:
        page()


if __name__ == "__main__":
    main()
