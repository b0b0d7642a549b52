"""Checks of what callers give: codes of many models, KL per latent, groups."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.arrays import Bools, Ints
from karenina.numerics.checks import as_array

# A KL computed in float32 may come out this far below 0.
_KL_ROUNDING = 1e-4


@dataclass(frozen=True)
class RawFile:
    """An (n, L) array in a file.

    Reading instead of mapping keeps a store that is larger than the memory out of it, and a worker process needs only
    these few words.
    """

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int = 0

    def read(self) -> NDArray[Any]:
        count = int(np.prod(self.shape))
        return np.fromfile(self.path, np.dtype(self.dtype), count, offset=self.offset).reshape(self.shape)


@dataclass(frozen=True)
class Codes:
    """Mean codes of M models on the same n inputs: `codes[i]` is (n, L_i). `rows`: the inputs used, None for all."""

    models: Any
    sizes: Ints
    n: int
    rows: Ints | None = None

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, model: int) -> NDArray[Any]:
        array = _array(self.models[int(model)])
        return array if self.rows is None else array[self.rows]

    def on_disk(self, folder: Path) -> "Codes":
        """Return the same codes as files that another process can read; `folder` takes what is only in memory."""
        files = [self.models[i] for i in range(len(self))]
        for i, item in enumerate(files):
            if not isinstance(item, RawFile):
                array = np.ascontiguousarray(item)
                array.tofile(folder / f"{i}.raw")
                files[i] = RawFile(str(folder / f"{i}.raw"), array.dtype.str, array.shape)
        return replace(self, models=files)


def _array(item: Any) -> NDArray[Any]:
    return item.read() if isinstance(item, RawFile) else as_array(item)


def _file_of(array: Any) -> RawFile | None:
    """Return the file behind a memory-mapped array, or None for a view and a private copy, which may differ from it."""
    if (
        isinstance(array, np.memmap)
        and array.filename is not None
        and not isinstance(array.base, np.ndarray)  # a view does not know its own offset
        and array.flags.c_contiguous
        and array.mode in ("r", "r+")
    ):
        return RawFile(str(array.filename), array.dtype.str, array.shape, array.offset)
    return None


def _by_model(codes: Any) -> Any:
    """Return a sequence of arrays and files, one per model."""
    if isinstance(codes, (list, tuple)):
        arrays = [item if isinstance(item, np.ndarray) else as_array(item) for item in codes]
        return [_file_of(array) or array for array in arrays]
    file = _file_of(codes)
    if file is None:
        return codes
    size = codes.dtype.itemsize * int(np.prod(file.shape[1:]))
    return [replace(file, shape=file.shape[1:], offset=file.offset + i * size) for i in range(len(codes))]


def check_codes(codes: Any, n: int | None, seed: int | np.random.Generator, least_rows: int) -> Codes:
    """Return codes of at least two models with the same rows, all finite; warn about models given twice."""
    if isinstance(codes, np.ndarray) and codes.ndim != 3:
        raise ValueError(
            f"codes must be a list of (n, L) arrays or one (models, n, L) array; got an array of shape {codes.shape}"
        )
    try:
        count = len(codes)
    except TypeError:
        raise ValueError(f"codes must be a list of (n, L) arrays, one per model; got {type(codes).__name__}") from None
    if count < 2:
        raise ValueError(f"models are compared with one another: give at least 2; got {count}")
    models = _by_model(codes)
    sizes = np.zeros(count, np.int64)
    rows = -1
    seen: dict[Hashable, list[int]] = {}
    for i in range(count):
        array = _array(models[i])
        if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "fiub":
            raise ValueError(
                f"codes of model {i} must be numbers of shape (n, L); got {array.dtype} of shape {array.shape}"
            )
        if rows == -1:
            rows = len(array)
        if len(array) != rows:
            raise ValueError(
                "all models must encode the same inputs in the same order: "
                f"model 0 has {rows} rows, model {i} has {len(array)}"
            )
        # A sum is not finite when a term is not, and is much cheaper than looking at each; overflow is no error.
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(array.sum())
        if not np.isfinite(total) and not np.isfinite(array).all():
            raise ValueError(f"codes of model {i} contain {int((~np.isfinite(array)).sum())} NaN or infinite values")
        sizes[i] = array.shape[1]
        seen.setdefault((total, array.shape[1]), []).append(i)
    if rows < least_rows:
        raise ValueError(f"at least {least_rows} rows of codes are needed; got {rows}")
    _warn_of_duplicates(models, [group for group in seen.values() if len(group) > 1])
    if n is not None and not least_rows <= n <= rows:
        raise ValueError(f"n must be from {least_rows} to the {rows} rows that the codes have; got {n}")
    if n is None or n == rows:
        return Codes(models, sizes, rows)
    return Codes(models, sizes, n, np.sort(np.random.default_rng(seed).choice(rows, n, replace=False)))


def _warn_of_duplicates(models: Any, suspects: list[list[int]]) -> None:
    """Warn if any of the suspects, models of equal sums of codes, have equal codes."""
    duplicates = []
    for group in suspects:
        first = _array(models[group[0]])
        if first.any():  # models without an active latent may well be equal
            duplicates += [(group[0], other) for other in group[1:] if np.array_equal(first, _array(models[other]))]
    if duplicates:
        a, b = duplicates[0]
        more = f" (and {len(duplicates) - 1} more)" if len(duplicates) > 1 else ""
        warnings.warn(
            f"models {a} and {b} have identical codes{more}: was a run given twice? "
            "Duplicate models raise each other's score",
            UserWarning,
            stacklevel=4,
        )


def kl_rows(kl: Any) -> Any:
    """Return KLs by model: indexing a data frame would give its columns."""
    return kl.to_numpy() if hasattr(kl, "to_numpy") else kl


def check_kl(kl: Any, sizes: Ints, threshold: float) -> list[Bools]:
    """Return which latents of each model are active: mean KL above the threshold (equation 3)."""
    kl = kl_rows(kl)
    if np.ndim(kl[0] if isinstance(kl, (list, tuple)) and len(kl) else kl) == 0:
        raise ValueError(f"kl must have one row of latents per model; got {kl!r}")
    if len(kl) != len(sizes):
        raise ValueError(f"kl must have one row per model: {len(sizes)} models, {len(kl)} rows")
    active = []
    for i, size in enumerate(sizes):
        row = as_array(kl[i]).astype(float)
        if row.shape != (size,):
            raise ValueError(
                f"kl of model {i} must have shape ({size},), the mean over inputs for each latent; got {row.shape}"
            )
        if not np.isfinite(row).all() or (row < -_KL_ROUNDING).any():
            raise ValueError(f"kl of model {i} must be finite and not negative; its least value is {row.min()}")
        active.append(row > threshold)
    return active


def check_groups(groups: Sequence[Hashable] | ArrayLike | None, count: int, what: str) -> list[tuple[Hashable, Ints]]:
    """Return the members of each group, in the order in which groups first appear; without groups one called None."""
    if groups is None:
        return [(None, np.arange(count))]
    labels: list[Hashable] = list(groups.tolist() if isinstance(groups, np.ndarray) else groups)  # type: ignore[arg-type]
    if len(labels) != count:
        raise ValueError(f"groups must name a group for each {what}: {count} given, {len(labels)} groups")
    members: dict[Hashable, list[int]] = {}
    for i, label in enumerate(labels):
        members.setdefault(label, []).append(i)
    return [(label, np.array(rows)) for label, rows in members.items()]
