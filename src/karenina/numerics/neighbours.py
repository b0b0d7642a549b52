"""Mutual information without bins, from distances to nearest neighbours."""

import numpy as np
from scipy.spatial import KDTree
from scipy.special import digamma

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.columns import range_unit
from karenina.numerics.compile import njit


def label_information(code: Floats, label: Ints, neighbours: int) -> float:
    """Return the information in nats between a continuous code (n,) and labels (n,): Ross 2014, PLoS ONE 9(2), equation
    2.

    psi(n) + <psi(k)> - <psi(n_label)> - <psi(m)>: m rows lie within the distance to the k-th neighbour of the same
    label. Rows alone in their class are left out. Where k or more neighbours share the row's value the distance is 0
    and k is the number of those, as Gao et al. 2017 do for mixed variables, so codes on a lattice are not overrated.
    In one dimension neighbours are adjacent in sorted order, so the cost is that of sorting.
    """
    size = np.bincount(label)[label]
    code, label, size = code[size > 1], label[size > 1], size[size > 1]
    n = len(code)
    if n == 0:
        return 0.0
    order = np.lexsort((code, label))
    code, size = code[order], size[order]
    end = np.cumsum(np.bincount(label[order]))[label[order]]
    k = np.minimum(neighbours, size - 1)
    radius = _radius(code, end - size, end, k)
    m = _inside(code, radius)
    tied = radius == 0
    if tied.any():
        _, value, ties = np.unique(
            np.column_stack([label[order], code]), axis=0, return_inverse=True, return_counts=True
        )
        k = np.where(tied, ties[value.ravel()] - 1, k)
    return max(0.0, float(digamma(n) + np.mean(digamma(k) - digamma(size) - digamma(m - tied))))


def _inside(column: Floats, radius: Floats) -> Ints:
    """Count the rows, each itself included, strictly nearer than radius; at radius 0 the rows at the same value."""
    ordered = np.sort(column)
    above = _nearer(ordered, column, radius)
    below = _nearer(-ordered[::-1], -column, radius)
    return above + below - len(column)


def _nearer(ordered: Floats, centre: Floats, radius: Floats) -> Ints:
    """Count the sorted values v that have v - centre < radius, or <= 0 at radius 0.

    centre + radius is rounded, so the search can land a step off; the differences themselves decide.
    """
    last = len(ordered) - 1
    limit = np.where(radius > 0, radius, np.nextafter(0, 1))
    found = np.searchsorted(ordered, centre + radius, side="right")
    while (over := (found > 0) & (ordered[found - 1] - centre >= limit)).any():
        found = np.where(over, np.searchsorted(ordered, ordered[found - 1]), found)
    while (under := (found <= last) & (ordered[np.minimum(found, last)] - centre < limit)).any():
        found = np.where(under, np.searchsorted(ordered, ordered[np.minimum(found, last)], side="right"), found)
    return found


def _radius(code: Floats, start: Ints, end: Ints, k: Ints) -> Floats:
    """Return the distance from each row to its k-th neighbour within its sorted segment start..end."""
    position = np.arange(len(code))
    best = np.full(len(code), np.inf)
    for below in range(int(k.max()) + 1):
        left, right = position - below, position + k - below
        valid = (left >= start) & (right < end) & (below <= k)
        reach = np.maximum(code - code[np.where(valid, left, 0)], code[np.where(valid, right, 0)] - code)
        best = np.where(valid, np.minimum(best, reach), best)
    return best


def pair_information(first: Floats, second: Floats, neighbours: int) -> float:
    """Return the information in nats between two continuous variables (n,): Kraskov et al. 2004, estimator 1, equation
    8.

    psi(n) + <psi(k) - psi(n_x + 1) - psi(n_y + 1)>, counts strictly within the distance to the k-th joint neighbour in
    the maximum norm; tied rows as in Gao et al. 2017.
    """
    points = np.column_stack([_unit(first), _unit(second)])
    n = len(points)
    neighbours = min(neighbours, n - 1)
    tree = KDTree(points)
    radius = np.asarray(tree.query(points, k=neighbours + 1, p=np.inf)[0])[:, -1]
    k = np.full(n, neighbours)
    tied = radius == 0
    if tied.any():
        k[tied] = tree.query_ball_point(points[tied], 0.0, p=np.inf, return_length=True) - 1
    counts = sum(digamma(_inside(column, radius) - tied) for column in points.T)
    return max(0.0, float(digamma(n) + np.mean(digamma(k) - counts)))


