"""Mutual information without bins, from distances to nearest neighbours."""

import numpy as np

from karenina.numerics.arrays import Floats, Ints


def label_information(code: Floats, label: Ints, neighbours: int) -> float:
    """Information in nats between a continuous code (n,) and labels (n,): Ross 2014, PLoS ONE 9(2), equation 2.

    psi(n) + <psi(k)> - <psi(n_label)> - <psi(m)>: m rows lie within the distance to the k-th neighbour of the same
    label. Rows alone in their class are left out. Where k or more neighbours share the row's value the distance is 0
    and k is the number of those, as Gao et al. 2017 do for mixed variables, so codes on a lattice are not overrated.
    In one dimension neighbours are adjacent in sorted order, so the cost is that of sorting.
    """
    from scipy.special import digamma  # a third of a second to import

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
    """Rows, each itself included, strictly nearer than radius; at radius 0 the rows at the same value."""
    ordered = np.sort(column)
    above = _nearer(ordered, column, radius)
    below = _nearer(-ordered[::-1], -column, radius)
    return above + below - len(column)


def _nearer(ordered: Floats, centre: Floats, radius: Floats) -> Ints:
    """How many sorted values v have v - centre < radius, or <= 0 at radius 0.

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
    """Distance from each row to its k-th neighbour within its sorted segment start..end."""
    position = np.arange(len(code))
    best = np.full(len(code), np.inf)
    for below in range(int(k.max()) + 1):
        left, right = position - below, position + k - below
        valid = (left >= start) & (right < end) & (below <= k)
        reach = np.maximum(code - code[np.where(valid, left, 0)], code[np.where(valid, right, 0)] - code)
        best = np.where(valid, np.minimum(best, reach), best)
    return best


def pair_information(first: Floats, second: Floats, neighbours: int) -> float:
    """Information in nats between two continuous variables (n,): Kraskov et al. 2004, estimator 1, equation 8.

    psi(n) + <psi(k) - psi(n_x + 1) - psi(n_y + 1)>, counts strictly within the distance to the k-th joint neighbour in
    the maximum norm; tied rows as in Gao et al. 2017.
    """
    from scipy.spatial import KDTree
    from scipy.special import digamma

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
    """Centred with standard deviation 1, so that neither variable dominates the maximum norm."""
    column = column / max(np.abs(column).max(), np.finfo(float).tiny)
    centred = column - column.mean()
    scale = centred.std()
    return centred / scale if scale > 0 else centred
