"""Scores of codes or of a trained run: encode once, then every metric, label-free score and the terms of the ELBO.

`difference` says whether one representation is better than another.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._active import ACTIVE_KL
from karenina.evaluation.data import Data, Sampler, check_way, data_of, inputs, sampler_of
from karenina.evaluation.measures import Measured, MeasureRow, has_gap, measure, noise_rows
from karenina.metrics import scoring
from karenina.metrics.label_free import gaussian_total_correlation, gaussian_wasserstein_correlation, mutual_information
from karenina.metrics.registry import METRICS
from karenina.metrics.scoring import Row, Table
from karenina.numerics.blocks import Blocks
from karenina.numerics.checks import as_factors, as_matrix
from karenina.numerics.resampling import LEVELS
from karenina.tasks import downstream, fairness

if TYPE_CHECKING:
    import pandas as pd

    from karenina.data import DataSet
    from karenina.training import Run

Metric = str | Callable[[NDArray[Any], NDArray[Any]], Any]

# What `karenina score --tasks` measures beside the tasks, and zero-shot inference of data with a gap.
ALSO_TASKS = ("label_noise",)
SCORE_COLUMNS = ("metric", "family", "property", "factor", "value", "std")
# Metrics that take milliseconds: a comparison computes each four hundred times.
QUICK = ("mig", "mig_sup", "modularity", "dci_lasso")
COLUMNS = ("metric", "property", "a", "b", "difference", "low", "high", "p", "resamples")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of a run on `rows` inputs. codes, logvar: (rows, L). factors: (rows, k). kl: (L,).

    table: the metrics (None without factors). label_free: name -> number. more: further rows of SCORE_COLUMNS.
    intervention_seconds: what it took to encode blocks of interventions.
    """

    table: Table | None
    codes: NDArray[np.float32]
    logvar: NDArray[np.float32]
    factors: NDArray[Any]
    kl: NDArray[np.float64]
    label_free: dict[str, float]
    more: tuple[MeasureRow, ...] = ()
    intervention_seconds: float = 0.0

    def rows(self) -> list[list[Any]]:
        """Return rows of SCORE_COLUMNS, `factor` empty for the whole; None for NaN and infinity, which JSON lacks."""
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
    interventions: str = "model",
    kl_threshold: float = ACTIVE_KL,
) -> Evaluation:
    """Score a run: encode `rows` images once, then every metric and label-free score.

    Parameters
    ----------
    run : Run
    data : DataSet, optional
        By default the set that the run was trained on.
    metrics, protocol, repeats, seed
        As in `karenina.score`; metrics=() computes only what needs no labels, and goes with neither tasks nor also.
    rows : int
        Images to encode. The predictors of protocol "locatello" and the tasks are tested on half as many others.
    tasks : bool
        Also downstream prediction and fairness, about a minute per run, and zero-shot inference of data with a gap.
    also : names
        Measures such as "regression", "zero_shot", "label_noise" and "shift": see `karenina.evaluation.measures`.
    interventions : {"model", "rows"}
        Where the intervention metrics and fairness draw from: the generative model, for which up to twice `rows` other
        images are encoded, once for all of them; or the encoded rows, which costs nothing and finds few rows that agree
        on all factors but one.
    kl_threshold : float
        A latent is active, and counts among "informative_latents", if its KL exceeds this (nats).

    Returns
    -------
    Evaluation

    A grid of at most 20,000 images is encoded whole in either case; data with a gap, and a table of your own, only have
    the encoded rows.

    >>> import karenina
    >>> run = karenina.train("blobs", "vae", latents=2, steps=1)
    >>> evaluate(run, metrics=["mig"], rows=100).codes.shape
    (100, 2)
    """
    from karenina.training.run import as_run

    run = as_run(run)
    data = data_of(run) if data is None else data
    check_way(interventions)
    if not data.labelled:
        _no_labels(data, metrics, protocol, tasks, also)
    elif metrics == () and (tasks or also):
        asked = "tasks" if tasks else also[0]
        raise ValueError(f"metrics=() computes only what needs no labels, and {asked} needs them: name a metric")
    images, factors = inputs(data, rows, seed)
    mean, logvar = run.encode(images)
    kl = run.kl_of(mean, logvar)
    label_free = _label_free(run, images, mean, logvar, kl, seed, kl_threshold)
    table, encoding = None, 0.0
    if data.labelled and metrics != ():
        continuous = [size is None for size in data.factor_sizes]
        sampler, start = None, time.perf_counter()
        chosen = [METRICS[name] for name in scoring.select(metrics, protocol) if name in METRICS]
        if tasks or any("sampler" in metric.parameters for metric in chosen):
            sampler = sampler_of(run, data.whole, interventions, rows, seed)
            encoding = time.perf_counter() - start if isinstance(sampler, Blocks) else 0.0
        # Locatello et al. (2019), appendix C: predictors are trained on 10,000 rows and tested on 5,000 others.
        apart = protocol == "locatello" and any(metric.tests for metric in chosen)
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
    rest = measure(list(names), measured) if table is not None else []
    return Evaluation(table, mean, logvar, factors, kl, label_free, tuple(rest), encoding)


