"""Decision trees and their ensembles, scikit-learn's with its defaults, fast enough to fit one per factor and fold.

A tree is grown from keys (d, m): each code's rows in rising order, a key holding the rank in its upper half and the row
in its lower half (`mask`). A split moves every code's keys, in order, to the side they fall on, so nothing is ever
sorted again and every threshold is seen.

Gradient boosting of depth-3 trees (Friedman 2001): 100 rounds, learning rate 0.1, splits that take most squared error
off the residuals, Newton leaf values. The training set decides where splits are sought: `Sorted` between all values of
a code, `Binned` between at most 256 bins of about equally many rows (the same splits where a code has no more values
than bins). Splits with equal gains are drawn at random, where scikit-learn leaves the choice to rounding.

Random forests (Breiman 2001). What differs is the random stream, which draws bootstraps and settles ties between
features, and that rounding is relative to a code's scale: scikit-learn's 1e-7 makes small codes constant. Rows are
sorted once per training set, not once per node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.columns import distinct
from karenina.numerics.compile import njit

Array = NDArray[Any]


@njit(cache=True)
def draw(state: Array, count: int) -> int:
    """Return an integer below count from a xorshift generator, whose state is one uint64."""
    state[0] ^= state[0] << np.uint64(13)
    state[0] ^= state[0] >> np.uint64(7)
    state[0] ^= state[0] << np.uint64(17)
    return int(state[0] % np.uint64(count))


@njit(cache=True)
def shuffle(order: Array, state: Array) -> None:
    """Shuffle in place, as Fisher and Yates do."""
    for i in range(len(order) - 1, 0, -1):
        pick = draw(state, i + 1)
        f = order[pick]
        order[pick] = order[i]
        order[i] = f


@njit(cache=True)
def _part(source: Array, keys: Array, low: int, high: int, side: Array, mask: Any, spare: Array) -> None:
    """Move the rows of side 0 of the source to the front and those of side 1 behind them, both in order."""
    kept, moved = low, 0
    for i in range(low, high):
        key = source[i]
        right: Any = np.int64(side[key & mask])
        keys[kept] = key
        spare[moved] = key
        kept += 1 - right
        moved += right
    for i in range(moved):
        keys[kept + i] = spare[i]


@njit(cache=True)
def _threshold(codes: Array, keys: Array, f: int, cut: int, mask: Any) -> float:
    """Return the middle between the two rows at the cut, or the lower one where no float lies between them."""
    below, above = codes[keys[f, cut] & mask, f], codes[keys[f, cut + 1] & mask, f]
    middle = below / 2 + above / 2
    return middle if below <= middle < above else below


@njit(cache=True)
def _best_split(keys: Array, low: int, high: int, residual: Array, order: Array, mask: Any, state: Array) -> Any:
    """Return feature, last position on the left, and gain of the split that takes most squared error away.

    The gain is (left m - total seen)^2 / (seen rest m); fractions are compared without dividing. Features come in
    random order, so that equal ones win equally often.
    """
    m = float(high - low)
    total = 0.0
    for i in range(low, high):
        total += residual[keys[0, i] & mask]
    feature, cut, above, below = -1, -1, m * m * 2.3e-16, 1.0
    shuffle(order, state)
    for f in order:
        left = 0.0
        key = keys[f, low]
        for i in range(low, high - 1):
            left += residual[key & mask]
            after = keys[f, i + 1]
            same = (key ^ after) <= mask
            key = after
            if same:
                continue
            seen = float(i + 1 - low)
            gap = left * m - total * seen
            under = seen * (m - seen)
            if gap * gap * below > above * under:
                feature, cut, above, below = f, i, gap * gap, under
    return feature, cut, above / below / m


@njit(cache=True)
def grow_boosted(
    codes: Array,
    base: Array,
    mask: Any,
    keys: Array,
    spare: Array,
    side: Array,
    residual: Array,
    curvature: Array,
    scale: float,
    raw: Array,
    feature: Array,
    cut: Array,
    leaf: Array,
    importance: Array,
    state: Array,
) -> None:
    """Grow a tree into feature, cut and leaf (nodes,); add its leaf values to raw and its gains to importance.

    keys, spare, side: room to work in.
    """
    d, n = base.shape
    nodes = len(leaf)
    inner = nodes // 2
    starts, ends = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    ends[0] = n
    order = np.arange(d)
    for node in range(nodes):
        low, high = starts[node], ends[node]
        if low == high:
            continue
        source = keys if node else base
        if node < inner:
            f, last, gain = _best_split(source, low, high, residual, order, mask, state)
            if f >= 0:
                feature[node], cut[node] = f, _threshold(codes, source, f, last, mask)
                importance[f] += gain
                for i in range(low, high):
                    side[source[f, i] & mask] = i > last
                for g in range(d if 2 * node + 2 < inner else 1):  # leaves need only one list of their rows
                    _part(source[g], keys[g], low, high, side, mask, spare)
                starts[2 * node + 1], ends[2 * node + 1] = low, last + 1
                starts[2 * node + 2], ends[2 * node + 2] = last + 1, high
                continue
        top = under = 0.0
        for i in range(low, high):
            row = source[0, i] & mask
            top += residual[row]
            under += curvature[row]
        if abs(under) > 1e-150:
            leaf[node] = scale * top / under
        for i in range(low, high):
            raw[source[0, i] & mask] += leaf[node]


@njit(cache=True)
def add_up(codes: Array, feature: Array, cut: Array, leaf: Array, out: Array) -> None:
    """Add the leaf values of boosted trees (rounds, trees, nodes) to out (trees, n), round after round."""
    rounds, trees, _ = feature.shape
    for t in range(trees):
        for r in range(rounds):
            for row in range(len(codes)):
                node = 0
                while feature[r, t, node] >= 0:
                    node = 2 * node + (1 if codes[row, feature[r, t, node]] <= cut[r, t, node] else 2)
                out[t, row] += leaf[r, t, node]


@njit(cache=True)
def _node_totals(keys: Array, low: int, high: int, weight: Array, y: Array, mask: Any, totals: Array) -> Any:
    """Return the weight of a node and whether all its targets are equal; write its totals (of y, or of each class)."""
    for c in range(len(totals)):
        totals[c] = 0.0
    count = 0.0
    first = y[keys[0, low] & mask]
    pure = True
    for i in range(low, high):
        row = keys[0, i] & mask
        value = y[row]
        pure &= value == first
        count += weight[row]
        if len(totals) == 1:
            totals[0] += weight[row] * value
        else:
            totals[int(value)] += weight[row]
    return count, pure


@njit(cache=True)
def _best_of_some(
    keys: Array,
    low: int,
    high: int,
    weight: Array,
    y: Array,
    totals: Array,
    count: float,
    some: int,
    order: Array,
    mask: Any,
    state: Array,
    left: Array,
) -> Any:
    """Return feature, last position on the left, and gain of the best split among `some` features drawn at random.

    One total: variance; several: Gini. Either way the gain is the rise of sum(totals^2) / weight. Constant features
    count among those drawn, but the search continues until one varies, as in scikit-learn.
    """
    classes = len(totals)
    parent = 0.0
    for c in range(classes):
        parent += totals[c] * totals[c]
    feature, cut, most = -1, -1, -1.0
    shuffle(order, state)
    seen_features = 0
    for f in order:
        if seen_features >= some and feature >= 0:
            break
        seen_features += 1
        for c in range(classes):
            left[c] = 0.0
        seen, one, two = 0.0, 0.0, parent
        key = keys[f, low]
        for i in range(low, high - 1):
            row = key & mask
            w = weight[row]
            seen += w
            if classes == 1:
                left[0] += w * y[row]
            else:
                c = int(y[row])
                one += w * (2 * left[c] + w)
                left[c] += w
                two -= w * (2 * (totals[c] - left[c]) + w)
            after = keys[f, i + 1]
            same = (key ^ after) <= mask
            key = after
            if same:
                continue
            if classes == 1:
                one = left[0] * left[0]
                two = (totals[0] - left[0]) * (totals[0] - left[0])
            gain = one / seen + two / (count - seen)
            if gain > most:
                feature, cut, most = f, i, gain
    return feature, cut, most - parent / count


@njit(cache=True)
def grow_forest_tree(
    codes: Array,
    keys: Array,
    mask: Any,
    weight: Array,
    y: Array,
    classes: int,
    depth: int,
    some: int,
    state: Array,
    spare: Array,
    side: Array,
) -> Any:
    """Grow one tree of a random forest from the keys of its bootstrap rows (which it reorders).

    Returns feature (-1 in leaves), threshold, first child (the other follows it), values (nodes, classes; one column of
    means with classes = 1), and the importance of each code.
    """
    d, m = keys.shape
    most = 2 * m
    feature, child = np.full(most, -1, np.int64), np.zeros(most, np.int64)
    threshold = np.zeros(most)
    values = np.empty((most, classes))
    starts, ends, depths = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    ends[0] = m
    order = np.arange(d)
    totals, left, importance = np.empty(classes), np.empty(classes), np.zeros(d)
    nodes, node = 1, 0
    while node < nodes:
        low, high = starts[node], ends[node]
        count, pure = _node_totals(keys, low, high, weight, y, mask, totals)
        for c in range(classes):
            values[node, c] = totals[c] / count
        if not pure and depths[node] < depth:
            f, cut, gain = _best_of_some(keys, low, high, weight, y, totals, count, some, order, mask, state, left)
            if f >= 0:
                feature[node], child[node] = f, nodes
                threshold[node] = _threshold(codes, keys, f, cut, mask)
                importance[f] += gain
                for i in range(low, high):
                    side[keys[f, i] & mask] = i > cut
                for g in range(d):
                    _part(keys[g], keys[g], low, high, side, mask, spare)
                for c in range(2):
                    starts[nodes + c] = cut + 1 if c else low
                    ends[nodes + c] = high if c else cut + 1
                    depths[nodes + c] = depths[node] + 1
                nodes += 2
        node += 1
    return feature[:nodes], threshold[:nodes], child[:nodes], values[:nodes], importance


@njit(cache=True)
def add_predictions(
    codes: Array, feature: Array, threshold: Array, child: Array, values: Array, depths: Array, out: Array
) -> None:
    """Add the tree's values to out (depths, n, classes), the tree cut off at each of the rising depths."""
    for row in range(len(codes)):
        node, reached = 0, 0
        for h in range(len(depths)):
            while reached < depths[h] and feature[node] >= 0:
                node = child[node] + (0 if codes[row, feature[node]] <= threshold[node] else 1)
                reached += 1
            for c in range(values.shape[1]):
                out[h, row, c] += values[node, c]


