"""The pairs to compare, cut into tiles of models, and the tiles run here, in worker processes or on Ray.

A tile reads the codes of its own models and emits one number per pair, so that memory does not grow with the number of
models and tiles can run anywhere. The cut depends on the number of models and rows alone: whoever runs the tiles, in
whatever order, the numbers are the same to the last bit.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from karenina.numerics.arrays import Bools, Ints
from karenina.selection._inputs import Codes

# Two panels of prepared codes of this size are in memory at a time.
_PANEL_BYTES = 128 << 20
# In a pool of at most this many models each draws its partners on its own; in a larger one whole blocks are drawn,
# since the product over all pairs of the pool would be wasted.
_OWN_DRAW = 512


@dataclass(frozen=True)
class Tile:
    """Pairs between two lists of models, or within one (`cols` is None).

    wanted (R, C): target in rows, source in cols; back (C, R): the other way. None wants all.
    """

    rows: Ints
    cols: Ints | None
    wanted: Bools | None = None
    back: Bools | None = None


class Work(Protocol):
    """What is done with a tile. `codes` is replaced by a form that travels when it runs in another process."""

    @property
    def codes(self) -> Codes: ...

    def __call__(self, tile: Tile) -> Any: ...


@dataclass(frozen=True)
class Workers:
    """Who computes; results do not depend on it.

    Parameters
    ----------
    processes : int
        Of this computer; 1: none besides this one.
    ray : str
        Address of a Ray cluster ("auto", "local" or host:port).
    progress : (tiles done, tiles in all) -> None
    """

    processes: int = 1
    ray: str | None = None
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"workers must be at least 1; got {self.processes}")


def tile_size(n: int, latents: int) -> int:
    return int(np.clip(_PANEL_BYTES // (8 * n * latents), 2, 512))


def plan(pools: list[Ints], partners: int | None, rng: np.random.Generator, size: int) -> list[Tile]:
    """Tiles that compare each model of a pool with `partners` others of it, drawn without replacement; None for all."""
    tiles: list[Tile] = []
    for pool in pools:
        count = len(pool)
        if partners is None or partners >= count - 1:
            tiles += _cut(pool, None, size)
        elif count <= _OWN_DRAW:
            tiles += _cut(pool, _draw(count, partners, rng), size)
        else:
            tiles += _random_blocks(pool, partners, rng, size)
    return tiles


def _cut(models: Ints, wanted: Bools | None, size: int) -> list[Tile]:
    parts = np.array_split(np.arange(len(models)), -(-len(models) // size))
    tiles = []
    for k, a in enumerate(parts):
        tiles.append(Tile(models[a], None, None if wanted is None else wanted[np.ix_(a, a)]))
        for b in parts[k + 1 :]:
            there, back = (None, None) if wanted is None else (wanted[np.ix_(a, b)], wanted[np.ix_(b, a)])
            tiles.append(Tile(models[a], models[b], there, back))
    return tiles


def _draw(count: int, partners: int, rng: np.random.Generator) -> Bools:
    keys = rng.random((count, count))
    np.fill_diagonal(keys, 2.0)
    wanted = np.zeros((count, count), bool)
    np.put_along_axis(wanted, np.argpartition(keys, partners - 1, axis=1)[:, :partners], True, axis=1)
    return wanted


def _random_blocks(pool: Ints, partners: int, rng: np.random.Generator, size: int) -> list[Tile]:
    """Every model is a target in one random block of partners + 1; the last block borrows sources to be full."""
    order = rng.permutation(pool)
    width = partners + 1
    full = len(order) // width * width
    tiles = [tile for k in range(0, full, width) for tile in _cut(order[k : k + width], None, size)]
    rest = order[full:]
    if len(rest):
        block = np.concatenate([rest, rng.choice(order[:full], width - len(rest), replace=False)])
        wanted = ~np.eye(width, dtype=bool)
        wanted[len(rest) :] = False
        tiles += _cut(block, wanted, size)
    return tiles


def run(work: Work, tiles: list[Tile], workers: int | Workers = 1) -> Iterator[Any]:
    """work(tile) of each tile, in the order of the tiles."""
    who = workers if isinstance(workers, Workers) else Workers(workers)
    if who.ray is not None:
        results = _on_ray(work, tiles, who.ray)
    elif who.processes > 1 and len(tiles) > 1:
        results = _in_processes(work, tiles, min(who.processes, len(tiles)))
    else:
        results = map(work, tiles)
    for done, result in enumerate(results, 1):
        if who.progress is not None:
            who.progress(done, len(tiles))
        yield result


@contextmanager
def _portable(work: Any) -> Iterator[Any]:
    with tempfile.TemporaryDirectory(prefix="karenina-codes-") as folder:
        yield replace(work, codes=work.codes.on_disk(Path(folder)))


_adopted: Any = None


def _adopt(work: Any) -> None:
    from threadpoolctl import threadpool_limits

    global _adopted
    threadpool_limits(1)  # one worker per core: threads of the matrix products would only fight
    _adopted = work


def _work_on(tile: Tile) -> Any:
    return _adopted(tile)


def _in_processes(work: Any, tiles: list[Tile], workers: int) -> Iterator[Any]:
    # Spawned, not forked: the parent may hold threads (BLAS, torch) that do not survive a fork.
    with (
        _portable(work) as job,
        ProcessPoolExecutor(workers, get_context("spawn"), initializer=_adopt, initargs=(job,)) as pool,
    ):
        yield from pool.map(_work_on, tiles)


def _on_ray(work: Any, tiles: list[Tile], address: str) -> Iterator[Any]:
    try:
        import ray
    except ImportError:
        raise ImportError("running on Ray needs the extra of that name: pip install 'karenina[ray]'") from None
    if not ray.is_initialized():
        ray.init(address=address)
    # A file is named, to be read from shared storage; codes in memory travel once, to Ray's object store.
    job = ray.put(work)
    task = ray.remote(_call)
    yield from (ray.get(reference) for reference in [task.remote(job, tile) for tile in tiles])


def _call(work: Any, tile: Tile) -> Any:
    return work(tile)
