"""Rank trained runs, without labels: by agreement between models (UDR), by training dynamics, or by a score of each."""

import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina._files import atomic
from karenina.evaluation.scoring import Evaluation, data_of, evaluate
from karenina.studies.plan.plan import Selection
from karenina.studies.results.several_models import udr_version

if TYPE_CHECKING:
    import pandas as pd

    from karenina.data import DataSet
    from karenina.training import Run

UDR = {"udr": "lasso", "udr-s": "spearman", "udr-a2a": "lasso_a2a", "udr-s-a2a": "spearman_a2a"}
# Scores of one model; those after a minus sign are better when small.
SINGLE = {
    "elbo": "elbo",
    "reconstruction": "-reconstruction",
    "kl": "-kl",
    "total-correlation": "-total_correlation_sampled",
    "mutual-information": "-mutual_information_mean",
    "active-units": "informative_latents",
}
WAYS = (*UDR, "dynamics", "orthogonality", "support", *SINGLE)


@dataclass(frozen=True, eq=False)
class RunRanking:
    """Runs from best to worst. frame: rank, run, setting, seed, score, low, high, informative. by: how.

    informative: the number of latents whose KL from the prior is above `kl_threshold` nats.
    best_per_informative: number of informative latents -> the best run that has it, since UDR does not reward
    finding more factors. similarity: (best pair, worst pair) of runs with their matrices, for UDR.
    """

    frame: "pd.DataFrame"
    by: str
    kl_threshold: float
    best_per_informative: dict[int, str]
    pairs: tuple[tuple[str, str, NDArray[np.float64]], ...] = ()


def setting_of(run: "Run") -> str:
    """What a run shares with the runs that differ from it only by their seed."""
    c = run.config
    parameters = " ".join(f"{name}={value}" for name, value in c.parameters.items())
    return f"{c.method} {parameters} {c.network} {c.latents} latents {c.steps} steps"