# Gains closer than this are equal: rounding of the sums must not choose between splits.
TIE = 1 + 1e-10


@njit(cache=True)
def _best_bin_split(hist: Array, order: Array, state: Array) -> tuple[int, int, float]:
    """Return code, bin and gain of the split that takes most squared error away; among equal ones chance decides."""
    bins = hist.shape[1]
    total = count = 0.0
    for b in range(bins):
        total += hist[0, b, 0]
        count += hist[0, b, 1]
    feature, cut, most = -1, -1, count * 2.3e-16  # a node whose variance is rounding error stays a leaf
    shuffle(order, state)
    draw(
        state, 1
    )  # The number is not used: it keeps the stream of random numbers that earlier results were drawn from.
    for i in range(len(order) - 1, -1, -1):
        f = order[i]
        left = seen = 0.0
        for b in range(bins - 1):
            here = hist[f, b, 1]
            if here == 0.0:
                continue
            left += hist[f, b, 0]
            seen += here
            rest = count - seen
            if rest <= 0.0:
                break
            gap = left * rest - (total - left) * seen
            gain = gap * gap / (seen * rest * count)
            if gain > most * TIE:
                feature, cut, most = f, b, gain
    return feature, cut, most


@njit(cache=True)
def _gather(rows: Array, index: Array, residual: Array, hist: Array) -> None:
    """Sum residuals and count rows in each bin of each code."""
    hist[:] = 0.0
    for row in index:
        value = residual[row]
        for f in range(rows.shape[1]):
            hist[f, rows[row, f], 0] += value
            hist[f, rows[row, f], 1] += 1.0


