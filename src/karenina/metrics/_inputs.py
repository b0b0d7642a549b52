"""What a metric is, takes and gives: checked inputs, the rows that train and test, the result, and the decorator."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from karenina.numerics.arrays import Bools, Floats, Ints
from karenina.numerics.checks import (
    are_continuous,
    as_factors_alike,
    as_matrix,
    column_names,
    flags,
    pair,
    positive_integer,
    ranks,
    varying,
)
from karenina.numerics.histograms import Binning as Kind
from karenina.numerics.histograms import discretise

Continuous = bool | Sequence[bool] | None
Settings = Mapping[str, Any]
Test = tuple[ArrayLike, ArrayLike] | None

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Codes and factors that have been checked: what every metric reads.

    Attributes
    ----------
    codes : (n, d)
    given : (n, K)
        All factors as they were given, `given_names` (K,) their names, `declared` (K,) whether they are continuous.
    test : codes (m, d) and factors (m, K) of other rows, on which predictors are tested; or None.
    factors, continuous, names : (n, k), (k,), (k,)
        The factors that are not constant; `kept` (k,) are their positions among those given.
    live : (d,)
        Whether a code is not constant.
    shared : dict
        What several metrics read and the first one computes.
    """

    codes: Floats
    given: Floats
    declared: Bools
    given_names: tuple[str, ...]
    test: tuple[Floats, Floats] | None = None

    @cached_property
    def live(self) -> Bools:
        return varying(self.codes)

    @cached_property
    def kept(self) -> Ints:
        return np.flatnonzero(varying(self.given))

    @cached_property
    def factors(self) -> Floats:
        return self.given if len(self.kept) == self.given.shape[1] else self.given[:, self.kept]

    @cached_property
    def continuous(self) -> Bools:
        return self.declared[self.kept]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.given_names[j] for j in self.kept)

    @cached_property
    def shared(self) -> dict[Any, Any]:
        return {}

    @property
    def labels(self) -> Ints:
        """Return the categorical factors as labels 0..size-1, continuous ones as -1: (n, k), a copy of the caller's
        own.
        """
        return self._labels.copy(order="K")

    @cached_property
    def _labels(self) -> Ints:
        columns = np.ascontiguousarray(self.factors.T)  # most work is per column, and much faster on contiguous ones
        labels = np.full(columns.shape, -1, np.int64)
        for j in np.flatnonzero(~self.continuous):
            labels[j] = ranks(columns[j])
        return labels.T

    def binned(self, bins: int, kind: Kind = "width", *, categorical: bool = False) -> Ints:
        """Return every factor as labels 0..size-1: (n, k). Continuous ones are binned, others on request."""
        labels = self.labels
        binned = np.flatnonzero(self.continuous | categorical)
        if len(binned):
            cells = discretise(self.factors[:, binned], bins, kind)
            for column, j in enumerate(binned):
                labels[:, j] = ranks(cells[:, column].astype(np.float64))
        return labels

    def among_given(self, values: Floats) -> Floats:
        """Return values with one row per factor that varies, (k, ...), with NaN rows for the others: one per factor
        given, (K, ...)."""
        full = np.full((len(self.declared), *values.shape[1:]), np.nan)
        full[self.kept] = values
        return full

    def declare(self, continuous: Continuous) -> "Inputs":
        """Return the same factors, all or some declared continuous or categorical; None leaves them as they are."""
        return self if continuous is None else replace(self, declared=flags(continuous, self.declared, "continuous"))

    def of_rows(self, rows: Ints, test_rows: Ints | None = None) -> "Inputs":
        """Return the inputs of these rows, and of these test rows (None: without test rows)."""
        test = None if self.test is None or test_rows is None else (self.test[0][test_rows], self.test[1][test_rows])
        part = replace(self, codes=self.codes[rows], given=self.given[rows], test=test)
        if not len(part.kept):
            raise ValueError(_NOTHING_VARIES.format(part.given.shape))
        return part

    def require(self, rows: int) -> None:
        """Refuse fewer rows than these."""
        if len(self.codes) < rows:
            raise ValueError(f"codes and factors have {len(self.codes)} rows, at least {rows} are needed")


