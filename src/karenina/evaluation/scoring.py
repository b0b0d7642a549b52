"""Score codes, or a trained run: its data set and the images that are encoded, metrics, label-free scores and measures.

`evaluate` encodes a run once and scores that. Beside metrics there are measures, as papers report them: regression with
an error for each factor, zero-shot inference, wrong labels, shifts, and those of plug-ins. `difference` says whether
one representation is better than another.
"""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina import _plugins, tasks
from karenina._active import ACTIVE_KL
from karenina._words import hint
from karenina.data import DataSet, FactorBox, FactorGrid, TableDataSet, join_name, load, load_again, split_name
from karenina.metrics import METRICS, Table, dci, dci_from_importance, scoring
from karenina.metrics.label_free import gaussian_total_correlation, gaussian_wasserstein_correlation, mutual_information
from karenina.metrics.scoring import Row
from karenina.numerics.blocks import Blocks
from karenina.numerics.checks import as_factors, as_matrix
from karenina.numerics.resampling import LEVELS

if TYPE_CHECKING:
    import pandas as pd

    from karenina.training import Run

Data = DataSet | str | os.PathLike[str] | NDArray[Any]
Sampler = Callable[[NDArray[Any]], NDArray[np.float32]] | Blocks
Metric = str | Callable[[NDArray[Any], NDArray[Any]], Any]

# Where interventions are drawn from: the generative model, or the encoded rows.
WAYS = ("model", "rows")
# A grid of at most this many images is encoded whole, and interventions are drawn from all of it.
WHOLE_GRID = 20_000
# Values that a continuous factor, or one with more values, is set to: enough for the 40 orientations of dSprites.
MOST_VALUES = 40
LEAST_BLOCKS = 32

load_cached = lru_cache(maxsize=2)(load)  # for workers, which score many models of few data sets