@njit(cache=True)
def _subtract(a: Array, b: Array, out: Array) -> None:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                out[i, j, k] = a[i, j, k] - b[i, j, k]


@njit(cache=True)
def _bin_threshold(counts: Array, b: int, ends: Array) -> float:
    """Return the middle between the node's values on both sides of the split after bin b. ends: least and largest of
    each bin.

    Bins that hold none of the node's rows are passed over: where rows are few, what lies between them is far apart.
    """
    after = b + 1
    while counts[after] == 0.0:
        after += 1
    low, high = ends[b, 1], ends[after, 0]
    middle = low + (high - low) / 2
    return middle if middle < high else low


@njit(cache=True)
def _partition(rows: Array, f: int, b: int, index: Array, spare: Array) -> int:
    """Move the rows with bin <= b to the front, both sides in their old order, and return how many they are."""
    kept = moved = 0
    for i in range(len(index)):
        row = index[i]
        if rows[row, f] <= b:
            index[kept] = row
            kept += 1
        else:
            spare[moved] = row
            moved += 1
    for i in range(moved):
        index[kept + i] = spare[i]
    return kept


@njit(cache=True)
def grow_binned(
    rows: Array,
    counts: Array,
    ends: Array,
    residual: Array,
    curvature: Array,
    scale: float,
    raw: Array,
    feature: Array,
    cut: Array,
    leaf: Array,
    importance: Array,
    state: Array,
) -> None:
    """Grow a tree into feature, cut and leaf (nodes,); add its leaf values to raw and its gains to importance."""
    n, d = rows.shape
    bounds = np.zeros((len(leaf), 2), np.int64)
    bounds[0, 1] = n
    index = np.arange(n)
    spare = np.empty(n, np.int64)
    order = np.arange(d)
    hists = np.empty((len(leaf) // 2, d, counts.shape[1], 2))
    for f in range(d):
        for b in range(counts.shape[1]):
            hists[0, f, b, 0], hists[0, f, b, 1] = 0.0, counts[f, b]
    for row in range(n):
        for f in range(d):
            hists[0, f, rows[row, f], 0] += residual[row]
    for node in range(len(leaf)):
        low, high = bounds[node]
        if low == high:
            continue
        if node < len(hists):
            f, b, gain = _best_bin_split(hists[node], order, state)
            if f >= 0:
                feature[node], cut[node] = f, _bin_threshold(hists[node, f, :, 1], b, ends[f])
                importance[f] += gain
                middle = low + _partition(rows, f, b, index[low:high], spare)
                one, two = 2 * node + 1, 2 * node + 2
                bounds[one, 0], bounds[one, 1] = low, middle
                bounds[two, 0], bounds[two, 1] = middle, high
                if two < len(hists):  # count the smaller child; the larger is the difference
                    small, large = (one, two) if middle - low <= high - middle else (two, one)
                    _gather(rows, index[bounds[small, 0] : bounds[small, 1]], residual, hists[small])
                    _subtract(hists[node], hists[small], hists[large])
                continue
        top = under = 0.0
        for row in index[low:high]:
            top += residual[row]
            under += curvature[row]
        if abs(under) > 1e-150:
            leaf[node] = scale * top / under
        for row in index[low:high]:
            raw[row] += leaf[node]


BINS = 256
ROUNDS = 100
RATE = 0.1
DEPTH = 3
NODES = 2 ** (DEPTH + 1) - 1  # node i has the children 2i + 1 and 2i + 2
TREES = 10  # of a forest


@dataclass(frozen=True, eq=False)
class Sorted:
    """Codes (n, d) with each code's rows in rising order: keys (d, n), rank above and row below the bits of `mask`."""

    codes: Floats
    keys: NDArray[Any]
    mask: Any

    @classmethod
    def of(cls, codes: Floats) -> "Sorted":
        order = np.argsort(codes, axis=0, kind="stable").T
        values = np.take_along_axis(codes.T, order, axis=1)
        rank = np.zeros(values.shape, np.int64)
        np.cumsum(distinct(values), axis=1, out=rank[:, 1:])  # equal values, equal rank
        # Half the width keeps the keys of up to 65,536 rows in the cache.
        dtype, bits = (np.uint32, 16) if len(codes) <= 1 << 16 else (np.uint64, 32)
        keys = np.ascontiguousarray(rank << bits | order).astype(dtype)
        return cls(np.ascontiguousarray(codes), keys, dtype((1 << bits) - 1))

    def grower(self) -> Callable[..., None]:
        """Return a function that grows a tree on these codes into given arrays."""
        room = np.empty_like(self.keys), np.empty(len(self.codes), self.keys.dtype), np.empty(len(self.codes), np.uint8)
        return partial(grow_boosted, self.codes, self.keys, self.mask, *room)


@dataclass(frozen=True, eq=False)
class Binned:
    """Codes (n, d) in bins: bin_of (n, d), counts (d, bins), ends (d, bins, 2), the least and largest value per bin."""

    codes: Floats
    bin_of: NDArray[np.uint8]
    counts: Floats
    ends: Floats

    @classmethod
    def of(cls, codes: Floats) -> "Binned":
        edges = [_edges(column) for column in codes.T]
        bin_of = np.column_stack([np.searchsorted(edge, column) for edge, column in zip(edges, codes.T)])
        bins = max(len(edge) for edge in edges) + 1
        counts = np.stack([np.bincount(column, minlength=bins) for column in bin_of.T]).astype(np.float64)
        ends = np.zeros((codes.shape[1], bins, 2))
        for j, (column, column_bins) in enumerate(zip(codes.T, bin_of.T)):
            order = np.argsort(column, kind="stable")
            first = np.searchsorted(column_bins[order], np.arange(len(edges[j]) + 1))
            last = np.append(first[1:], len(column)) - 1
            ends[j, : len(first)] = np.stack([column[order[first]], column[order[last]]], axis=1)
        return cls(codes, bin_of.astype(np.uint8), counts, ends)

    def grower(self) -> Callable[..., None]:
        """Return a function that grows a tree on these codes into given arrays."""
        return partial(grow_binned, self.bin_of, self.counts, self.ends)


def _edges(column: Floats) -> Floats:
    """Return the midpoints between the values where one bin ends and the next begins."""
    values, counts = np.unique(column, return_counts=True)
    last = np.arange(len(values) - 1)
    if len(values) > BINS:
        last = np.unique(np.searchsorted(np.cumsum(counts), np.arange(1, BINS) * len(column) / BINS))
        last = last[last < len(values) - 1]
    return values[last] + (values[last + 1] - values[last]) / 2


@dataclass(frozen=True, eq=False)
class Boosted:
    """A fitted ensemble for one target.

    start: (t,), the constants that boosting starts from; t is the number of trees per round, one per class, or 1 for
    regression and two classes. feature, cut, leaf: (rounds, t, nodes), feature -1 at leaves, rows with a value <= cut
    to the left. importance: (d,), the share of the squared error that splits on each code took away. classes: 0 for
    regression.
    """

    start: Floats
    feature: NDArray[np.int32]
    cut: Floats
    leaf: Floats
    importance: Floats
    classes: int

    def decision(self, codes: Floats) -> Floats:
        """Return raw scores (t, n) for codes (n, d)."""
        raw = np.tile(self.start[:, None], len(codes))
        add_up(np.ascontiguousarray(codes, dtype=np.float64), self.feature, self.cut, self.leaf, raw)
        return raw

    def predict(self, codes: Floats) -> NDArray[Any]:
        """Return labels (n,) int, or values (n,) float for regression."""
        raw = self.decision(codes)
        if not self.classes:
            return raw[0]
        return raw.argmax(axis=0) if len(raw) > 1 else (raw[0] > 0).astype(np.int64)


def boost(train: Sorted | Binned, target: NDArray[Any], classes: int, rng: np.random.Generator) -> Boosted:
    """Fit one target (n,): labels 0..classes-1, all of them present, or floats with classes = 0 (squared loss).

    >>> x = np.arange(40.0)[:, None]
    >>> fitted = boost(Binned.of(x), (x[:, 0] > 20).astype(int), 2, np.random.default_rng(0))
    >>> fitted.predict(np.array([[3.0], [30.0]]))
    array([0, 1])
    """
    n, d = train.codes.shape
    unit = 1.0 if classes else _unit(target)
    target = target / unit if unit != 1 else target
    start = _start(target, classes)
    trees = len(start)
    wanted = ((target == np.arange(classes)[:, None]) if trees > 1 else target[None]).astype(np.float64)
    raw = np.tile(start[:, None], n)
    feature = np.full((ROUNDS, trees, NODES), -1, np.int32)
    cut, leaf = np.zeros(feature.shape), np.zeros(feature.shape)
    importance = np.zeros(d)
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    scale = RATE * ((classes - 1) / classes if classes > 2 else 1.0)
    grow = train.grower()
    for r in range(ROUNDS):
        expected = _expected(raw, classes)
        curvature = expected * (1 - expected) if classes else np.ones_like(raw)
        residual = wanted - expected
        for t in range(trees):
            tree = feature[r, t], cut[r, t], leaf[r, t]
            grow(residual[t], curvature[t], scale, raw[t], *tree, importance, state)
    total = importance.sum()
    shares = importance / total if total > 0 else importance
    return Boosted(start * unit, feature, cut, leaf * unit, shares, classes)


def _unit(target: Floats) -> float:
    """Return a power of two to divide by: trees take a variance below 2e-16 for rounding, and square residuals."""
    width = float(np.ptp(target))
    return 2.0 ** np.floor(np.log2(width)) if 0 < width < 1 or width > 1e100 else 1.0


def _start(target: NDArray[Any], classes: int) -> Floats:
    """Return the best constants: the mean, the log odds, or the log shares."""
    if not classes:
        return np.array([target.mean()])
    shares = np.bincount(target, minlength=classes) / len(target)
    return np.log(shares[1:] / shares[:1]) if classes == 2 else np.log(shares)


def _expected(raw: Floats, classes: int) -> Floats:
    if not classes:
        return raw
    if classes == 2:
        return 1 / (1 + np.exp(-raw))
    p = np.exp(raw - raw.max(axis=0))
    p /= p.sum(axis=0)
    return p


class Forest(NamedTuple):
    """What a forest predicts and uses. importance, splits: (d,), each of sum 1. guess: (depths, rows, classes or 1)."""

    importance: Floats
    guess: Floats
    splits: Floats


def forest(
    train: Sorted,
    test: Floats,
    target: NDArray[Any],
    classes: int,
    rng: np.random.Generator,
    *,
    depths: Sequence[int],
    max_features: float = 1.0,
) -> Forest:
    """Return importances of a forest grown to the last of the rising depths, and its predictions for `test` at each.

    target: labels 0..classes-1 (Gini), or floats with classes = 0 (variance). Predictions: (depths, rows, classes or
    1), mean class shares or mean values. Importances: the mean over trees of the decrease of impurity by each code, and
    of its share of the splits (Breiman et al. 1984). A tree cut off at a depth is the tree grown to that depth, so that
    one forest serves every depth. max_features: the share of codes tried at a split.
    """
    n, d = train.codes.shape
    some = max(1, int(max_features * d))
    columns = max(classes, 1)
    y = target.astype(np.float64)
    guess = np.zeros((len(depths), len(test), columns))
    levels = np.asarray(depths, np.int64)
    importance, splits = np.zeros(d), np.zeros(d)
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    spare, side = np.empty(n, train.keys.dtype), np.empty(n, np.uint8)
    for _ in range(TREES):
        weight = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
        drawn = weight > 0
        keys = train.keys[drawn[train.keys & train.mask]].reshape(d, -1)
        settings = (weight, y, columns, int(levels[-1]), some, state, spare, side)
        feature, threshold, child, values, gains = grow_forest_tree(train.codes, keys, train.mask, *settings)
        add_predictions(test, feature, threshold, child, values, levels, guess)
        if gains.sum() > 0:
            importance += gains / gains.sum()
            times = np.bincount(feature[feature >= 0], minlength=d)
            splits += times / times.sum()
    total = max(float(splits.sum()), 1.0)  # trees of one leaf have none
    return Forest(importance / (importance.sum() or 1.0), guess / TREES, splits / total)


def choose(
    parts: Sequence[tuple[Sorted, Floats, NDArray[np.int64], NDArray[np.int64]]],
    target: NDArray[Any],
    classes: int,
    rng: np.random.Generator,
    *,
    depths: Sequence[int],
    max_features: Sequence[float],
) -> tuple[int, float]:
    """Return the depth and max_features with the lowest error on the rows left out.

    parts: per fold its sorted training codes, its codes left out, and the rows of both in `target`.
    """
    depths = sorted(depths)
    if len(depths) == 1 and len(max_features) == 1:
        return depths[0], max_features[0]
    error = np.zeros((len(max_features), len(depths)))
    for train, out, rows, left in parts:
        for i, fraction in enumerate(max_features):
            guess = forest(train, out, target[rows], classes, rng, depths=depths, max_features=fraction).guess
            if classes:
                error[i] += (guess.argmax(axis=2) != target[left]).mean(axis=1)
            else:
                error[i] += ((guess[:, :, 0] - target[left]) ** 2).mean(axis=1)
    depth, fraction = divmod(int(error.T.argmin()), len(max_features))
    return depths[depth], max_features[fraction]
