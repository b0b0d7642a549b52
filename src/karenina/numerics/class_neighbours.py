"""Compiled: information between one continuous variable and labels, from nearest neighbours of the same label.

Importing this module imports numba.
"""

import numpy as np

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.columns import range_unit
from karenina.numerics.compile import njit


@njit(cache=True)
def _information(x: Floats, order: Ints, labels: Ints, neighbours: int, psi: Floats) -> Floats:
    """Of x (n,), which rises, and each row of labels (k, n) in another order, x[i] belonging to labels[:, order[i]].

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
    """Information in nats between continuous codes (n, d) and labels (n, k) from 0 on: (k, d). Ross (2014), equation 2.

    That of scikit-learn's mutual_info_classif(code, label, n_neighbors=neighbours, random_state=seed), which divides
    a code by its standard deviation and adds noise of 1e-10 of its size, so that no two rows tie. Classes of fewer than
    twice as many rows as neighbours differ from it by the rounding of its distances, which are from squares there.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(4, size=(2000, 2))
    >>> class_information(labels + 0.01 * rng.normal(size=labels.shape), labels, 10).round(1)  # ln 4 = 1.386
    array([[1.4, 0. ],
           [0. , 1.4]])
    """
    from scipy.special import digamma

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