def _no_labels(
    data: "DataSet", metrics: scoring.Wanted, protocol: str | None, tasks: bool, also: Sequence[str]
) -> None:
    """Raise ValueError if something was asked for that needs labels."""
    asked = [] if metrics is None or metrics == () else list(scoring.select(metrics, protocol))
    asked = asked or (["tasks"] if tasks else list(also))
    if asked:
        raise ValueError(
            f"{data.name} has no labels (factors), which {asked[0]} needs: leave it out, or give labels, as by "
            "factors_csv= (--factors-csv)"
        )


def _label_free(
    run: "Run",
    images: NDArray[np.uint8],
    mean: NDArray[np.float32],
    logvar: NDArray[np.float32],
    kl: NDArray[np.float64],
    seed: int,
    kl_threshold: float,
) -> dict[str, float]:
    """Return the terms of the ELBO and the label-free scores of a run's codes, by name."""
    noise = np.random.default_rng([seed, 1]).standard_normal(mean.shape)
    sampled = mean + np.exp(0.5 * logvar) * noise
    scores = run.evaluate(images, seed, posterior=(mean, logvar))
    scores["informative_latents"] = float((kl > kl_threshold).sum())
    for name, codes in (("mean", mean), ("sampled", sampled)):
        with warnings.catch_warnings():  # of chance, which has no place among plain numbers
            warnings.simplefilter("ignore")
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
    sampler: Sampler | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
) -> Table:
    """Return the table with what the codes (n, d) are good for below it: downstream prediction and fairness.

    test: codes and factors of other rows; None: a third of the rows is set aside.
    """
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
        except Exception as error:  # one factor has no other to be unfair to; the rest of the table stands
            scores, note = {name: float("nan")}, scoring.why(error)
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
    interventions: str = "model",
) -> Table:
    """Return every metric of codes against factors, or of a run, which is encoded once.

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
        Also how well the factors can be predicted from few rows and many, how fair such predictions are, and what wrong
        labels do to three metrics; for a run on data with a gap also the error inside the gap.
    data : DataSet, path or array (n, c, h, w), optional
        With a run: what it was trained on, if that is your own.
    interventions : {"model", "rows"}
        With a run: draw interventions from the generative model, or from the encoded rows, which is cheaper.

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
    if not hasattr(codes, "encode"):
        if data is not None:
            raise ValueError("score(run, data=...) encodes data; codes and factors as arrays need none")
        if factors is None:
            raise ValueError("score(codes, factors) needs the factors (n, k); without labels use karenina.udr")
        z: Any = codes
        table = scoring.score(
            z, factors, metrics, protocol, repeats, seed, factor_names=factor_names, continuous=continuous
        )
        if not tasks:
            return table
        wrong = _table_rows(noise_rows(z, factors, protocol, seed, continuous))
        table = with_tasks(table, z, factors, continuous, seed)
        return replace(table, rows=(*table.rows, *wrong))
    from karenina.training.run import as_run

    run = as_run(codes, "codes")
    if factors is not None:
        raise ValueError("score(run) draws its own images and factors; give codes as an array to score against yours")
    given: dict[str, Any] = {"protocol": protocol, "repeats": repeats, "seed": seed, "interventions": interventions}
    also = ALSO_TASKS if tasks else ()
    return run_table(evaluate(run, data_of(run, data), metrics=metrics, tasks=tasks, also=also, **given))


def run_table(evaluation: Evaluation) -> Table:
    """Return the metrics of a run with its label-free scores below them."""
    rows = []
    for name, value in evaluation.label_free.items():
        prop = "independence" if "correlation" in name or "mutual" in name else "fit"
        rows.append(Row(name, "label-free", prop, value, np.nan, 0.0))
    rows += _table_rows(evaluation.more)
    table = Table((), {}, ()) if evaluation.table is None else evaluation.table
    return replace(table, rows=(*table.rows, *rows))


def _table_rows(rows: Iterable[MeasureRow]) -> list[Row]:
    """Return rows of a table for the measures of all factors together."""
    return [Row(name, family, prop, value, np.nan, 0.0) for name, family, prop, factor, value, _ in rows if not factor]


def explained_variance(run: "Run", images: NDArray[np.uint8], codes: NDArray[np.float32]) -> float:
    """Return the share of the variance of the pixels that a run's reconstructions of images (n, c, h, w) explain.

    codes: its mean codes (n, L) of them. 0 is as good as the mean image, below is worse; NaN where all images are the
    same.
    """
    few = images[: min(500, len(codes))]
    values = few.astype(np.float64) / 255
    left = ((values - run.decode(codes[: len(few)])) ** 2).sum()
    total = ((values - values.mean(0)) ** 2).sum()
    return float(1 - left / total) if total > 0 else float("nan")


def difference(
    first: ArrayLike,
    second: ArrayLike,
    factors: ArrayLike,
    metrics: Iterable[Metric] | None = None,
    protocol: str | None = None,
    *,
    resamples: int = 200,
    seed: int = 0,
    continuous: bool | Sequence[bool] | None = None,
) -> "pd.DataFrame":
    """Return scores of two representations of the same rows, and whether they differ by more than the choice of rows.

    Parameters
    ----------
    first, second : array (n, d), array (n, e)
        Codes of the same n inputs.
    factors : array (n, k)
    metrics : names or functions of (codes, factors), optional
        By default four that are quick; trees take long, since each metric is computed twice per resample.
    protocol, seed, continuous
        As in `karenina.score`.
    resamples : int
        Random halves of the rows, the same for both. The spread over halves without replacement is that of the whole
        sample (the delete-half jackknife), and unlike a bootstrap with replacement it puts no row into the training and
        the test part of a predictor.

    Returns
    -------
    DataFrame
        metric, property, a, b (scores of all rows), difference = a - b, its 95 % interval low, high, and p: how often
        a difference as large comes from the choice of rows alone. Carbonneau et al. (2022), section 6.3, ask for it.
        Of modularity they are conservative: the score has a bias that is larger on halves, whose spread is therefore
        above that of the whole, so a difference that is not significant here may still be real.
        The interval and p are NaN where the metric has no value on some of the halves.

    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(5, size=(1000, 3))
    >>> good, bad = (v + noise * rng.normal(size=v.shape) for noise in (0.1, 2))
    >>> row = difference(good, bad, v, ["mig"], resamples=50).iloc[0]
    >>> bool(row.low > 0.5), round(float(row.p), 2)
    (True, 0.02)
    """
    import pandas as pd

    a, b = (as_matrix(codes, name) for codes, name in ((first, "first"), (second, "second")))
    v = as_factors(factors)
    as_matrix(v, "factors")
    if not len(a) == len(b) == len(v):
        raise ValueError(f"both codes and the factors must have the same rows, got {len(a)}, {len(b)} and {len(v)}")
    if len(a) < 20:
        raise ValueError(f"a comparison needs at least 20 rows, got {len(a)}")
    if resamples < 20:
        raise ValueError(f"a comparison needs at least 20 resamples, got {resamples}")
    wanted = list(QUICK if metrics is None else metrics)
    options = {"protocol": protocol, "seed": seed, "continuous": continuous}
    keys, whole_a = _scores(a, v, wanted, options)
    _, whole_b = _scores(b, v, wanted, options)
    rng = np.random.default_rng([seed, 63])
    moved = np.empty((resamples, len(keys)))
    for i in range(resamples):
        half = np.sort(rng.permutation(len(a))[: len(a) // 2])
        moved[i] = _scores(a[half], v[half], wanted, options)[1] - _scores(b[half], v[half], wanted, options)[1]
    estimate = whole_a - whole_b
    moved -= moved.mean(axis=0)
    low, high = estimate + np.quantile(moved, LEVELS, axis=0)
    p = (1 + (np.abs(moved) >= np.abs(estimate)).sum(axis=0)) / (resamples + 1)
    p = np.where(np.isnan(low), np.nan, p)
    lines = [(*key, *row, resamples) for key, *row in zip(keys, whole_a, whole_b, estimate, low, high, p)]
    return pd.DataFrame(lines, columns=list(COLUMNS))


def _scores(
    codes: NDArray[Any], factors: NDArray[Any], metrics: Sequence[Metric], options: dict[str, Any]
) -> tuple[list[tuple[str, str]], NDArray[np.float64]]:
    """Return (metric, property) of each score, and the scores."""

    names = [metric for metric in metrics if isinstance(metric, str)]
    keys, values = [], []
    if names:
        table = scoring.score(codes, factors, names, repeats=1, **options)
        keys += [(row.metric, row.property) for row in table.rows]
        values += [row.value for row in table.rows]
    for metric in metrics:
        if not isinstance(metric, str):
            keys.append((getattr(metric, "__name__", "metric"), ""))
            values.append(float(metric(codes, factors)))
    return keys, np.array(values, np.float64)
