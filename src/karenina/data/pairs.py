"""Pairs of images that share most of their factors, from any data set, or from the user's own pairs.

Locatello et al. (2020), "Weakly-supervised disentanglement without compromises": the first image is drawn at
random; in the second, k of its factors are drawn again and the others stay. What a data set never draws (a gap, a
bias) is in no pair either.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.data.biased import BiasedTable, draw
from karenina.data.dataset import DataSet, FactorBox, FactorGrid, TableDataSet

Index = NDArray[np.int64]
Changed = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Pairs:
    """Draws pairs of images.

    Parameters
    ----------
    data : DataSet
        With factors, or with pairs of its own (karenina.data.own.folder with pairs_csv or frames). A table that is no
        grid pairs an image with one that agrees in all other factors, where there is one, and else with itself.
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
        self._sums: dict[tuple[bool, ...], Floats] = {}  # of the chances of a biased table's images, in that order
        factors = len(data.factor_names)
        if data.pairs is not None:
            if not len(data.pairs):
                raise ValueError(f"{data.name} has no pair of images that correlate, only and held_out leave")
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
            self._rows(1, np.random.default_rng(0))  # a list of continuous rows says that it has none

    @property
    def numbered(self) -> bool:
        """Whether `index` can be used."""
        return isinstance(self.data, TableDataSet) or not (self.data.factors.continuous or self.data.stochastic)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[NDArray[Any], Changed | None]:
        """Images (2n, c, h, w), the first of all pairs and then the second, and which factors were drawn again (n, k).

        None for pairs of the user's own, of which that is not known.
        """
        if isinstance(self.data, TableDataSet):
            first, second, changed = self.index(n, rng)
            return self.data._fetch(np.concatenate([first, second])), changed
        rows, again, drawn = self._rows(n, rng)
        return self.data._render(np.concatenate([rows, again]), rng), drawn

    def index(self, n: int, rng: np.random.Generator) -> tuple[Index, Index, Changed | None]:
        """The numbers of the images of n pairs, as `sample` draws them."""
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
        """Which factors are drawn again: (n, factors)."""
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
    """Rows that are equal: an order that puts them together, the group of each row, each group's start and size."""
    _, group, size = np.unique(shared, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    return np.argsort(group, kind="stable"), group, np.cumsum(size) - size, size


def _likely(sums: Floats, start: Index, size: Index, rng: np.random.Generator) -> Index:
    """A place in each of n ranges (first place, number of places), by chances of which these are the running sums."""
    before, end = np.where(start > 0, sums[start - 1], 0.0), sums[start + size - 1]
    drawn = before + rng.random(len(start)) * (end - before)
    return np.searchsorted(sums, np.minimum(drawn, np.nextafter(end, 0.0)), side="right")


def read_pairs(path: Path, names: Sequence[str]) -> Index:
    """The pairs (m, 2) in a CSV with two columns of file names, as places in `names`; a line of titles is left out."""
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
    """Neighbours (m, 2) among file names that are in the same folder, by name and by the numbers in it: 2 before 10.

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
    """Text and numbers by turns, by which names are sorted."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]