_NOTHING_VARIES = "every factor is constant (factors has shape {}), so nothing can be measured"


def check(
    codes: ArrayLike,
    factors: ArrayLike,
    continuous: Continuous = None,
    names: Sequence[str] | None = None,
    test: Test = None,
) -> Inputs:
    """Check codes (n, d) and factors (n, K), and decide which factors are continuous.

    `continuous` is one bool, or one per factor. None: a factor of an integer array, or of integers, is categorical; any
    other is continuous. Text, categories and booleans are categorical, and a data frame names its factors. `test` are
    codes (m, d) and factors (m, K) of other rows, whose text and categories have the numbers of those of `factors`.
    """
    names = column_names(factors) if names is None else names
    if test is not None:
        if not isinstance(test, tuple) or len(test) != 2:
            raise ValueError("test must be a tuple of codes (m, d) and factors (m, k)")
        factors, test_factors = as_factors_alike(factors, test[1])
        test = test[0], test_factors
    z, v = pair(codes, factors)
    k = v.shape[1]
    declared = are_continuous(continuous, v)
    labels = tuple(names) if names is not None else tuple(f"factor {j}" for j in range(k))
    if len(labels) != k:
        raise ValueError(f"{len(labels)} factor names for {k} factors: {labels}")
    inputs = Inputs(z, v, declared, labels, _checked_test(test, z.shape[1], k))
    inputs.require(2)
    if not len(inputs.kept):
        raise ValueError(_NOTHING_VARIES.format(v.shape))
    if len(inputs.kept) < k:
        gone = ", ".join(labels[j] for j in range(k) if j not in inputs.kept)
        warnings.warn(f"dropped constant factors: {gone}", stacklevel=3)
    return inputs


def _checked_test(test: Test, d: int, k: int) -> tuple[Floats, Floats] | None:
    if test is None:
        return None
    z, v = as_matrix(test[0], "test_codes"), as_matrix(test[1], "test_factors")
    if len(z) != len(v) or not len(z) or z.shape[1] != d or v.shape[1] != k:
        raise ValueError(f"test has shapes {z.shape} and {v.shape}, expected (m, {d}) and (m, {k})")
    return z, v


def split(inputs: Inputs, fraction: float, rows: int | None, rng: np.random.Generator) -> tuple[Inputs, Ints, Ints]:
    """Return the inputs, followed by the test rows if there are some, and which rows train and test, in random order.

    Test rows are those given, or a random fraction of the table; fraction 0: its rows, which then train too. rows: how
    many rows of the table are used at most; None: all.
    """
    if inputs.test is None:
        inputs.require(6)
        return inputs, *drawn(len(inputs.codes), fraction, rows, rng, least=4)
    if fraction == 0:
        raise ValueError("test_fraction=0 scores the training rows: give no test rows")
    inputs.require(4)
    n, most = len(inputs.codes), None if rows is None else positive_integer(rows, "rows", 6)
    codes, given = (np.vstack(pair) for pair in zip((inputs.codes, inputs.given), inputs.test))
    train = rng.permutation(n)[:most]
    return replace(inputs, codes=codes, given=given, test=None), train, np.arange(n, len(codes))


def drawn(n: int, fraction: float, rows: int | None, rng: np.random.Generator, *, least: int) -> tuple[Ints, Ints]:
    """Return training and test rows of a table of n, `least` or more to train; fraction 0: the same rows for both."""
    if not 0 <= fraction < 1:
        raise ValueError(f"test_fraction is {fraction}, expected a number from 0 to below 1")
    order = rng.permutation(n)[: None if rows is None else positive_integer(rows, "rows", 6)]
    if fraction == 0:
        return order, order
    held = min(max(1, round(len(order) * fraction)), len(order) - least)
    return order[held:], order[:held]


def mean_of_known(values: ArrayLike) -> float:
    """Return the mean of the values, leaving out NaN; NaN if all are NaN."""
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else float("nan")


