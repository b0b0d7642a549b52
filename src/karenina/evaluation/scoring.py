"""Score a trained run: encode once, then every metric, label-free score and the terms of the ELBO."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._active import ACTIVE_KL
from karenina.evaluation.data import Data, data_of, inputs
from karenina.evaluation.more import Measured, has_gap, more_rows
from karenina.evaluation.more import Row as MoreRow
from karenina.metrics import scoring
from karenina.metrics.label_free import gaussian_total_correlation, gaussian_wasserstein_correlation, mutual_information
from karenina.metrics.registry import METRICS
from karenina.metrics.table import Row, Table
from karenina.numerics.gaussian import kl_per_latent

if TYPE_CHECKING:
    from karenina.data import DataSet
    from karenina.training import Run

# A grid of at most this many images is encoded whole, and interventions are drawn from all of it.
WHOLE_GRID = 20_000
SCORE_COLUMNS = ("metric", "family", "property", "factor", "value", "std")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What is known of a run on `rows` inputs. codes, logvar: (rows, L). factors: (rows, k). kl: (L,).

    table: the metrics (None without factors). label_free: name -> number. more: further rows of SCORE_COLUMNS.
    """

    table: Table | None
    codes: NDArray[np.float32]
    logvar: NDArray[np.float32]
    factors: NDArray[Any]
    kl: NDArray[np.float64]
    label_free: dict[str, float]
    more: tuple[MoreRow, ...] = ()

    def rows(self) -> list[list[Any]]:
        """Rows of SCORE_COLUMNS, `factor` empty for the whole; None for what is not finite, since JSON has no NaN."""
        found: list[tuple[Any, ...]] = []
        if self.table is not None:
            families = {row.metric: row.family for row in self.table.rows}
            found += [(row.metric, row.family, row.property, "", row.value, row.std) for row in self.table.rows]
            for metric, prop, factor, value in self.table.per_factor.itertuples(index=False):
                found.append((metric, families.get(metric, ""), prop, factor, value, math.nan))
        found += [(name, "label-free", "", "", value, math.nan) for name, value in self.label_free.items()]
        found += self.more
        return [[*row[:4], *(float(v) if math.isfinite(v) else None for v in row[4:])] for row in found]