def _unit(column: Floats) -> Floats:
    """Return the column centred and with standard deviation 1, so that neither variable dominates the maximum norm."""
    column = column / max(np.abs(column).max(), np.finfo(float).tiny)
    centred = column - column.mean()
    scale = centred.std()
    return centred / scale if scale > 0 else centred


@njit(cache=True)
def _information(x: Floats, order: Ints, labels: Ints, neighbours: int, psi: Floats) -> Floats:
    """Return the information of x (n,), which rises, and of each row of labels (k, n) in another order: x[i] belongs to
    labels[:, order[i]].

    psi(n) + mean of psi(k) - psi(size of the class) - psi(m): m rows, the row itself among them, lie nearer than the
    k-th neighbour of the same class. That distance changes by no more than a step along x does, so the windows of both
    kinds only ever move to the right, and each class costs one pass over the rows it spans.
    """
    found = np.zeros(len(labels))
    n = len(x)
    kept, member, place = np.empty(n), np.empty(n), np.empty(n, np.int64)
    for j in range(len(labels)):
        classes = labels[j].max() + 1
        size = np.zeros(classes, np.int64)
        for i in range(n):
            size[labels[j, i]] += 1
        end = np.zeros(classes, np.int64)  # of each class among the members, in order of classes
        rows = 0
        for c in range(classes):
            end[c] = rows
            rows += size[c] if size[c] > 1 else 0
        rows = 0
        for i in range(n):
            c = labels[j, order[i]]
            if size[c] > 1:  # a row that is alone in its class is left out of everything
                kept[rows] = x[i]
                member[end[c]] = x[i]
                place[end[c]] = rows
                end[c] += 1
                rows += 1
        total = 0.0
        for c in range(classes):
            if size[c] < 2:
                continue
            first, last = end[c] - size[c], end[c]
            k = min(neighbours, size[c] - 1)
            total += size[c] * (psi[k] - psi[size[c]])
            low = first  # members low..low + k are the nearest k + 1, with the row itself
            left = right = place[first]
            for i in range(first, last):
                here = member[i]
                while low + k + 1 < last and member[low + k + 1] - here < here - member[low]:
                    low += 1
                radius = max(here - member[low], member[low + k] - here)
                if i == first:
                    while left > 0 and here - kept[left - 1] < radius:
                        left -= 1
                while left < place[i] and here - kept[left] >= radius:
                    left += 1
                right = max(right, place[i])
                while right + 1 < rows and kept[right + 1] - here < radius:
                    right += 1
                total -= psi[right - left + 1]
        if rows > 0:
            found[j] = max(0.0, psi[rows] + total / rows)
    return found


def class_information(codes: Floats, labels: Ints, neighbours: int, seed: int = 0) -> Floats:
    """Return the information in nats between continuous codes (n, d) and labels (n, k) from 0 on: (k, d). Ross (2014),
    equation 2.

    That of scikit-learn's mutual_info_classif(code, label, n_neighbors=neighbours, random_state=seed), which divides
    a code by its standard deviation and adds noise of 1e-10 of its size, so that no two rows tie. Classes of fewer than
    twice as many rows as neighbours differ from it by the rounding of its distances, which are from squares there.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(4, size=(2000, 2))
    >>> class_information(labels + 0.01 * rng.normal(size=labels.shape), labels, 10).round(1)  # ln 4 = 1.386
    array([[1.4, 0. ],
           [0. , 1.4]])
    """
    n, d = codes.shape
    codes = codes / range_unit(codes)
    psi = digamma(np.maximum(np.arange(n + 1), 0.5))
    noise = 1e-10 * np.random.RandomState(seed).standard_normal((n, 1))[:, 0]
    turned = np.ascontiguousarray(labels.T)
    found = np.zeros((labels.shape[1], d))
    for j in range(d):
        scale = codes[:, j].std()
        if not scale > 0:
            continue
        x = codes[:, j] / scale
        x = x + max(1.0, float(np.abs(x).mean())) * noise
        order = np.argsort(x)
        found[:, j] = _information(x[order], order, turned, neighbours, psi)
    return found