def data_of(run: "Run", data: Data | None = None, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """Return the data set that a run was trained on, with its options: the one way to find it.

    Parameters
    ----------
    run : Run
    data : DataSet, path or array (n, c, h, w), optional
        The data set, or where it is; needed for data of your own. Other images than those of the training are an error
        under another name, and a warning under the same.
    data_dir : path, optional
        The folder with official files.

    >>> import karenina
    >>> data_of(karenina.train("blobs", latents=2, steps=1)).name
    'blobs'
    """
    from karenina.training.methods import fingerprint
    from karenina.training.trainer import as_data

    named = data is None or isinstance(data, str | os.PathLike)
    found = load_again(run.config.data, data, data_dir=data_dir) if named else as_data(data)  # type: ignore[arg-type]
    # Labels may have come after the training.
    if run.config.images not in (fingerprint(found), fingerprint(found, labels=False)):
        expected, name = (split_name(text)[0] for text in (run.config.data, found.name))
        unnamed = name == "array" != expected  # images without a name or factors can only have the wrong shape
        if found.image_shape != run.config.image_shape or not (unnamed or expected in (name, "array")):
            shapes = ("x".join(map(str, shape)) for shape in (run.config.image_shape, found.image_shape))
            words = [f"{text} with images of {shape}" for text, shape in zip((run.config.data, found.name), shapes)]
            raise ValueError(f"the run was trained on {words[0]}, not on {words[1]}")
        if not unnamed:
            warnings.warn(
                f"{found.name} ({found.source}) does not give the images that the run was trained on", stacklevel=3
            )
    return found


def inputs(data: DataSet, rows: int = 10_000, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the images (rows, c, h, w) and factors (rows, k) on which all runs of a data set are compared.

    Factors are uniform, also where those of the training were not (karenina.data.sampling; Träuble et al. 2021). Of a
    data set that is divided (part=train) they are from its part to test on.
    """
    data = data.whole
    name, options = split_name(data.name)
    if options.get("part") == "train":
        data = load_cached(join_name(name, {**options, "part": "test"}))
    return data.sample(rows, np.random.default_rng([seed, 20_190_612]))


def check_way(way: str) -> None:
    """Raise ValueError if this is not the name of a way to draw interventions."""
    if way not in WAYS:
        raise ValueError(f"interventions is {way!r}, expected 'model' (from the generative model) or 'rows'")


def sampler_of(run: "Run", data: DataSet, way: str = "model", rows: int = 10_000, seed: int = 0) -> Sampler | None:
    """Return the sampler from which interventions are drawn; None where they are drawn from the encoded rows.

    Locatello et al. (2019), appendices C and D, and Duan et al. (2020), A.8, draw them from the generative model.
    A small grid is encoded whole. Of any other data set whose factors can be set one by one, twice `rows` images are
    encoded in blocks, which all that intervenes shares. Rows of the user's own table, and data that leaves out a corner
    of its factors, have no images of other rows. way="rows" makes no blocks.
    """
    check_way(way)
    grid = data.factors
    if isinstance(grid, FactorGrid) and not data.stochastic and len(grid) <= WHOLE_GRID:
        codes = run.encode(data.at(np.arange(len(grid))))[0]
        return lambda wanted: codes[grid.index(wanted)]
    values = _values(data, seed) if way == "model" else None
    if values is None:
        return None
    rng = np.random.default_rng([seed, 2, 20_190_612])
    count = blocks_for(rows, values)
    return Blocks.of(grid.sample(count, rng), values, lambda wanted: run.encode(data.images(wanted, rng))[0])


def blocks_for(rows: int, values: Iterable[NDArray[Any]]) -> int:
    """Return how many blocks to encode: as many as have room in twice the encoded rows."""
    return max(LEAST_BLOCKS, 2 * rows // sum(map(len, values)))


def _values(data: DataSet, seed: int) -> list[NDArray[Any]] | None:
    """Return the values that each factor is set to; None where not every row of factors has an image."""
    factors = data.factors
    if isinstance(factors, FactorGrid):
        rng = np.random.default_rng([seed, 3, 20_190_612])
        return [
            np.arange(size) if size <= MOST_VALUES else np.sort(rng.choice(size, MOST_VALUES, replace=False))
            for size in factors.sizes
        ]
    if type(factors) is not FactorBox or isinstance(data, TableDataSet):
        return None
    middles = (np.arange(MOST_VALUES) + 0.5) / MOST_VALUES
    return [low + (high - low) * middles for low, high in zip(factors.low, factors.high)]


MeasureRow = tuple[str, str, str, str, float, float]  # metric, family, property, factor, value, std

# Families of rows that are no metrics of their own: analyses of metrics leave them out.
NOISE = "label noise"
REGRESSION = "regression"
# Holtz et al. (2022), Table 3: the metrics that are computed with wrong labels. Regime 0 has the true ones.
NOISED = ("z_diff", "z_min_variance", "mig")
NOISE_REGIMES = (0, 1, 2, 3)
MODELS = ("lasso", "forest")


@dataclass(frozen=True, eq=False)
class Measured:
    """A run, with the codes (n, d) and factors (n, k) of the images that were encoded."""

    run: "Run"
    data: DataSet
    codes: NDArray[np.float32]
    factors: NDArray[Any]
    protocol: str | None
    seed: int

    @property
    def continuous(self) -> list[bool]:
        """Return which factors are continuous."""
        return [size is None for size in self.data.factor_sizes]


def has_gap(name: str) -> bool:
    """Return whether a data set leaves out a corner of its factors, which models of it never see.

    >>> has_gap("teapots:gap=exclude"), has_gap("dsprites")
    (True, False)
    """
    return bool(split_name(name)[1].get("gap") == "exclude")


def measures() -> tuple[str, ...]:
    """Return the names of all measures: ours, and those of the entry points "karenina.measures"."""
    return (*MEASURES, *_plugins.found("measures"))


def measure(names: Sequence[str], measured: Measured) -> list[MeasureRow]:
    """Return the rows of the table that these measures give."""
    unknown = [name for name in names if name not in measures()]
    if unknown:
        raise ValueError(f"nothing called {unknown[0]!r} can be measured also; {hint(unknown[0], measures())}")
    return [row for name in names for row in (MEASURES.get(name) or _plugins.load("measures", name))(measured)]


def _rows(
    metric: str, family: str, prop: str, whole: float, names: Iterable[str], each: Iterable[float]
) -> list[MeasureRow]:
    """Return a row for the whole, and one for each factor or code."""
    return [(metric, family, prop, of, float(value), math.nan) for of, value in [("", whole), *zip(names, each)]]


def regression(measured: Measured) -> list[MeasureRow]:
    """Return DCI as Eastwood & Williams (2018) print it: D of each code, C and NRMSE of each factor, lasso and forest.

    All factors are taken as numbers. Tables 1, 3 and 4. "forest" takes the decrease of impurity as importance, as
    scikit-learn has it, "forest_splits" the share of splits, as the text does (section 4.3).
    """
    options: dict[str, Any] = {"informativeness": "nrmse", "continuous": True, "seed": measured.seed}
    found = {model: dci(measured.codes, measured.factors, model=model, **options) for model in MODELS}
    splits = dci_from_importance(found["forest"].details["importances"]["splits"])
    found["forest_splits"] = replace(  # the same forest, and so the same errors
        found["forest"],
        disentanglement=splits.disentanglement,
        completeness=splits.completeness,
        per_code=splits.per_code,
        per_factor=splits.per_factor,
    )
    rows: list[MeasureRow] = []
    factors = measured.data.factor_names
    for model, one in found.items():
        codes = [f"code {i}" for i in range(len(one.per_code))]
        for part, whole, names, each in (
            ("disentanglement", one.disentanglement, codes, one.per_code),
            ("completeness", one.completeness, factors, one.per_factor),
            ("nrmse", one.informativeness, factors, one.per_factor_informativeness),
        ):
            rows += _rows(f"regression_{model}", REGRESSION, part, whole, names, each)
    return rows


def zero_shot(measured: Measured) -> list[MeasureRow]:
    """Return the NRMSE inside the corner that the data set leaves out. Eastwood & Williams (2018), B.2, Table 5."""
    if not has_gap(measured.data.name):
        raise ValueError(f"zero_shot needs data with a gap, such as teapots:gap=exclude; got {measured.data.name}")
    name, options = split_name(measured.data.name)
    images, unseen = inputs(load(join_name(name, {**options, "gap": "only"})), len(measured.codes) // 2, measured.seed)
    codes = np.concatenate([measured.codes, measured.run.encode(images)[0]])
    factors = np.concatenate([measured.factors, unseen])
    inside = np.arange(len(codes)) >= len(measured.codes)
    rows: list[MeasureRow] = []
    for model in MODELS:
        found = tasks.zero_shot(codes, factors, inside, model=model, seed=measured.seed)
        for where, errors in (("inside", found.inside), ("outside", found.outside)):
            metric, whole = f"zero_shot_{model}_{where}", float(np.nanmean(errors))
            rows += _rows(metric, "task", "generalisation", whole, measured.data.factor_names, errors)
    return rows


def label_noise(measured: Measured) -> list[MeasureRow]:
    """Return scores with wrong labels, three regimes; all from the encoded rows, whose labels are all that is known.

    A metric that fixes a factor looks at that factor's label alone. Holtz et al. (2022), section 4, Tables 2 and 3.
    """
    return noise_rows(measured.codes, measured.factors, measured.protocol, measured.seed, measured.continuous)


def noise_rows(
    codes: ArrayLike,
    factors: ArrayLike,
    protocol: str | None = None,
    seed: int = 0,
    continuous: bool | Sequence[bool] | None = None,
) -> list[MeasureRow]:
    """Return `label_noise` of codes (n, d) and factors (n, k).

    >>> v = np.random.default_rng(0).integers(5, size=(600, 3))
    >>> scores = {row[0]: row[4] for row in noise_rows(v, v)}
    >>> scores["mig_noise_0"] > 0.95 > scores["mig_noise_1"] > scores["mig_noise_3"]
    True
    """
    rows: list[MeasureRow] = []
    for regime in NOISE_REGIMES:
        labels = tasks.label_noise(factors, regime, seed=seed) if regime else factors
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said once already of the true labels
            table = scoring.score(codes, labels, NOISED, protocol, 1, seed, continuous=continuous)
        rows += [(f"{row.metric}_noise_{regime}", NOISE, row.property, "", row.value, math.nan) for row in table.rows]
    return rows


def shift(measured: Measured) -> list[MeasureRow]:
    """Return predictions on combinations of two factors that were not seen: a corner, and off a correlation.

    Dittadi et al. (2021) and Traeuble et al. (2021).
    """
    rows: list[MeasureRow] = []
    for kind in ("corner", "correlated"):
        found = tasks.shift(
            measured.codes, measured.factors, kind=kind, continuous=measured.continuous, seed=measured.seed
        )
        for model, seen, unseen in zip(found.models, found.seen, found.unseen):
            for where, each in (("seen", seen), ("unseen", unseen)):
                metric, whole = f"shift_{kind}_{model}_{where}", float(np.nanmean(each))
                rows += _rows(metric, "task", "generalisation", whole, measured.data.factor_names, each)
    return rows


MEASURES: dict[str, Callable[[Measured], list[MeasureRow]]] = {
    "regression": regression,
    "zero_shot": zero_shot,
    "label_noise": label_noise,
    "shift": shift,
}


# What `karenina score --tasks` measures beside the tasks, and zero-shot inference of data with a gap.
ALSO_TASKS = ("label_noise",)
SCORE_COLUMNS = ("metric", "family", "property", "factor", "value", "std")
# Metrics that take milliseconds: a comparison computes each four hundred times.
QUICK = ("mig", "mig_sup", "modularity", "dci_lasso")
COLUMNS = ("metric", "property", "a", "b", "difference", "low", "high", "p", "resamples")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of a run on `rows` inputs. codes, logvar: (rows, L). factors: (rows, k). kl: (L,).

    table: the metrics (None without factors). label_free: name -> number. measures: further rows of SCORE_COLUMNS.
    intervention_seconds: what it took to encode blocks of interventions.
    """

    table: Table | None
    codes: NDArray[np.float32]
    logvar: NDArray[np.float32]
    factors: NDArray[Any]
    kl: NDArray[np.float64]
    label_free: dict[str, float]
    measures: tuple[MeasureRow, ...] = ()
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
        found += self.measures
        return [[*row[:4], *(float(v) if math.isfinite(v) else None for v in row[4:])] for row in found]


def evaluate(
    run: "Run",
    data: DataSet | None = None,
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
        Measures such as "regression", "zero_shot", "label_noise" and "shift": see `measures` in this module.
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


def _no_labels(data: DataSet, metrics: scoring.Wanted, protocol: str | None, tasks: bool, also: Sequence[str]) -> None:
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
        with warnings.catch_warnings():  # Warnings of chance have no place among plain numbers.
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
    """Return the table followed by what the codes (n, d) are good for: downstream prediction and fairness.

    test: codes and factors of other rows; None: a third of the rows is set aside.
    """
    rows, results = list(table.rows), dict(table.results)
    options: dict[str, Any] = {"seed": seed, "continuous": continuous}
    if test is not None:
        options |= {"test_codes": test[0], "test_factors": test[1]}
    for name, prop, task in (
        ("downstream", "usefulness", lambda: tasks.downstream(codes, factors, **options)),
        ("fairness", "fairness", lambda: tasks.fairness(codes, factors, sampler=sampler, **options)),
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
    options: dict[str, Any] = {"protocol": protocol, "repeats": repeats, "seed": seed, "interventions": interventions}
    also = ALSO_TASKS if tasks else ()
    return run_table(evaluate(run, data_of(run, data), metrics=metrics, tasks=tasks, also=also, **options))


def run_table(evaluation: Evaluation) -> Table:
    """Return the metrics of a run with its label-free scores below them."""
    rows = []
    for name, value in evaluation.label_free.items():
        prop = "independence" if "correlation" in name or "mutual" in name else "fit"
        rows.append(Row(name, "label-free", prop, value, np.nan, 0.0))
    rows += _table_rows(evaluation.measures)
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