def evaluate(
    run: "Run",
    data: "DataSet | None" = None,
    *,
    metrics: scoring.Wanted = None,
    protocol: str | None = None,
    repeats: int = 1,
    seed: int = 0,
    rows: int = 10_000,
    tasks: bool = False,
    also: Sequence[str] = (),
) -> Evaluation:
    """Score a run: encode `rows` images once, then every metric and label-free score.

    Parameters
    ----------
    run : Run
    data : DataSet, optional
        By default the set that the run was trained on.
    metrics, protocol, repeats, seed
        As in `karenina.score`; metrics=() computes only what needs no labels.
    rows : int
        Images to encode. The predictors of protocol "locatello" and the tasks are tested on half as many others.
    tasks : bool
        Also downstream prediction and fairness, about a minute per run, and zero-shot inference of data with a gap.
    also : names
        Of "regression", "zero_shot" and "label_noise": see `karenina.evaluation.more`.

    Returns
    -------
    Evaluation

    The intervention metrics draw from the whole encoded grid where it has at most 20,000 images, so that they see every
    combination of factors; otherwise from the table of encoded rows.

    >>> import karenina
    >>> run = karenina.train("blobs", "vae", latents=2, steps=1)
    >>> evaluate(run, metrics=["mig"], rows=100).codes.shape
    (100, 2)
    """
    data = data_of(run) if data is None else data
    if not data.labelled:
        _no_labels(data, metrics, protocol, tasks, also)
    images, factors = inputs(data, rows, seed)
    mean, logvar = run.encode(images)
    kl = kl_per_latent(mean, logvar)
    label_free = _label_free(run, images, mean, logvar, kl, seed)
    table = None
    if data.labelled and metrics != ():
        continuous = [size is None for size in data.factor_sizes]
        sampler = _grid_sampler(run, data)
        # Locatello et al. (2019), appendix C: predictors are trained on 10,000 rows and tested on 5,000 others.
        apart = protocol == "locatello" and any(
            name in METRICS and METRICS[name].tests for name in scoring.select(metrics, protocol)
        )
        other = None
        if tasks or apart:
            unseen, truth = inputs(data, rows // 2, seed + 1)
            other = run.encode(unseen)[0], truth
        table = scoring.score(
            mean,
            factors,
            metrics,
            protocol,
            repeats,
            seed,
            factor_names=data.factor_names,
            continuous=continuous,
            sampler=sampler,
            test=other if apart else None,
        )
        if tasks:
            table = with_tasks(table, mean, factors, continuous, seed, sampler, other)
    names = dict.fromkeys([*also, *(["zero_shot"] if tasks and has_gap(data.name) else [])])
    measured = Measured(run, data, mean, factors, protocol, seed)
    rest = more_rows(list(names), measured) if table is not None else []
    return Evaluation(table, mean, logvar, factors, kl, label_free, tuple(rest))


def _no_labels(
    data: "DataSet", metrics: scoring.Wanted, protocol: str | None, tasks: bool, also: Sequence[str]
) -> None:
    """A ValueError if something was asked for that needs labels, of data that have none."""
    asked = [] if metrics is None or metrics == () else list(scoring.select(metrics, protocol))
    asked = asked or (["tasks"] if tasks else list(also))
    if asked:
        raise ValueError(
            f"{data.name} has no labels (factors), which {asked[0]} needs: leave it out, or give labels, as by "
            "factors_csv= (--factors-csv)"
        )


def _grid_sampler(run: "Run", data: "DataSet") -> Callable[[NDArray[Any]], NDArray[np.float32]] | None:
    from karenina.data import FactorGrid

    grid = data.factors
    if not isinstance(grid, FactorGrid) or data.stochastic or len(grid) > WHOLE_GRID:
        return None
    codes = run.encode(data.at(np.arange(len(grid))))[0]
    return lambda rows: codes[grid.index(rows)]


def _label_free(
    run: "Run",
    images: NDArray[np.uint8],
    mean: NDArray[np.float32],
    logvar: NDArray[np.float32],
    kl: NDArray[np.float64],
    seed: int,
) -> dict[str, float]:
    noise = np.random.default_rng([seed, 1]).standard_normal(mean.shape)
    sampled = mean + np.exp(0.5 * logvar) * noise
    scores = {name: float(value) for name, value in run.evaluate(images, seed).items()}
    scores["informative_latents"] = float((kl > ACTIVE_KL).sum())
    for name, codes in (("mean", mean), ("sampled", sampled)):
        scores[f"total_correlation_{name}"] = float(gaussian_total_correlation(codes))
        scores[f"wasserstein_correlation_{name}"] = float(gaussian_wasserstein_correlation(codes))
        scores[f"mutual_information_{name}"] = float(mutual_information(codes))
    return scores


def with_tasks(
    table: Table,
    codes: ArrayLike,
    factors: ArrayLike,
    continuous: bool | Sequence[bool] | None = None,
    seed: int = 0,
    sampler: Callable[[NDArray[Any]], NDArray[np.float32]] | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
) -> Table:
    """The table with what the codes (n, d) are good for below the metrics: downstream prediction and fairness.

    test: codes and factors of other rows; None: a third of the rows is set aside.
    """
    from karenina.tasks import downstream, fairness

    rows, results = list(table.rows), dict(table.results)
    given: dict[str, Any] = {"seed": seed, "continuous": continuous}
    if test is not None:
        given |= {"test_codes": test[0], "test_factors": test[1]}
    for name, prop, task in (
        ("downstream", "usefulness", lambda: downstream(codes, factors, **given)),
        ("fairness", "fairness", lambda: fairness(codes, factors, sampler=sampler, **given)),
    ):
        start = time.process_time()
        try:
            results[name] = task()
            scores, note = results[name].summary(), ""
        except ValueError as error:  # one factor has no other to be unfair to; the rest of the table stands
            scores, note = {name: float("nan")}, str(error)
        seconds = time.process_time() - start
        rows += [Row(key, "task", prop, value, float("nan"), seconds, note) for key, value in scores.items()]
    return replace(table, rows=tuple(rows), results=results)


def score(
    codes: "ArrayLike | Run",
    factors: ArrayLike | None = None,
    metrics: scoring.Wanted = None,
    protocol: str | None = None,
    repeats: int = 1,
    seed: int = 0,
    *,
    factor_names: Sequence[str] | None = None,
    continuous: bool | Sequence[bool] | None = None,
    tasks: bool = False,
    data: Data | None = None,
) -> Table:
    """Every metric of codes against factors, or of a run, which is encoded once.

    Parameters
    ----------
    codes : array, tensor or data frame (n, d), or Run
    factors : array, tensor or data frame (n, k)
        Text, categories and booleans are categorical factors; the columns of a data frame name them.
        Not with a run, which draws its own images and factors.
    metrics : names, functions of (codes, factors) that give a number, or both; optional
    protocol, repeats, seed, factor_names, continuous
        As in `karenina.metrics.score`.
    tasks : bool
        Also how well the factors can be predicted from few rows and many, and how fair such predictions are.
    data : DataSet, path or array (n, c, h, w), optional
        With a run: what it was trained on, if that is your own.

    Returns
    -------
    Table
        `table["mig"].value`, `.per_factor`; `table.frame`. A run's table also has its label-free scores.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.integers(5, size=(2000, 3))
    >>> table = score(factors + 0.01 * rng.normal(size=factors.shape), factors, metrics=["mig", "modularity"])
    >>> round(table["modularity"].value, 2)
    1.0
    >>> def rows(codes, factors):
    ...     return len(codes)
    >>> score(factors, factors, metrics=["mig", rows])["rows"].value
    2000.0
    """
    run: Any = codes if hasattr(codes, "encode") else None
    if run is None:
        if data is not None:
            raise ValueError("score(run, data=...) encodes data; codes and factors as arrays need none")
        if factors is None:
            raise ValueError("score(codes, factors) needs the factors (n, k); without labels use karenina.udr")
        z: Any = codes
        table = scoring.score(
            z, factors, metrics, protocol, repeats, seed, factor_names=factor_names, continuous=continuous
        )
        return with_tasks(table, z, factors, continuous, seed) if tasks else table
    if factors is not None:
        raise ValueError("score(run) draws its own images and factors; give codes as an array to score against yours")
    found = data_of(run, data)
    return run_table(evaluate(run, found, metrics=metrics, protocol=protocol, repeats=repeats, seed=seed, tasks=tasks))


def run_table(evaluation: Evaluation) -> Table:
    """The metrics of a run with its label-free scores below them."""
    rows = tuple(
        Row(
            name,
            "label-free",
            "independence" if "correlation" in name or "mutual" in name else "fit",
            value,
            np.nan,
            0.0,
        )
        for name, value in evaluation.label_free.items()
    )
    rows += tuple(
        Row(metric, family, prop, value, np.nan, 0.0)
        for metric, family, prop, factor, value, _ in evaluation.more
        if factor == ""
    )
    if evaluation.table is None:
        return Table(rows, {}, ())
    table = evaluation.table
    return replace(table, rows=(*table.rows, *rows))
