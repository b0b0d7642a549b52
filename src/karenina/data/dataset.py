"""A data set: images of factor rows, and what can be said of its factors; the contact sheet that shows it.

A factor row has one value per factor. `sample` draws rows uniformly with replacement, as in Locatello et al. (2019: no
epochs, no split); `fixed` holds some factors at one value. Factors are a grid of discrete values (`FactorGrid`), a box
of continuous ones (`FactorBox`), or a list of rows in such a box (`FactorRows`). All have `names`, `sizes`, `low`,
`high`, `check` and `sample`; those that are `numbered` also have `at`, `find` and `draw_index`.
"""

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina._files import atomic
from karenina._notebook import facts, picture

# It is called with checked factor rows (n, k) and a generator for random parts, and returns uint8 (n, c, h, w).
Render = Callable[[NDArray, np.random.Generator], NDArray[np.uint8]]
Fixed = Mapping[str, ArrayLike]


def _check_width(rows: NDArray, names: tuple[str, ...]) -> NDArray:
    if rows.ndim == 1 and len(names) and rows.shape == (len(names),):
        rows = rows[None]
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ValueError(
            f"factor rows have shape {rows.shape}, expected (n, {len(names)}) for {', '.join(names) or 'no factors'}"
        )
    return rows


def check_index(index: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return the numbers (n,) of rows as an array; a ValueError where one is not in 0..count-1."""
    flat = np.atleast_1d(np.asarray(index))
    if flat.ndim != 1 or flat.dtype.kind not in "iu":
        raise ValueError(f"indices must be integers of shape (n,), got {flat.dtype} {flat.shape}")
    if flat.size and (flat.min() < 0 or flat.max() >= count):
        raise ValueError(f"index {flat[(flat < 0) | (flat >= count)][0]} is outside 0..{count - 1}")
    return flat


def _first_bad(bad: NDArray, rows: NDArray, names: tuple[str, ...]) -> str:
    row, column = np.argwhere(bad)[0]
    return f"row {row} has {names[column]} = {rows[row, column]}"


def _fixed(factors: "FactorGrid | FactorBox", rows: NDArray, fixed: Fixed | None) -> NDArray:
    """Return the rows (n, k) with some factors set to the values at which they are held."""
    for name, value in (fixed or {}).items():
        if name not in factors.names:
            raise ValueError(f"no factor {name!r}; the factors are {', '.join(factors.names)}")
        column = rows[:, factors.names.index(name)]
        column[:] = value
        if not (column == np.asarray(value)).all():
            raise ValueError(f"{name} cannot be held at {value!r}, expected an integer")
    return factors.check(rows) if fixed else rows


class Factors(Protocol):
    """The factors of a data set: names, ranges, and how rows are checked and drawn. The last five need them to be
    `numbered`."""

    names: tuple[str, ...]
    continuous: bool
    numbered: bool

    @property
    def sizes(self) -> tuple[int | None, ...]: ...
    @property
    def low(self) -> tuple[float, ...]: ...
    @property
    def high(self) -> tuple[float, ...]: ...
    def check(self, rows: ArrayLike) -> NDArray[Any]: ...
    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[Any]: ...
    @property
    def drawable(self) -> int: ...
    def __len__(self) -> int: ...
    def at(self, index: ArrayLike) -> NDArray[Any]: ...
    def find(self, rows: NDArray[Any]) -> NDArray[np.int64] | None: ...
    def draw_index(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]: ...


@dataclass(frozen=True)
class FactorGrid:
    """Every combination of k discrete factors, numbered row-major: the last factor changes fastest.

    Parameters
    ----------
    names : k names, all different
    sizes : k integers, the number of values of each factor

    Examples
    --------
    >>> grid = FactorGrid(("shape", "x"), (3, 4))
    >>> len(grid), grid.rows([0, 5]).tolist(), grid.index([[1, 1]]).tolist()
    (12, [[0, 0], [1, 1]], [5])
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    continuous, numbered = False, True

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes) or len(set(self.names)) != len(self.names):
            raise ValueError(f"{len(self.names)} factor names {self.names} for {len(self.sizes)} sizes {self.sizes}")
        if any(size < 1 for size in self.sizes):
            raise ValueError(f"factor sizes must be at least 1, got {self.sizes}")

    @cached_property
    def _strides(self) -> NDArray[np.int64]:
        return np.cumprod((1, *self.sizes[:0:-1]), dtype=np.int64)[::-1]

    @property
    def low(self) -> tuple[float, ...]:
        return (0.0,) * len(self.sizes)

    @property
    def high(self) -> tuple[float, ...]:
        return tuple(float(size - 1) for size in self.sizes)

    def __len__(self) -> int:
        return int(np.prod(self.sizes, dtype=np.int64))

    @property
    def drawable(self) -> int:
        """Return how many rows can be drawn."""
        return len(self)

    def rows(self, index: ArrayLike) -> NDArray[np.int64]:
        """Return the factor rows (n, k) of flat indices (n,)."""
        flat = check_index(index, len(self))
        return np.stack(np.unravel_index(flat, self.sizes), axis=1).astype(np.int64, copy=False)

    def index(self, rows: ArrayLike) -> NDArray[np.int64]:
        """Return the flat indices (n,) of factor rows (n, k)."""
        return self.index_of_checked(self.check(rows))

    def index_of_checked(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the flat indices of rows known to be integers within the grid: five times faster than `index`."""
        return rows @ self._strides

    at, find = rows, index_of_checked

    def draw_index(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the flat indices (n,) of random rows."""
        return self.find(self.sample(n, rng))

    def check(self, rows: ArrayLike) -> NDArray[np.int64]:
        """Return the rows as (n, k) int64, or raise a ValueError that names the first bad entry."""
        rows = _check_width(np.asarray(rows), self.names)
        if rows.dtype.kind not in "iu":
            if rows.dtype.kind != "f":
                raise ValueError(f"factor rows must be numbers, got {rows.dtype}")
            bad = ~np.isfinite(rows) | (rows != np.round(rows))
            if bad.any():
                raise ValueError(f"{_first_bad(bad, rows, self.names)}, expected an integer")
        bad = (rows < 0) | (rows >= np.array(self.sizes))
        if bad.any():
            column = int(np.argwhere(bad)[0, 1])
            raise ValueError(f"{_first_bad(bad, rows, self.names)}, expected 0..{self.sizes[column] - 1}")
        return rows.astype(np.int64, copy=False)

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[np.int64]:
        """Draw n rows (n, k), uniform with replacement; `fixed` maps factor names to a value or to n values."""
        return _fixed(self, rng.integers(0, np.array(self.sizes), size=(n, len(self.sizes))), fixed)


@dataclass(frozen=True)
class FactorBox:
    """k continuous factors, each uniform on [low, high).

    Parameters
    ----------
    names : k names
    low, high : k numbers each

    Examples
    --------
    >>> box = FactorBox(("azimuth",), (0.0,), (6.28,))
    >>> box.sample(2, np.random.default_rng(0)).shape
    (2, 1)
    """

    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    continuous, numbered = True, False

    @property
    def sizes(self) -> tuple[None, ...]:
        return (None,) * len(self.names)

    def check(self, rows: ArrayLike) -> NDArray[np.float64]:
        rows = _check_width(np.asarray(rows), self.names)
        if rows.dtype.kind not in "iuf":
            raise ValueError(f"factor rows must be numbers, got {rows.dtype}")
        rows = rows.astype(np.float64, copy=False)
        bad = ~((rows >= np.array(self.low)) & (rows <= np.array(self.high)))  # Written so that NaN is bad, too.
        if bad.any():
            column = int(np.argwhere(bad)[0, 1])
            raise ValueError(
                f"{_first_bad(bad, rows, self.names)}, expected {self.low[column]:g}..{self.high[column]:g}"
            )
        return rows

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[np.float64]:
        return _fixed(self, rng.uniform(self.low, self.high, size=(n, len(self.names))), fixed)


@dataclass(frozen=True, eq=False)
class FactorRows(FactorBox):
    """Rows of continuous factors, a fixed part of a data set: its images have numbers though there is no grid.

    `sample` draws from these rows, uniformly with replacement.

    Parameters
    ----------
    names, low, high : as of a `FactorBox`
    part : which part of the data set they are
    rows : (m, k), no two of which agree in a factor
    """

    part: str
    rows: NDArray[np.float64]

    numbered = True

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def drawable(self) -> int:
        """Return how many rows can be drawn."""
        return len(self)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.rows[:, 0])

    def at(self, index: ArrayLike) -> NDArray[np.float64]:
        """Return the rows (n, k) of these numbers (n,)."""
        return self.rows[check_index(index, len(self.rows))]

    def draw_index(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers (n,) of random rows."""
        return rng.integers(0, len(self.rows), n)

    def sample(self, n: int, rng: np.random.Generator, fixed: Fixed | None = None) -> NDArray[np.float64]:
        if fixed:
            raise ValueError(f"part={self.part} has {len(self.rows):,} images, none with given factors: leave out part")
        return self.rows[self.draw_index(n, rng)]

    def weights(self, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Raise a ValueError: pairs of such rows cannot be made."""
        raise ValueError(
            f"part={self.part} has {len(self.rows):,} images, no two of which agree in a factor, "
            "so there are no pairs of them: leave out part"
        )

    def find(self, rows: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """Return the numbers (n,) of these rows (n, k), or None if one of them is not here."""
        place = np.searchsorted(self.rows[:, 0], rows[:, 0], sorter=self._order)
        index = self._order[np.minimum(place, len(self._order) - 1)]
        return index if np.array_equal(self.rows[index], rows) else None


class DataSet:
    """Images made from factor rows, by a renderer or by looking them up in a file.

    Parameters
    ----------
    name : str
    factors : FactorGrid or FactorBox
        Also as `factor_names` (k,) and `factor_sizes` (k,), None for a continuous factor.
    image_shape : (channels, height, width)
    render : (checked factor rows (n, k), generator) -> uint8 images (n, c, h, w)
    source : "rendered", or the official file that is read
    stochastic : whether the same factor row can give different images
    size : number of images, for continuous factors; `len(data)` of a grid is its number of combinations

    Examples
    --------
    >>> import karenina, numpy as np
    >>> data = karenina.load("blobs")
    >>> images, factors = data.sample(64, np.random.default_rng(0))
    >>> images.shape, images.dtype, factors.shape
    ((64, 1, 16, 16), dtype('uint8'), (64, 4))
    """

    labelled = True
    pairs: NDArray[np.int64] | None = None  # (m, 2), see karenina.data.sampling.Pairs

    def __init__(
        self,
        name: str,
        factors: "Factors | FactorGrid | FactorBox",
        image_shape: tuple[int, int, int],
        render: Render,
        *,
        source: str = "rendered",
        stochastic: bool = False,
        size: int | None = None,
    ):
        self.name = name
        self.factors: Factors = cast(Any, factors)
        self.image_shape = image_shape
        self.source = source
        self.stochastic = stochastic
        self._render = render
        self._size = size
        # The set with uniform factors, on which models are measured: see karenina.data.sampling.
        self.whole: DataSet = self

    @property
    def factor_names(self) -> tuple[str, ...]:
        return self.factors.names

    @property
    def factor_sizes(self) -> tuple[int | None, ...]:
        return self.factors.sizes

    def __len__(self) -> int:
        if self.factors.numbered:
            return len(self.factors)
        if self._size is None:
            raise TypeError(f"{self.name} has continuous factors, so it has no length")
        return self._size

    @property
    def drawable(self) -> int:
        """Return how many of its images can be drawn: all, or those that only and held_out leave."""
        return self.factors.drawable if self.factors.numbered else len(self)

    @property
    def factors_text(self) -> str:
        """Return the names of the factors and their numbers of values."""
        return ", ".join(f"{name} {size or 'continuous'}" for name, size in zip(self.factor_names, self.factor_sizes))

    def __repr__(self) -> str:
        c, h, w = self.image_shape
        return f"<{self.name}: {c}x{h}x{w} images; {self.factors_text or 'no factors'}; {self.source}>"

    def _repr_html_(self) -> str:
        """Return HTML with some of the images, and what varies in them."""
        from PIL import Image

        images = self.sample(10, 0)[0]
        strip = np.concatenate(list(images), axis=2).transpose(1, 2, 0)
        file = io.BytesIO()
        Image.fromarray(strip[..., 0] if strip.shape[2] == 1 else strip[..., :3]).save(file, "PNG")
        shape, factors = "x".join(map(str, self.image_shape)), self.factors_text or "none"
        known = {"images": shape, "factors": factors, "source": self.source}
        return facts(self.name, known, picture(file.getvalue(), f"images of {self.name}"))

    def images(self, factors: ArrayLike, rng: np.random.Generator | int | None = None) -> NDArray[np.uint8]:
        """Return the images (n, c, h, w) of factor rows (n, k). `rng` is for random parts (default: seed 0)."""
        rows = self.factors.check(factors)
        return self._render(rows, np.random.default_rng(0 if rng is None else rng))

    def sample(
        self, n: int, rng: np.random.Generator | int, fixed: Fixed | None = None
    ) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        """Draw n random images (n, c, h, w) and their factor rows (n, k), uniform with replacement.

        Parameters
        ----------
        n : int
        rng : generator or seed
        fixed : dict, optional
            Name of a factor -> the value at which it is held, or n values.
        """
        rng = np.random.default_rng(rng)
        rows = self.factors.sample(n, rng, fixed)
        return self._render(rows, rng), rows

    def at(self, index: ArrayLike, rng: np.random.Generator | int | None = None) -> NDArray[np.uint8]:
        """Return the images of flat indices (n,) in 0..len(data)-1."""
        if not self.factors.numbered:
            raise ValueError(f"{self.name} has continuous factors: use images(factors) instead of at(index)")
        return self.images(self.factors.at(index), rng)

    def draw_index(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the flat indices (n,) of random images, as `sample` does."""
        return self.factors.draw_index(n, rng)


class TableDataSet(DataSet):
    """Images with a table of factors, one row per image, that need not form a grid; or with no factors at all.

    `sample` draws images; `images(factors)` gives for each row one of the images that have exactly these factors.

    Parameters
    ----------
    name : str
    names : k names of factors
    table : (m, k), the factors of the m images
    image_shape : (channels, height, width)
    fetch : indices (n,) -> uint8 images (n, c, h, w)
    source : where the images are from
    details : dict, optional
        Names of a categorical factor's values: {"colour": ("blue", "red")} means 0 is blue, 1 is red.
    """

    def __init__(
        self,
        name: str,
        names: tuple[str, ...],
        table: NDArray,
        image_shape: tuple[int, int, int],
        fetch: Callable[[NDArray[np.int64]], NDArray[np.uint8]],
        *,
        source: str,
        details: Mapping[str, tuple[str, ...]] | None = None,
    ):
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ValueError(f"a factor table of shape {table.shape} does not fit the factor names {names}")
        if len(table) == 0:
            raise ValueError(f"{name} holds no images")
        self.labelled = bool(names)
        self.unreadable: tuple[str, ...] = ()  # Names of files that were left out.
        self.table = table
        self.details = dict(details or {})
        self._fetch = fetch
        self._sizes: tuple[int | None, ...] | None = None
        self._rows_of: dict[bytes, NDArray[np.int64]] | None = None
        low = tuple(table.min(axis=0).tolist()) if names else ()
        high = tuple(table.max(axis=0).tolist()) if names else ()
        super().__init__(name, FactorBox(names, low, high), image_shape, self._lookup, source=source, size=len(table))

    @property
    def factor_sizes(self) -> tuple[int | None, ...]:
        """Return the number of values of each factor of integers; None for a continuous factor."""
        if self._sizes is None:
            whole = (self.table == np.round(self.table)).all(axis=0)
            self._sizes = tuple(len(np.unique(column)) if ok else None for column, ok in zip(self.table.T, whole))
        return self._sizes

    def sample(
        self, n: int, rng: np.random.Generator | int, fixed: Fixed | None = None
    ) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        rng = np.random.default_rng(rng)
        index = self.draw_index(n, rng, self._having(fixed) if fixed else None)
        return self._fetch(index), self.table[index]

    def _having(self, fixed: Fixed) -> NDArray[np.int64]:
        """Return the numbers of the images that have these values."""
        candidates = np.arange(len(self.table))
        for name, value in fixed.items():
            column = self.factor_names.index(name) if name in self.factor_names else None
            if column is None or np.ndim(value):
                raise ValueError(
                    f"cannot fix {name!r} at {value!r}; expected one value of {', '.join(self.factor_names) or 'none'}"
                )
            candidates = candidates[self.table[candidates, column] == value]
        if len(candidates) == 0:
            raise ValueError(f"{self.name} has no image with {fixed}")
        return candidates

    def draw_index(
        self, n: int, rng: np.random.Generator, candidates: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Draw the numbers (n,) of random images, of these candidates if there are any."""
        if candidates is None:
            return rng.integers(0, len(self.table), n)
        return candidates[rng.integers(0, len(candidates), n)]

    def at(self, index: ArrayLike, rng: np.random.Generator | int | None = None) -> NDArray[np.uint8]:
        return self._fetch(check_index(index, len(self)))

    def _lookup(self, rows: NDArray, rng: np.random.Generator) -> NDArray[np.uint8]:
        if not self.labelled:
            raise ValueError(f"{self.name} has no factors: use sample(n, rng) or at(index)")
        if self._rows_of is None:
            order: dict[bytes, list[int]] = {}
            for i, row in enumerate(np.asarray(self.table, np.float64) + 0.0):  # -0 has other bytes than 0.
                order.setdefault(row.tobytes(), []).append(i)
            self._rows_of = {key: np.array(value) for key, value in order.items()}
        index = np.empty(len(rows), np.int64)
        for i, row in enumerate(rows + 0.0):
            found = self._rows_of.get(row.tobytes())
            if found is None:
                raise ValueError(f"{self.name} has no image with the factors {row.tolist()}")
            index[i] = found[rng.integers(len(found))]
        return self._fetch(index)


def traversals(data: DataSet, columns: int = 10, seed: int = 0) -> list[tuple[str, NDArray[np.uint8]]]:
    """Return a label and images (m, c, h, w) for every factor: m evenly spaced values of it, the other factors fixed.

    Data without a grid of factors gives rows of random images instead.
    """
    rng = np.random.default_rng(seed)
    if isinstance(data, TableDataSet):
        rows = min(4, -(-len(data) // columns))
        order = rng.permutation(len(data))[: rows * columns]
        return [("", data.at(part)) for part in np.array_split(order, rows)]
    # Values near the middle, but not the middle itself: colours that are all alike would hide what each factor does.
    middle = rng.uniform(0.2, 0.8, len(data.factor_names))
    if isinstance(data.factors, FactorGrid):
        values = [
            np.unique(np.linspace(0, size - 1, min(columns, size)).round().astype(int)) for size in data.factors.sizes
        ]
        base = np.round(middle * (np.array(data.factors.sizes) - 1)).astype(int)
    else:
        # Values begin half a step from both ends, because the ends of an angle are the same picture.
        step = (np.arange(columns) + 0.5) / columns
        values = [low + step * (high - low) for low, high in zip(data.factors.low, data.factors.high)]
        base = data.factors.low + middle * np.subtract(data.factors.high, data.factors.low)
    rows_of_images = []
    for j, (name, row_values) in enumerate(zip(data.factor_names, values)):
        factors = np.repeat(base[None], len(row_values), axis=0)
        factors[:, j] = row_values
        size = data.factor_sizes[j]
        rows_of_images.append((f"{name}\n{f'{size} values' if size else 'continuous'}", data.images(factors, seed)))
    return rows_of_images


def draw_sheet(data: DataSet, path: str | os.PathLike[str], *, columns: int = 10, seed: int = 0) -> None:
    """Write the labelled contact sheet of a data set as PNG (or PDF or SVG, by the ending of `path`)."""
    from karenina.drawing.figure import Figure

    rows = traversals(data, columns, seed)
    c, h, w = data.image_shape
    width = max(len(images) for _, images in rows)
    figure = Figure(figsize=(1.4 + 0.8 * width, 0.6 + 0.8 * len(rows) * h / w), dpi=120)
    axes = figure.subplots(len(rows), width, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
    figure.subplots_adjust(
        left=1.3 / figure.get_figwidth(), right=0.99, bottom=0.02, top=1 - 0.4 / figure.get_figheight()
    )
    for (label, images), line in zip(rows, axes):
        for axis in line:
            axis.axis("off")
        for axis, image in zip(line, images):
            axis.imshow(image[0] if c == 1 else image[:3].transpose(1, 2, 0), cmap="gray", vmin=0, vmax=255)
        line[0].text(-0.15, 0.5, label, transform=line[0].transAxes, ha="right", va="center", fontsize=9)
    figure.suptitle(f"{data.name} ({data.source})", fontsize=10)
    with atomic(path) as part:
        figure.savefig(part)
