"""Batches of codes under interventions on the factors, drawn from a table of rows or from a simulator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from karenina.metrics._inputs import Bools, Floats, Ints
from karenina.numerics.blocks import Blocks
from karenina.numerics.columns import local_variances, mean_differences

Simulator = Callable[[Floats], ArrayLike] | Blocks

# Random numbers are drawn for this many rows at a time, which bounds memory without changing the stream.
CHUNK = 1 << 19


@dataclass(frozen=True, eq=False)
class Table:
    """Rows sorted into groups that agree on what an intervention holds fixed. Only groups of two or more rows count.

    Group g holds the rows order[start[g] : start[g] + size[g]]; factor i has count[i] groups from first[i] on.
    """

    codes: Floats
    order: Ints
    start: Ints
    size: Ints
    first: Ints
    count: Ints

    @classmethod
    def of(cls, codes: Floats, labels: Ints, *, rest: bool = False) -> "Table":
        """Groups that share the value of one factor, or with `rest` the values of all the others."""
        n, k = labels.shape
        orders, starts, sizes, counts = [], [], [], []
        for i in range(k):
            held = np.delete(labels, i, axis=1) if rest else labels[:, [i]]
            key = _keys(held)
            order = np.argsort(key, kind="stable")
            change = np.flatnonzero(np.diff(key[order])) + 1
            start = np.concatenate([[0], change])
            size = np.diff(np.concatenate([start, [n]]))
            orders.append(order)
            starts.append(start[size > 1] + i * n)
            sizes.append(size[size > 1])
            counts.append(int((size > 1).sum()))
        count = np.array(counts, np.int64)
        return cls(
            np.ascontiguousarray(codes),
            np.concatenate(orders),
            np.concatenate(starts),
            np.concatenate(sizes),
            np.cumsum(count) - count,
            count,
        )

    @classmethod
    def of_blocks(
        cls, blocks: Sequence[Floats], values: Sequence[Floats], rows: Floats, factors: Floats, *, rest: bool = False
    ) -> "Table":
        """The same of blocks: per factor codes (b, V, d) of b rows in which it takes each of V values.

        rows (n, d), factors (n, k): other draws of the generative model, which have the value of a factor by chance.
        Where these are as many as the blocks, they alone stand for it.
        """
        orders: list[Ints] = []
        sizes: list[int] = []
        counts: list[int] = []
        begin = len(rows)
        for along, known, column in zip(blocks, values, factors.T):
            b, v = along.shape[:2]
            places = begin + np.arange(b * v).reshape(b, v)
            begin += b * v
            # The values of a factor share the other factors of the blocks, and so their accidents; rows do not.
            held = [
                own if len(own) >= b else np.append(mine, own) for mine, own in zip(places.T, _having(column, known))
            ]
            groups = [group for group in (list(places) if rest else held) if len(group) > 1]
            orders += groups
            sizes += [len(group) for group in groups]
            counts.append(len(groups))
        size, count = np.array(sizes, np.int64), np.array(counts, np.int64)
        flat = np.concatenate([rows, *(along.reshape(-1, along.shape[2]) for along in blocks)])
        order = np.concatenate([*orders, np.empty(0, np.int64)])
        return cls(flat, order, np.cumsum(size) - size, size, np.cumsum(count) - count, count)

    @property
    def usable(self) -> Bools:
        """Factors (k,) for which a batch can be drawn."""
        return self.count > 0

    def differences(self, factor: Ints, batch: int, per_pair: bool, rng: np.random.Generator) -> Floats:
        """Mean |z1 - z2| over `batch` pairs that share their value of factor[p], for each point p: (points, d).

        per_pair: every pair draws a value, otherwise all pairs of a point have the same.
        """

        out = np.empty((len(factor), self.codes.shape[1]))
        for part in _parts(len(factor), 3 * batch):
            uniform = rng.random((len(out[part]), batch, 3))
            if not per_pair:
                uniform[:, :, 0] = uniform[:, :1, 0]
            groups = (self.order, self.start, self.size, self.first, self.count)
            mean_differences(self.codes, *groups, factor[part], uniform, out[part])
        return out

    def variances(self, factor: Ints, batch: int, replace: bool, rng: np.random.Generator) -> Floats:
        """Variance (ddof 1) of `batch` rows under the intervention on factor[v], for each vote v: (votes, d)."""

        out = np.empty((len(factor), self.codes.shape[1]))
        room = np.empty(int(self.size.max(initial=1)), np.int64)
        for part in _parts(len(factor), batch + 1):
            uniform = rng.random((len(out[part]), batch + 1))
            group = self.first[factor[part]] + _below(uniform[:, 0], self.count[factor[part]])
            groups = (self.order, self.start, self.size)
            local_variances(self.codes, *groups, group, uniform[:, 1:], replace, room, out[part])
        return out


@dataclass(frozen=True, eq=False)
class Simulated:
    """The same of fresh codes for any rows of factors: `simulator((m, all factors)) -> (m, d)`.

    Rows start as rows of the table of factors; the intervened factor takes a value drawn from those it has there.
    """

    simulator: Callable[[Floats], ArrayLike]
    factors: Floats
    kept: Ints
    mean: Floats
    scale: Floats
    live: Bools
    rest: bool = False

    @property
    def usable(self) -> Bools:
        return np.ones(len(self.kept), bool)

    def differences(self, factor: Ints, batch: int, per_pair: bool, rng: np.random.Generator) -> Floats:
        out = np.empty((len(factor), int(self.live.sum())))
        for part in _parts(len(factor), 2 * batch):
            held = np.repeat(factor[part], batch)
            value = self._values(held, rng) if per_pair else np.repeat(self._values(factor[part], rng), batch)
            first, second = (self._held(held, value, rng) for _ in range(2))
            gap = np.abs(self._codes(first) - self._codes(second))
            out[part] = gap.reshape(len(factor[part]), batch, out.shape[1]).mean(axis=1)
        return out

    def variances(self, factor: Ints, batch: int, replace: bool, rng: np.random.Generator) -> Floats:
        out = np.empty((len(factor), int(self.live.sum())))
        for part in _parts(len(factor), batch):
            if self.rest:
                rows = self.factors[np.repeat(rng.integers(len(self.factors), size=len(factor[part])), batch)]
                free = np.repeat(factor[part], batch)
                rows[np.arange(len(rows)), self.kept[free]] = self._values(free, rng)
            else:
                value = np.repeat(self._values(factor[part], rng), batch)
                rows = self._held(np.repeat(factor[part], batch), value, rng)
            out[part] = self._codes(rows).reshape(len(factor[part]), batch, out.shape[1]).var(axis=1, ddof=1)
        return out

    def _values(self, factor: Ints, rng: np.random.Generator) -> Floats:
        chosen = np.empty(len(factor))
        uniform = rng.random(len(factor))
        for i, column in enumerate(self.kept):
            values = np.unique(self.factors[:, column])
            here = factor == i
            chosen[here] = values[_below(uniform[here], np.int64(len(values)))]
        return chosen

    def _held(self, factor: Ints, value: Floats, rng: np.random.Generator) -> Floats:
        rows = self.factors[rng.integers(len(self.factors), size=len(factor))]
        rows[np.arange(len(rows)), self.kept[factor]] = value
        return rows

    def _codes(self, rows: Floats) -> Floats:
        codes = np.asarray(self.simulator(rows), np.float64)
        if codes.shape != (len(rows), len(self.live)):
            raise ValueError(f"sampler gave {codes.shape} for {len(rows)} rows, expected {(len(rows), len(self.live))}")
        if not np.isfinite(codes).all():
            raise ValueError("sampler gave codes that are not finite")
        return (codes[:, self.live] - self.mean) / self.scale


Source = Table | Simulated


def _keys(held: Ints) -> Ints:
    """One integer per row that tells the rows' combinations of labels apart."""
    key = np.zeros(len(held), np.int64)
    span = 1
    for column in held.T:
        size = int(column.max()) + 1
        if span * size > 2**62:
            key = np.unique(key, return_inverse=True)[1]
            span = len(held)
        key = key * size + column
        span *= size
    return key


def _having(column: Floats, values: Floats) -> list[Ints]:
    """For each of the values the rows (m,) that have exactly it."""
    order = np.argsort(column, kind="stable")
    low, high = (np.searchsorted(column[order], values, side) for side in ("left", "right"))
    return [order[a:b] for a, b in zip(low, high)]


def _below(uniform: Floats, size: Any) -> Ints:
    """Uniform numbers in [0, 1) to integers in [0, size)."""
    return np.minimum((uniform * size).astype(np.int64), size - 1)


def _parts(points: int, width: int) -> list[slice]:
    step = max(1, CHUNK // width)
    return [slice(a, min(a + step, points)) for a in range(0, points, step)]
