"""How images are drawn: correlated factors and combinations that are left out; pairs that share most of their factors.

"dsprites:correlate=x+y,sigma=0.2" draws x and y together, "blobs:held_out=x=4..7+y=4..7" never draws that corner and
"blobs:only=x=0..3" nothing but that half. The images are those of the whole set, which `.whole` is.

Pairs are those of Locatello et al. (2020), "Weakly-supervised disentanglement without compromises": the first image is
drawn at random; in the second, k of its factors are drawn again and the others stay. A user may also give pairs. What a
data set never draws (a gap, a bias) is in no pair either.
"""

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.data.dataset import DataSet, FactorBox, FactorGrid, Fixed, TableDataSet

SIGMA = 0.2
_MOST_ROUNDS = 10_000  # After so many rounds of proposals a bias is taken to leave nothing.
_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
_RANGE = re.compile(rf"(?P<low>{_NUMBER})(?:\.\.(?P<high>{_NUMBER}))?")

Floats = NDArray[np.float64]
Condition = tuple[int, float, float]  # A column and its range of values, both ends included.


@dataclass(frozen=True)
class Bias:
    """A bias of factor rows: how likely each is to be drawn, relative to a uniform draw.

    pairs: columns that are correlated. sigma: how loosely. only: conditions that all hold. held_out: conditions that
    never all hold. low, high: the range of each factor.
    """

    pairs: tuple[tuple[int, int], ...]
    sigma: float
    only: tuple[Condition, ...]
    held_out: tuple[Condition, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def weights(self, rows: NDArray[Any]) -> Floats:
        """Return the weights of rows (n, k), in [0, 1].

        Träuble et al. (2021): p(c1, c2) ~ exp(-(c1 - c2)^2 / 2 sigma^2), with factors scaled to [0, 1].
        """
        weights = np.ones(len(rows))
        if self.pairs:
            low, high = np.array(self.low), np.array(self.high)
            scaled = (rows - low) / np.where(high > low, high - low, 1.0)
            a, b = np.array(self.pairs).T
            weights = np.exp(-((scaled[:, a] - scaled[:, b]) ** 2).sum(1) / (2 * self.sigma**2))
        if self.only:
            weights = weights * _all_hold(self.only, rows)
        if self.held_out:
            weights = weights * ~_all_hold(self.held_out, rows)
        return weights


def draw(
    n: int,
    rng: np.random.Generator,
    propose: Callable[[NDArray[np.int64]], NDArray[Any]],
    weights: Callable[[NDArray[Any]], NDArray[Any]],
    otherwise: NDArray[Any] | None = None,
) -> Any:
    """Draw n rows by rejection. propose: gives uniform rows for the numbers of some; each is taken with its weight or
    drawn anew.

    otherwise: n rows that stand in for those of which hardly any proposal would ever be taken.
    """
    rows = propose(np.arange(n))
    left = np.flatnonzero(rng.random(n) >= weights(rows))
    for _ in range(_MOST_ROUNDS):
        if not len(left):
            return rows
        rows[left] = propose(left)
        left = left[rng.random(len(left)) >= weights(rows[left])]
    if otherwise is not None:
        rows[left] = otherwise[left]
        return rows
    raise ValueError("hardly any combination of the factors is left by correlate=, only= and held_out=")


def _all_hold(conditions: tuple[Condition, ...], rows: NDArray[Any]) -> NDArray[np.bool_]:
    held = [(rows[:, column] >= low) & (rows[:, column] <= high) for column, low, high in conditions]
    return np.logical_and.reduce(held)


@dataclass(frozen=True)
class BiasedGrid(FactorGrid):
    """A grid whose rows are not drawn uniformly. base: the grid of the set that was biased, which may be biased
    itself."""

    base: FactorGrid = field(kw_only=True)
    bias: Bias = field(kw_only=True)

    @cached_property
    def _sums(self) -> Floats:
        """Return the running sums of the weights of all rows: 8 MB for the largest set, and far faster than to propose
        rows."""
        return np.cumsum(self.weights(self.rows(np.arange(len(self)))))

    def weights(self, rows: NDArray[Any]) -> Floats:
        return _all_weights(self.base, self.bias, rows)

    @property
    def drawable(self) -> int:
        return int(np.count_nonzero(self.weights(self.rows(np.arange(len(self))))))

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[np.int64]:
        if not fixed:
            found = np.searchsorted(self._sums, self._sums[-1] * rng.random(n), side="right")
            return np.stack(np.unravel_index(found, self.sizes), axis=1).astype(np.int64, copy=False)
        uniform = super().sample
        return draw(n, rng, lambda rows: uniform(len(rows), rng, _of(fixed, rows)), self.weights)


@dataclass(frozen=True)
class BiasedBox(FactorBox):
    """Continuous factors that are not drawn uniformly. base: the factors of the whole set, which may have a gap or be a
    part.

    `weights` are relative to a uniform draw from the box, those of the base included.
    """

    base: FactorBox = field(kw_only=True)
    bias: Bias = field(kw_only=True)

    def weights(self, rows: NDArray[Any]) -> Floats:
        return _all_weights(self.base, self.bias, rows)

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> Floats:
        return draw(n, rng, lambda rows: self.base.sample(len(rows), rng, _of(fixed, rows)), self.bias.weights)


def _all_weights(base: FactorGrid | FactorBox, bias: Bias, rows: NDArray[Any]) -> Floats:
    """Return how likely rows are relative to a uniform draw, by this bias and by that of the base, if it has one."""
    weights = bias.weights(rows)
    return weights * base.weights(rows) if hasattr(base, "weights") else weights


def _of(fixed: Fixed | None, rows: NDArray[np.int64]) -> Fixed | None:
    """Return the fixed values for these rows: a value that is one for all stays, of n values those of the rows."""
    return {name: np.asarray(value)[rows] if np.ndim(value) else value for name, value in (fixed or {}).items()}


class BiasedTable(TableDataSet):
    """Images with a table of factors that are not drawn uniformly."""

    def __init__(self, data: TableDataSet, bias: Bias):
        about = (data.name, data.factor_names, data.table, data.image_shape, data._fetch)
        super().__init__(*about, source=data.source, details=data.details)
        self.bias = bias
        self._chances: Floats = bias.weights(data.table)
        if isinstance(data, BiasedTable):
            self._chances = self._chances * data._chances
        if not self._chances.any():
            raise ValueError(f"{data.name} has no image left by correlate=, only= and held_out=")
        if data.pairs is not None:
            self.pairs = data.pairs[(self._chances[data.pairs] > 0).all(axis=1)]

    @property
    def drawable(self) -> int:
        return int(np.count_nonzero(self._chances))

    def draw_index(
        self, n: int, rng: np.random.Generator, candidates: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        chances = self._chances if candidates is None else self._chances[candidates]
        if not chances.any():
            raise ValueError(f"{self.name} has no image with these values left by correlate=, only= and held_out=")
        sums = np.cumsum(chances)
        found = np.searchsorted(sums, sums[-1] * rng.random(n), side="right")
        return found if candidates is None else candidates[found]


def biased(
    data: DataSet,
    *,
    correlate: str | None = None,
    sigma: float | None = None,
    only: str | None = None,
    held_out: str | None = None,
) -> DataSet:
    """Return the data set with its factors drawn otherwise; `.whole` is the set with uniform factors.

    A set that is biased already keeps that bias, too.

    Parameters
    ----------
    data : DataSet, with factors
    correlate : "x+y" (or "x,y"), optional
        Two factors that are drawn together, Träuble et al. (2021); several such pairs are separated by "/".
    sigma : float
        Of the correlation: 0.1 is strong, 0.7 weak, infinity none; of factors that are scaled to [0, 1].
    only : "x=0..3", optional
        Draw nothing but these values of a factor (integers of a grid); several conditions are joined by "+".
    held_out : "x=4..7+y=4..7", optional
        Never draw what meets all these conditions.

    Examples
    --------
    >>> from karenina.data import load
    >>> data = biased(load("blobs"), correlate="x+y", sigma=0.1)
    >>> rows = data.sample(1000, 0)[1]
    >>> bool(np.corrcoef(rows[:, 1], rows[:, 2])[0, 1] > 0.8), data.whole.name
    (True, 'blobs')
    """
    if not data.labelled:
        raise ValueError(f"{data.name} has no factors to correlate or to hold out")
    if sigma is not None and correlate is None:
        raise ValueError("sigma is how loosely factors are correlated: say which by correlate=")
    spread: Any = SIGMA if sigma is None else sigma
    if isinstance(spread, bool) or not isinstance(spread, int | float | np.number) or not spread > 0:
        raise ValueError(f"sigma must be a number above 0, got {spread!r}")
    names = data.factor_names
    pairs = () if correlate is None else _pairs(str(correlate), names)
    kept, left_out = _conditions("only", only, names), _conditions("held_out", held_out, names)
    bias = Bias(pairs, float(spread), kept, left_out, data.factors.low, data.factors.high)
    found: DataSet
    if isinstance(data, TableDataSet):
        found = BiasedTable(data, bias)
    else:
        found, base = copy(data), cast(Any, data.factors)
        grid = isinstance(base, FactorGrid)
        factors: Any = (
            BiasedGrid(names, base.sizes, base=base, bias=bias)
            if grid
            else BiasedBox(names, base.low, base.high, base=base, bias=bias)
        )
        if grid and not factors._sums[-1] > 0:
            raise ValueError(f"{data.name} has no combination of factors left by correlate=, only= and held_out=")
        factors.sample(1, np.random.default_rng(0))  # This raises where a box has none.
        found.factors = factors
    found.whole = data.whole
    return found


def _pairs(text: str, names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    found = []
    for part in text.split("/"):
        # A name may have a "+" or a comma of its own.
        cuts = [(part[:i], part[i + 1 :]) for i, letter in enumerate(part) if letter in "+,"]
        known = [(names.index(a), names.index(b)) for a, b in cuts if a in names and b in names and a != b]
        if not known:
            raise ValueError(
                f"correlate takes two factors such as {'+'.join(names[:2])}, of {', '.join(names)}; got {part!r}"
            )
        found.append(known[0])
    columns = [column for pair in found for column in pair]
    for column in columns:
        if columns.count(column) > 1:
            raise ValueError(f"correlate has the factor {names[column]} in two pairs")
    return tuple(found)


def _conditions(option: str, given: ArrayLike | str | None, names: tuple[str, ...]) -> tuple[Condition, ...]:
    if given is None:
        return ()
    found = []
    for part in str(given).split("+"):
        name, _, values = part.rpartition("=")
        matched = _RANGE.fullmatch(values)
        if name not in names or not matched:
            raise ValueError(
                f"{option} takes FACTOR=VALUE or FACTOR=LOW..HIGH, joined by +, of {', '.join(names)}; got {part!r}"
            )
        low = float(matched["low"])
        high = float(matched["high"] or low)
        if high < low:
            raise ValueError(f"{option}: the range of {name} is empty, got {values}")
        found.append((names.index(name), low, high))
    return tuple(found)


Index = NDArray[np.int64]
Changed = NDArray[np.bool_]


class Pairs:
    """Pairs of images, drawn at random.

    Parameters
    ----------
    data : DataSet
        With factors, or with pairs of its own (`karenina.data.user_images.folder` with pairs_csv or frames). A table
        that is no grid pairs an image with one that agrees in all other factors, where there is one, and else with
        itself.
    k : int or "random"
        How many factors are drawn again: so many, or for each pair a number from 1 to all but one. A factor that is
        drawn again may come out the same.

    Examples
    --------
    >>> from karenina.data import load
    >>> images, changed = Pairs(load("blobs"), k=1).sample(5, np.random.default_rng(0))
    >>> images.shape, changed.sum(axis=1).tolist()
    ((10, 1, 16, 16), [1, 1, 1, 1, 1])
    """

    def __init__(self, data: DataSet, k: int | str = 1):
        self.data, self.k = data, k
        self._groups: dict[tuple[bool, ...], tuple[Index, Index, Index, Index]] = {}
        self._sums: dict[tuple[bool, ...], Floats] = {}  # Running sums of the chances of a biased table's images.
        factors = len(data.factor_names)
        if data.pairs is not None:
            if not len(data.pairs):
                raise ValueError(f"{data.name} has no pair of images left by correlate=, only= and held_out=")
            return
        if not data.labelled:
            raise ValueError(
                f"{data.name} has no factors, from which pairs could be made, and no pairs of its own: "
                "give pairs_csv= or frames=true"
            )
        if factors < 2 or (k != "random" and not 1 <= int(k) < factors):
            raise ValueError(
                f"pairs of {data.name} differ in 1 to {factors - 1} of its {factors} factors, not in k={k}"
            )
        if not isinstance(data, TableDataSet):
            self._rows(1, np.random.default_rng(0))  # A list of continuous rows raises that it has no pairs.

    @property
    def numbered(self) -> bool:
        """Return whether `index` can be used."""
        return isinstance(self.data, TableDataSet) or not (self.data.factors.continuous or self.data.stochastic)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[NDArray[Any], Changed | None]:
        """Draw images (2n, c, h, w), the first of all pairs and then the second, and which factors were drawn again (n,
        k).

        None for pairs of the user's own, of which that is not known.
        """
        if isinstance(self.data, TableDataSet):
            first, second, changed = self.index(n, rng)
            return self.data._fetch(np.concatenate([first, second])), changed
        rows, again, drawn = self._rows(n, rng)
        return self.data._render(np.concatenate([rows, again]), rng), drawn

    def index(self, n: int, rng: np.random.Generator) -> tuple[Index, Index, Changed | None]:
        """Draw the numbers of the images of n pairs, as `sample` does."""
        if self.data.pairs is not None:
            first, second = self.data.pairs[rng.integers(0, len(self.data.pairs), n)].T
            return first, second, None
        if isinstance(self.data, TableDataSet):
            first = self.data.draw_index(n, rng)
            changed = self._changed(n, rng)
            return first, self._partners(self.data, first, changed, rng), changed
        rows, again, changed = self._rows(n, rng)
        grid: Any = self.data.factors
        return grid.index_of_checked(rows), grid.index_of_checked(again), changed

    def _changed(self, n: int, rng: np.random.Generator) -> Changed:
        """Choose which factors are drawn again: (n, factors)."""
        factors = len(self.data.factor_names)
        counts = rng.integers(1, factors, (n, 1)) if self.k == "random" else int(self.k)
        return rng.random((n, factors)).argsort(axis=1).argsort(axis=1) < counts

    def _rows(self, n: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], Changed]:
        factors = self.data.factors
        rows = factors.sample(n, rng)
        changed = self._changed(n, rng)
        weights = getattr(factors, "weights", None)
        if weights is None:
            return rows, np.where(changed, factors.sample(n, rng), rows), changed
        uniform: Any = FactorGrid.sample if isinstance(factors, FactorGrid) else FactorBox.sample
        # Given the factors that stay, the others are drawn as likely as they are beside them.
        again = draw(n, rng, lambda of: np.where(changed[of], uniform(factors, len(of), rng), rows[of]), weights, rows)
        return rows, again, changed

    def _partners(self, data: TableDataSet, first: Index, changed: Changed, rng: np.random.Generator) -> Index:
        second = first.copy()
        for subset in np.unique(changed, axis=0):
            key = tuple(bool(drawn) for drawn in subset)
            if key not in self._groups:
                self._groups[key] = _grouped(data.table[:, ~subset])
                if isinstance(data, BiasedTable):
                    self._sums[key] = np.cumsum(data._chances[self._groups[key][0]])
            order, group, start, size = self._groups[key]
            rows = np.flatnonzero((changed == subset).all(axis=1))
            own = group[first[rows]]
            if key in self._sums:
                second[rows] = order[_likely(self._sums[key], start[own], size[own], rng)]
            else:
                second[rows] = order[start[own] + (rng.random(len(rows)) * size[own]).astype(np.int64)]
        return second


def _grouped(shared: NDArray[Any]) -> tuple[Index, Index, Index, Index]:
    """Group equal rows: return an order that puts them together, the group of each row, each group's start and size."""
    _, group, size = np.unique(shared, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    return np.argsort(group, kind="stable"), group, np.cumsum(size) - size, size


def _likely(sums: Floats, start: Index, size: Index, rng: np.random.Generator) -> Index:
    """Draw a place in each of n ranges (first place, number of places), by chances whose running sums are given."""
    before, end = np.where(start > 0, sums[start - 1], 0.0), sums[start + size - 1]
    drawn = before + rng.random(len(start)) * (end - before)
    return np.searchsorted(sums, np.minimum(drawn, np.nextafter(end, 0.0)), side="right")


def read_pairs(path: Path, names: Sequence[str]) -> Index:
    """Read the pairs (m, 2) in a CSV with two columns of file names, as places in `names`; a line of titles is left
    out."""
    import pandas as pd

    if not path.is_file():
        raise ValueError(f"there is no file of pairs {str(path)!r}")
    try:
        table = pd.read_csv(path, header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError, pd.errors.ParserError) as error:
        raise ValueError(f"{path} is not a table of pairs: {' '.join(str(error).split())}") from None
    if table.shape[1] != 2:
        raise ValueError(f"{path} has {table.shape[1]} columns, expected the two file names of each pair")
    place = {name: i for i, name in enumerate(names)}
    words = table.to_numpy()
    if len(words) and not any(word.strip() in place for word in words[0]):
        words = words[1:]
    unknown = [word for word in words.ravel() if word.strip() not in place]
    if unknown:
        raise ValueError(f"{path} names {unknown[0]!r}, which is no image of the folder")
    if not len(words):
        raise ValueError(f"{path} has no pairs")
    return np.array([[place[word.strip()] for word in row] for row in words], np.int64)


def frame_pairs(names: Sequence[str]) -> Index:
    """Return neighbours (m, 2) among file names of one folder, sorted by name and by the numbers in it: 2 before 10.

    >>> frame_pairs(["1.png", "10.png", "2.png"]).tolist()
    [[0, 2], [2, 1]]
    """
    folders = [name.rpartition("/")[0] for name in names]
    order = sorted(range(len(names)), key=lambda i: (folders[i], _by_number(names[i]), names[i]))
    pairs = [(a, b) for a, b in pairwise(order) if folders[a] == folders[b]]
    if not pairs:
        raise ValueError("frames=true needs two or more images in a folder")
    return np.array(pairs, np.int64)


def _by_number(name: str) -> list[str | int]:
    """Split a name into text and numbers by turns, by which names are sorted."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]
