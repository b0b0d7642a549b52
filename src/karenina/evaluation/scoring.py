"""Score a trained run: encode once, then every metric, label-free score and the terms of the ELBO."""

import math
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._active import ACTIVE_KL
from karenina.evaluation.data import Data, Sampler, check_way, data_of, inputs, sampler_of
from karenina.evaluation.more import Measured, has_gap, more_rows, noise_rows
from karenina.evaluation.more import Row as MoreRow
from karenina.metrics import scoring
from karenina.metrics.label_free import gaussian_total_correlation, gaussian_wasserstein_correlation, mutual_information
from karenina.metrics.registry import METRICS
from karenina.metrics.table import Row, Table
from karenina.numerics.blocks import Blocks

if TYPE_CHECKING:
    from karenina.data import DataSet
    from karenina.training import Run

# What `karenina score --tasks` measures beside the tasks, and zero-shot inference of data with a gap.
ALSO_TASKS = ("label_noise",)
SCORE_COLUMNS = ("metric", "family", "property", "factor", "value", "std")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What is known of a run on `rows` inputs. codes, logvar: (rows, L). factors: (rows, k). kl: (L,).

    table: the metrics (None without factors). label_free: name -> number. more: further rows of SCORE_COLUMNS.
    intervention_seconds: what it took to encode blocks of interventions.
    """

    table: Table | None
    codes: NDArray[np.float32]
    logvar: NDArray[np.float32]
    factors: NDArray[Any]
    kl: NDArray[np.float64]
    label_free: dict[str, float]
    more: tuple[MoreRow, ...] = ()
    intervention_seconds: float = 0.0

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
        Of "regression", "zero_shot", "label_noise", "shift" and "reasoning": see `karenina.evaluation.more`.
    interventions : {"model", "rows"}
        Where the intervention metrics and fairness draw from: the generative model, for which up to twice `rows` other
        images are encoded, once for all of them; or the encoded rows, which costs nothing and finds few rows that agree
        on all factors but one.
    kl_threshold : float
        A latent is active, and counts among informative_latents, if its KL exceeds this (nats).

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
        if tasks or any(
            name in METRICS and "sampler" in METRICS[name].parameters for name in scoring.select(metrics, protocol)
        ):
            sampler = sampler_of(run, data.whole, interventions, rows, seed)
            encoding = time.perf_counter() - start if isinstance(sampler, Blocks) else 0.0
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
    return Evaluation(table, mean, logvar, factors, kl, label_free, tuple(rest), encoding)


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


def _label_free(
    run: "Run",
    images: NDArray[np.uint8],
    mean: NDArray[np.float32],
    logvar: NDArray[np.float32],
    kl: NDArray[np.float64],
    seed: int,
    kl_threshold: float,
) -> dict[str, float]:
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
        wrong = _more_rows(noise_rows(z, factors, protocol, seed, continuous))
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
    rows += _more_rows(evaluation.more)
    if evaluation.table is None:
        return Table(rows, {}, ())
    table = evaluation.table
    return replace(table, rows=(*table.rows, *rows))


def _more_rows(more: Iterable[MoreRow]) -> tuple[Row, ...]:
    """Of the whole, not of single factors."""
    return tuple(
        Row(metric, family, prop, value, np.nan, 0.0) for metric, family, prop, factor, value, _ in more if factor == ""
    )


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
