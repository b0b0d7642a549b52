"""Decision trees, compiled by numba and kept on disk. Import it inside functions: numba loads slowly.

A tree is grown from keys (d, m): each code's rows in rising order, a key holding the rank in its upper half and the row
in its lower half (`mask`). A split moves every code's keys, in order, to the side they fall on, so nothing is ever
sorted again and every threshold is seen.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.compile import njit

Array = NDArray[Any]


@njit(cache=True)
def draw(state: Array, count: int) -> int:
    """An integer below count from a xorshift generator, whose state is one uint64."""
    state[0] ^= state[0] << np.uint64(13)
    state[0] ^= state[0] >> np.uint64(7)
    state[0] ^= state[0] << np.uint64(17)
    return int(state[0] % np.uint64(count))


@njit(cache=True)
def shuffle(order: Array, state: Array) -> None:
    """Fisher-Yates."""
    for i in range(len(order) - 1, 0, -1):
        pick = draw(state, i + 1)
        f = order[pick]
        order[pick] = order[i]
        order[i] = f


@njit(cache=True)
def _part(source: Array, keys: Array, low: int, high: int, side: Array, mask: Any, spare: Array) -> None:
    """Put the rows of side 0 of the source first and those of side 1 behind them, both in order."""
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
    """The middle between the two rows at the cut, or the lower one where no float lies between them."""
    below, above = codes[keys[f, cut] & mask, f], codes[keys[f, cut + 1] & mask, f]
    middle = below / 2 + above / 2
    return middle if below <= middle < above else below


@njit(cache=True)
def _best_split(keys: Array, low: int, high: int, residual: Array, order: Array, mask: Any, state: Array) -> Any:
    """Feature, last position on the left, and gain of the split that takes most squared error away.

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
    """Weight of a node, its totals (of y, or of each class), and whether all its targets are equal."""
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
    """Feature, last position on the left, and gain, of the best split among `some` features drawn at random.

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
    """One tree of a random forest, grown from the keys of its bootstrap rows (which it reorders).

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
