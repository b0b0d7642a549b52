"""Rank trained runs, without labels: by agreement between models (UDR), by training dynamics, or by a score of each."""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina._files import atomic, read_json
from karenina._notebook import table
from karenina._settings import setting_of
from karenina._words import hint
from karenina.evaluation.criteria import CRITERIA, OF_ONE_MODEL, UDR_VERSIONS, compute_udr, full_name
from karenina.evaluation.scoring import Data, Evaluation, data_of, evaluate, explained_variance, inputs
from karenina.selection import (
    Ranking,
    dynamics,
    factorised_codes,
    factorised_support,
    fixed_latent_score,
    model_centrality,
    orthogonality,
    pipe_score,
)
from karenina.selection._udr import best_per_active, from_best
from karenina.selection.choice import Choice, choose_from_codes
from karenina.training import Config, Run
from karenina.training.run import as_run, decoder_jacobian, discriminator_accuracy, is_stopped

if TYPE_CHECKING:
    import pandas as pd

# Model centrality and PIPE, from pictures that runs generate.
BATCH = 16  # pictures of a vote of centrality
VOTES = 20  # of each active latent
PICTURES = 2_000  # of either kind, for PIPE
PARTNERS = 50  # others that centrality compares a run with, if there are more


@dataclass(frozen=True, eq=False)
class RunRanking:
    """Runs from best to worst by a selection criterion.

    Attributes
    ----------
    frame : DataFrame
        rank, run, setting, seed, score, low, high, active (latents whose KL is above `kl_threshold` nats).
    by : str
        The criterion.
    runs : tuple of Run
        In the order of the frame.
    best_per_informative : dict
        Number of active latents -> the best run that has it, since UDR does not reward finding more factors.
    pairs : tuple
        For UDR, the most and the least similar pair of runs, each with its similarity matrix.
    choice : Choice, optional
        For the consensus, what the choice rests on, and how far it can be trusted: `choice.judge`.
    """

    frame: "pd.DataFrame"
    by: str
    kl_threshold: float
    runs: tuple[Run, ...]
    best_per_informative: dict[int, str]
    pairs: tuple[tuple[str, str, NDArray[np.float64]], ...] = ()
    choice: Choice | None = None

    def _repr_html_(self) -> str:
        caption = f"by {self.by}; active: latents with a KL above {self.kl_threshold:g} nats"
        return table(self.frame.columns, self.frame.itertuples(index=False), caption)

    @property
    def best(self) -> Run:
        """Return the run with the highest score, of those with an active latent."""
        if not np.isfinite(self.frame["score"]).any():
            raise ValueError(f"no run has a score by {self.by}, so none is best")
        able = self.able
        if not len(able):
            raise ValueError(
                f"no run with a score by {self.by} has an active latent (KL above {self.kl_threshold:g} nats), "
                "so none is best"
            )
        return self.runs[able[0]]

    @property
    def able(self) -> NDArray[np.int64]:
        """Return the rows of the frame that have a score and an active latent, the best first."""
        return from_best(_in_order(self.frame, self.choice), self.frame["active"])


def settings_apart(configs: Sequence[Config]) -> tuple[list[str], str]:
    """Return what sets each setting apart from the others, and what all that have it share; seed and data set aside.

    >>> import karenina
    >>> runs = [karenina.train("blobs", beta=beta, latents=2, steps=1) for beta in (1, 4)]
    >>> apart, shared = settings_apart([run.config for run in runs])
    >>> apart, shared.split(", ")[:2]
    (['beta=1.0', 'beta=4.0'], ['beta_vae', '1 steps'])
    """
    left_out = ("data", "images", "image_shape", "seed", "parameters")
    found = []
    for config in configs:
        settings = {name: value for name, value in config.to_json().items() if name not in left_out}
        found.append({"method": settings.pop("method"), **config.parameters, **settings})
    names = list(dict.fromkeys(name for one in found for name in one))
    values = {name: [one[name] for one in found if name in one] for name in names}
    same = [name for name in names if all(value == values[name][0] for value in values[name])]
    apart = [" ".join(_said(name, one[name]) for name in names if name in one and name not in same) for one in found]
    return apart, ", ".join(_said(name, values[name][0]) for name in same)