@dataclass(frozen=True, eq=False)
class Result:
    """What a metric gives. `float(result)` is the headline value. Arrays that a metric does not have are None.

    Attributes
    ----------
    value : the headline
    per_factor : (k,), in the order given; NaN for a constant factor
    per_code : (d,); NaN for a code that does not count
    matrix : (k, d), how much each code tells of each factor (information, importance, accuracy, R2)
    details : anything else, by name
    """

    value: float
    per_factor: Floats | None = None
    per_code: Floats | None = None
    matrix: Floats | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_property(self) -> Mapping[str, Floats | None]:
        """Map the property that values per factor measure to the values (k,); "" is that of the metric itself."""
        return {"": self.per_factor}

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class Metric:
    """What `karenina.score` needs to know of a metric.

    Parameters
    ----------
    function : (inputs, **settings) -> a result with `value`
        `inputs` are checked codes and factors. Settings that it names are passed: `seed`, `sampler`, and `test`.
    family : str
    measures : the property that `value` measures, or for several: attribute of the result -> property
    ours, locatello, carbonneau : settings where they differ from the function's defaults
        None where the protocol does not have the metric.
    on_request : bool
        Computed when it is named, or by "all", but not by default: what is added later does not change the tables of
        studies that are under way.
    """

    function: Callable[..., Any]
    family: str = "other"
    measures: str | Mapping[str, str] = ""
    ours: Settings | None = field(default_factory=dict)
    locatello: Settings | None = None
    carbonneau: Settings | None = None
    on_request: bool = False

    def settings(self, protocol: str | None) -> Settings | None:
        """Return the settings under a protocol, None for our defaults; None where the protocol does not have the
        metric."""
        return getattr(self, protocol or "ours")

    @property
    def properties(self) -> Mapping[str, str]:
        """Map each attribute of the result that is a score to the property that it measures."""
        return {"value": self.measures} if isinstance(self.measures, str) else self.measures

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Return the names of the settings and arguments of the function."""
        return frozenset(inspect.signature(self.function).parameters)

    @property
    def codes_only(self) -> bool:
        """Return whether the metric needs no factors."""
        return self.family == "label-free"

    @property
    def tests(self) -> bool:
        """Return whether the metric fits a predictor, which can be tested on other rows."""
        return "test" in self.parameters


class Public(Protocol[P, R_co]):
    """A metric, to be called with codes (n, d) and factors (n, k), or with inputs that are checked already."""

    @overload
    def __call__(self, codes: ArrayLike, factors: ArrayLike, /, *args: P.args, **settings: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, inputs: Inputs, /, *args: P.args, **settings: P.kwargs) -> R_co: ...


def metric(function: Callable[Concatenate[Inputs, P], R]) -> Public[P, R]:
    """Return the public form of a function of checked inputs: called with codes and factors, it checks them first.

    The settings `continuous` and `test` belong to the inputs. A function names them, for its public signature, and
    finds them applied to its inputs.

    >>> @metric
    ... def rows(inputs: Inputs, *, times: int = 1, continuous: Continuous = None) -> int:
    ...     return times * len(inputs.codes)
    >>> rows([[0.0], [1.0]], [0, 1], times=3), list(inspect.signature(rows).parameters)
    (6, ['codes', 'factors', 'times', 'continuous'])
    """
    signature = inspect.signature(function)
    first, *settings_of = signature.parameters.values()
    arrays = [first.replace(name=name, annotation=ArrayLike) for name in ("codes", "factors")]
    named_settings = {setting.name for setting in settings_of}

    @wraps(function)
    def public(codes: Any, factors: Any = None, **settings: Any) -> R:
        own = {key: settings.pop(key) for key in ("continuous", "test") if key in named_settings & settings.keys()}
        if isinstance(codes, Inputs) and own.get("test") is not None:
            raise ValueError("test rows are part of checked inputs, and cannot be given beside them")
        inputs = codes.declare(own.get("continuous")) if isinstance(codes, Inputs) else check(codes, factors, **own)
        return function(inputs, **settings)  # type: ignore[call-arg]

    public.__signature__ = signature.replace(parameters=[*arrays, *settings_of])  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]