def rank(
    runs: "Sequence[Run | str | os.PathLike[str]]",
    by: str = "udr",
    *,
    rows: int = 5_000,
    seed: int = 0,
    kl_threshold: float = ACTIVE_KL,
    data: "DataSet | str | os.PathLike[str] | None" = None,
    data_dir: str | os.PathLike[str] | None = None,
    evaluations: Sequence[Evaluation] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RunRanking:
    """Rank runs (or their directories) of one data set. by: one of `WAYS`; higher scores are better in all of them.

    Every run encodes the same `rows` images. UDR compares runs that differ only by their seed ("udr", "udr-s": to
    choose a setting) or all runs ("udr-a2a", "udr-s-a2a": to choose a model), as studies do. data: what the runs were
    trained on, if it is your own: the data set, or where it is.
    """
    import pandas as pd

    if by not in WAYS:
        raise ValueError(f"cannot rank by {by!r}; choose one of {', '.join(WAYS)}")
    opened, names = _open_all(runs)
    if data is None or isinstance(data, str | os.PathLike):
        data = data_of(opened[0], data_dir, data)
    settings = [setting_of(run) for run in opened]
    if evaluations is None:
        evaluations = []
        for i, run in enumerate(opened):
            evaluations.append(evaluate(run, data, metrics=(), rows=rows, seed=seed))
            if progress:
                progress(i + 1, len(opened))
    informative = np.array([int((e.kl > kl_threshold).sum()) for e in evaluations])
    interval = np.full((len(opened), 2), np.nan)
    pairs: tuple[tuple[str, str, NDArray[np.float64]], ...] = ()
    if by in UDR:
        codes, kl = [e.codes for e in evaluations], [e.kl for e in evaluations]
        chosen = Selection(kl_threshold=kl_threshold)
        found = udr_version(UDR[by], codes, kl, settings, chosen, seed=seed, matrices=True)
        scores, interval = found.scores, found.interval
        pairs = _extreme_pairs(found, names)
    elif by == "dynamics":
        scores = _dynamics(opened, names, settings, seed)
    elif by in ("orthogonality", "support"):
        scores = np.array([_single(by, run, e, kl_threshold) for run, e in zip(opened, evaluations)])
    else:
        name = SINGLE[by].lstrip("-")
        sign = -1 if SINGLE[by].startswith("-") else 1
        scores = np.array([sign * e.label_free[name] for e in evaluations])
    table = pd.DataFrame(
        {
            "run": names,
            "setting": settings,
            "seed": [run.config.seed for run in opened],
            "score": scores,
            "low": interval[:, 0],
            "high": interval[:, 1],
            "informative": informative,
        }
    )
    table = table.sort_values("score", ascending=False, kind="stable", na_position="last").reset_index(drop=True)
    table.insert(0, "rank", np.arange(1, len(table) + 1))
    best: dict[int, str] = {}
    for row in table.itertuples():
        if row.informative > 0 and np.isfinite(row.score):
            best.setdefault(int(row.informative), str(row.run))
    return RunRanking(table, by, kl_threshold, dict(sorted(best.items())), pairs)


def _open_all(runs: "Sequence[Run | str | os.PathLike[str]]") -> "tuple[list[Run], list[str]]":
    from karenina.training import open as open_run

    opened: list[Run] = []
    names: list[str] = []
    seen: dict[str, str] = {}
    for i, given in enumerate(runs):
        run = open_run(given) if isinstance(given, (str, os.PathLike)) else given
        name = str(given) if isinstance(given, (str, os.PathLike)) else str(run.path or f"run {i}")
        key = json.dumps(run.config.to_json(), sort_keys=True)
        if key in seen:
            warnings.warn(f"{name} is the same run as {seen[key]}; counted once", stacklevel=3)
            continue
        seen[key] = name
        opened.append(run)
        names.append(name)
    if not opened:
        raise ValueError("no runs to rank")
    for run, name in zip(opened, names):
        if (run.config.data, run.config.images) != (opened[0].config.data, opened[0].config.images):
            raise ValueError(
                f"{names[0]} was trained on {opened[0].config.data} and {name} on {run.config.data}"
                f"{' (other images)' if run.config.data == opened[0].config.data else ''}: rank runs of one data set"
            )
    return opened, names


def _extreme_pairs(found: Any, names: list[str]) -> tuple[tuple[str, str, NDArray[np.float64]], ...]:
    """The most and the least similar pair with their similarity matrices: Duan et al. (2020), figure 5."""
    if not found.matrices:
        return ()
    values = {pair: found.pairwise[pair] for pair in found.matrices}
    chosen = (max(values, key=values.__getitem__), min(values, key=values.__getitem__))
    return tuple((names[i], names[j], found.matrices[i, j]) for i, j in chosen)


def _dynamics(opened: "list[Run]", names: list[str], settings: list[str], seed: int) -> NDArray[np.float64]:
    from karenina.selection import dynamics

    without = [name for run, name in zip(opened, names) if run.trace is None]
    if without:
        raise ValueError(f"{without[0]} has no trace; train with --set trace=true to rank by dynamics")
    found = dynamics([run.trace for run in opened if run.trace is not None], settings, seed=seed)
    by_group = dict(zip(found.groups, found.scores))
    return np.array([by_group[setting] for setting in settings])


def _single(by: str, run: "Run", evaluation: Evaluation, kl_threshold: float) -> float:
    from karenina.selection import factorised_support, orthogonality
    from karenina.training.jacobian import decoder_jacobian

    alive = evaluation.kl > kl_threshold
    if not alive.any():
        return float("nan")
    if by == "support":
        return -float(factorised_support(evaluation.codes[:, alive]))
    return float(orthogonality(decoder_jacobian(run, evaluation.codes[:64])[:, :, alive]))


def plot_pairs(ranking: RunRanking, path: str | os.PathLike[str]) -> None:
    """Draw the similarity matrices of the best and the worst pair."""
    from karenina._figures import Figure

    if not ranking.pairs:
        raise ValueError(f"ranking by {ranking.by} compares no pairs, so there are no similarity matrices to draw")
    figure = Figure(figsize=(9, 4.6), dpi=110, layout="constrained")
    for axis, (first, second, matrix), label in zip(figure.subplots(1, 2), ranking.pairs, ("most", "least")):
        shown = axis.imshow(matrix, cmap="viridis", vmin=0, vmax=max(1.0, float(matrix.max())))
        axis.set_title(f"{label} similar pair", fontsize=10)
        axis.set_xlabel(f"latent of {Path(second).name}", fontsize=8)
        axis.set_ylabel(f"latent of {Path(first).name}", fontsize=8)
        figure.colorbar(shown, ax=axis, shrink=0.8)
    with atomic(path) as part:
        figure.savefig(part)