def _said(name: str, value: Any) -> str:
    """Return a setting in words, as "10 latents" or "beta=4.0"."""
    if name in ("method", "network"):
        return str(value)
    return f"{value} {name}" if name in ("latents", "steps") else f"{name}={value}"


def rank(
    runs: str | os.PathLike[str] | Sequence[Run | str | os.PathLike[str]],
    by: str = "consensus",
    *,
    rows: int = 10_000,
    seed: int = 0,
    kl_threshold: float = ACTIVE_KL,
    data: Data | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RunRanking:
    """Rank runs of one data set without labels.

    Parameters
    ----------
    runs : sequence of Run or path, or a path
        A path is a run, a directory that holds runs, or a study, of which all finished runs are taken; where none is
        finished, those that were stopped, at the step of their checkpoint.
    by : str
        One of `CRITERIA`; higher scores are better in all of them. "consensus" makes the same choice as `fit` and
        `report`, settings whose seeds agree first (see karenina.selection.choice). "udr" (short for "udr_lasso") and
        "udr_spearman" compare runs that differ by their seed alone: to choose a setting. "udr_a2a" (for
        "udr_lasso_a2a") and "udr_spearman_a2a" compare all runs: to choose a run. So does "centrality".
        "active_units" counts latents by their KL, while `karenina.selection.active_units` counts them by variance
        (Burda et al. 2016). "pipe", "centrality", "orthogonality" and "support" give NaN to a run without an active
        latent, the last two also to a run with one, which has no pair to judge.
    rows : int
        Images that every run encodes.
    seed : int
        Decides which images.
    kl_threshold : float
        A latent is active above this KL, in nats.
    data : DataSet, path or array (n, c, h, w), optional
        What the runs were trained on, if that is your own.
    data_dir : path, optional
        The folder with official files.
    progress : called with the number of runs that are encoded and the number of all, optional

    Returns
    -------
    RunRanking
        `.best` is a run, `.frame` the table.

    >>> import karenina
    >>> runs = [karenina.train("blobs", beta=1, latents=2, steps=50, seed=seed) for seed in (0, 1)]
    >>> rank(runs, by="elbo", rows=50).best in runs
    True
    """
    import pandas as pd

    by = full_name(by)
    if by not in CRITERIA:
        raise ValueError(f"cannot rank by {by!r}; {hint(by, ('udr', 'udr_a2a', *CRITERIA))}")
    listed = list(runs) if isinstance(runs, Iterable) and not isinstance(runs, str) else [runs]
    opened, names = _open_all([run for one in listed for run in _expanded(one)])
    found_data = data_of(opened[0], data, data_dir)
    settings = [setting_of(run.config) for run in opened]
    evaluations = []
    for i, run in enumerate(opened):
        if progress is not None:
            progress(i, len(opened))
        evaluations.append(evaluate(run, found_data, metrics=(), rows=rows, seed=seed))
    if progress is not None:
        progress(len(opened), len(opened))
    active = np.array([int((e.kl > kl_threshold).sum()) for e in evaluations])
    interval = np.full((len(opened), 2), np.nan)
    pairs: tuple[tuple[str, str, NDArray[np.float64]], ...] = ()
    choice: Choice | None = None
    if by == "consensus":
        if len(opened) < 2:
            raise ValueError(f"models are compared with one another: give at least 2; got {len(opened)}")
        images = inputs(found_data, rows, seed)[0]
        choice = choose_from_codes(
            [e.codes for e in evaluations],
            [e.kl for e in evaluations],
            settings,
            lambda i: explained_variance(opened[i], images, evaluations[i].codes),
            elbo=[e.label_free.get("elbo", np.nan) for e in evaluations],
            kl_threshold=kl_threshold,
        )
        scores = choice.scores
    elif by in UDR_VERSIONS:
        codes, kl = [e.codes for e in evaluations], [e.kl for e in evaluations]
        found = compute_udr(by, codes, kl, settings, kl_threshold=kl_threshold, seed=seed, matrices=True)
        scores, interval = found.scores, found.interval
        pairs = _extreme_pairs(found, names)
    elif by == "dynamics":
        scores = _dynamics(opened, names, settings, seed)
    elif by == "centrality":
        scores = centrality(opened, [e.kl > kl_threshold for e in evaluations], seed)
    elif by == "pipe":
        scores = np.array([pipe(run, e.codes, seed) if n else np.nan for run, e, n in zip(opened, evaluations, active)])
    elif by in ("orthogonality", "support"):
        scores = np.array([_by_pairs_of_latents(by, run, e, kl_threshold) for run, e in zip(opened, evaluations)])
    elif by == "active_units":
        scores = active.astype(float)
    else:
        name = OF_ONE_MODEL[by].lstrip("-")
        sign = -1 if OF_ONE_MODEL[by].startswith("-") else 1
        scores = np.array([sign * e.label_free[name] for e in evaluations])
    settings_text = []
    for run in opened:
        parameters = " ".join(f"{name}={value}" for name, value in run.config.parameters.items())
        network = f"{run.config.network} {run.config.latents} latents"
        settings_text.append(f"{run.config.method} {parameters} {network} {run.steps_text}")
    frame = pd.DataFrame(
        {
            "run": names,
            "setting": settings_text,
            "seed": [run.config.seed for run in opened],
            "score": scores,
            "low": interval[:, 0],
            "high": interval[:, 1],
            "active": active,
        }
    )
    if choice is None:
        frame = frame.sort_values("score", ascending=False, kind="stable", na_position="last")
    else:
        frame = frame.loc[choice.order]
    ordered = tuple(opened[i] for i in frame.index)
    frame = frame.reset_index(drop=True)
    frame.insert(0, "rank", np.arange(1, len(frame) + 1))
    leaders = best_per_active(_in_order(frame, choice), frame["active"])
    best = {count: str(frame["run"][i]) for count, i in leaders.items()}
    return RunRanking(frame, by, kl_threshold, ordered, best, pairs, choice)


def _in_order(frame: "pd.DataFrame", choice: Choice | None) -> NDArray[np.float64]:
    """Return what the rows of a ranking are ordered by: their scores, or, of a choice, their places."""
    scores = frame["score"].to_numpy(float)
    return scores if choice is None else np.where(np.isfinite(scores), -np.arange(len(scores), dtype=float), np.nan)


def _expanded(run: Run | str | os.PathLike[str]) -> list[Run | Path]:
    """Return a run, or all finished runs of a directory or of a study; where none is, those that were stopped."""

    if not isinstance(run, str | os.PathLike):
        return [run]
    path = Path(run)
    if (path / "run.json").exists() or not path.is_dir():
        return [path]
    found = sorted(file.parent for where in (path, path / "runs") for file in where.glob("*/run.json"))
    taken: list[Run | Path] = [one for one in found if _finished(one)] or [one for one in found if is_stopped(one)]
    if not taken:
        what = f"none of the {len(found)} runs in {path} is finished, or has a checkpoint"
        what = what if found else f"{path} holds no runs"
        raise ValueError(f"{what}; expected runs, a directory that holds them, or a study")
    return taken


def _finished(path: Path) -> bool:
    """Return whether a run says that it is finished, or cannot be read."""
    try:
        return bool(read_json(path / "run.json")["status"] == "finished")
    except (ValueError, KeyError, TypeError, OSError):
        return True  # to open it says what is wrong


def _open_all(runs: Sequence[Run | str | os.PathLike[str]]) -> tuple[list[Run], list[str]]:
    """Return different runs of one data set, and their names."""

    opened: list[Run] = []
    names: list[str] = []
    seen: dict[str, str] = {}
    for i, one in enumerate(runs):
        run = as_run(one, f"runs[{i}]")
        name = str(one) if isinstance(one, str | os.PathLike) else str(run.path or f"run {i}")
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


def _extreme_pairs(found: Ranking, names: list[str]) -> tuple[tuple[str, str, NDArray[np.float64]], ...]:
    """Return the most and the least similar pair with their similarity matrices: Duan et al. (2020), figure 5."""
    if not found.matrices:
        return ()
    values = {pair: found.pairwise[pair] for pair in found.matrices}
    chosen = (max(values, key=values.__getitem__), min(values, key=values.__getitem__))
    return tuple((names[i], names[j], found.matrices[i, j]) for i, j in chosen)


def _dynamics(opened: list[Run], names: list[str], settings: list[str], seed: int) -> NDArray[np.float64]:
    """Return the score of each run's setting by the stability of its training."""

    without = [name for run, name in zip(opened, names) if run.trace is None]
    if without:
        raise ValueError(f"{without[0]} has no trace; train with --set trace=true to rank by dynamics")
    found = dynamics([run.trace for run in opened if run.trace is not None], settings, seed=seed)
    by_group = dict(zip(found.groups, found.scores))
    return np.array([by_group[setting] for setting in settings])


def _by_pairs_of_latents(by: str, run: Run, evaluation: Evaluation, kl_threshold: float) -> float:
    """Return the orthogonality or the factorised support of a run's active latents."""

    active = evaluation.kl > kl_threshold
    if active.sum() < 2:  # no pair of latents to judge
        return float("nan")
    if by == "support":
        return -float(factorised_support(evaluation.codes[:, active]))
    return float(orthogonality(decoder_jacobian(run, evaluation.codes[:64])[:, :, active]))


def plot_pairs(ranking: RunRanking, path: str | os.PathLike[str]) -> None:
    """Draw the similarity matrices of the best and the worst pair."""
    from karenina.drawing.figure import Figure

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


def centrality(runs: Sequence[Run], active: Sequence[NDArray[np.bool_]], seed: int = 0) -> NDArray[np.float64]:
    """Return the model centrality of each run (Lin et al. 2020); NaN for runs without an active latent.

    Each run decodes codes from the prior with one active latent fixed per batch; all others encode the pictures. Among
    more than 51 runs, each has 50 of the others as partners, at random: half encode its pictures, and half the other
    way round.
    """
    able = [i for i, latents in enumerate(active) if latents.any()]
    scores = np.full(len(runs), np.nan)
    if len(runs) < 2:
        raise ValueError("centrality compares runs with each other: give two or more")
    if len(able) < 2:
        return scores
    similarity = np.full((len(able), len(able)), np.nan)
    order = np.random.default_rng(seed).permutation(len(able))
    for place, row in enumerate(order):
        i = able[row]
        pictures, fixed = _with_a_latent_fixed(runs[i], active[i], np.random.default_rng([seed, i]))
        others = np.roll(order, -place)[1:]  # all of them, or those at the next places of a circle
        for column in others if len(others) <= PARTNERS else others[: PARTNERS // 2]:
            j = able[column]
            codes = runs[j].encode(pictures)[0][:, active[j]]
            batches = codes.reshape(len(fixed), BATCH, -1)
            similarity[row, column] = fixed_latent_score(batches, fixed, codes.std(axis=0))
    scores[able] = model_centrality(similarity)
    return scores


def _with_a_latent_fixed(
    run: Run, active: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Draw pictures of codes from the prior, and which active latent was fixed in each batch of them."""
    fixed = np.tile(np.repeat(np.flatnonzero(active), 2), VOTES // 2)
    codes = rng.standard_normal((len(fixed), BATCH, run.latents))
    codes[np.arange(len(fixed)), :, fixed] = rng.standard_normal((len(fixed), 1))
    return run.decode(codes.reshape(-1, run.latents)), fixed


def pipe(run: Run, codes: NDArray[np.float32], seed: int = 0) -> float:
    """Return PIPE of a run from mean codes (n, L) of its data (Estermann and Wattenhofer 2023): 1 is best."""

    own = codes[:PICTURES]
    other = factorised_codes(codes, len(own), seed=seed)
    return pipe_score(discriminator_accuracy(run.decode(own), run.decode(other), seed=seed))
