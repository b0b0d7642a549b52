"""Codes turned plane by plane to where each is about one factor, and each factor is in one code.

With r (d, k) the importance of each code for each factor, W the sum of r, and h the sum of x log x over its argument,
disentanglement plus completeness are

    D + C = 2 - (h(sums of codes) - h(r)) / (W log k) - (h(sums of factors) - h(r)) / (W log d),

so that an angle between two codes costs no more than these two, whatever the number of the others.
"""

from typing import Any

import numpy as np

from karenina.numerics.compile import njit

Array = Any
TINY = float(np.finfo(np.float64).tiny)


@njit(cache=True)
def _entropic(x: float) -> float:
    return x * np.log(x) if x > 0 else 0.0


@njit(cache=True)
def _importance(share: Array, out: Array) -> None:
    for j in range(len(out)):
        out[j] = max(share[j], 0.0) / max(share[-1], TINY)


@njit(cache=True)
def _sums(r: Array) -> tuple[float, float, float, float]:
    """h(r), h(sums of codes), h(sums of factors) and W."""
    cells = codes = factors = whole = 0.0
    for row in r:
        total = 0.0
        for x in row:
            cells += _entropic(x)
            total += x
        codes += _entropic(total)
        whole += total
    for x in r.sum(axis=0):
        factors += _entropic(x)
    return cells, codes, factors, whole


@njit(cache=True)
def _criterion(cells: float, codes: float, factors: float, whole: float, d: int, k: int) -> float:
    """D + C; a single factor has D = 1, a single code C = 1, and no importance at all gives 0."""
    if whole <= TINY:
        return 0.0
    found = 2.0
    if k > 1:
        found -= (codes - cells) / (whole * np.log(k))
    if d > 1:
        found -= (factors - cells) / (whole * np.log(d))
    return found


@njit(cache=True)
def _best_angle(
    shares: Array,
    r: Array,
    by_factor: Array,
    sums: tuple[float, float, float, float],
    value: float,
    p: int,
    q: int,
    stages: Array,
) -> tuple[float, float]:
    """The angle between codes p and q at which D + C is largest, and D + C there; 0 if none is above `value`."""
    d, k = r.shape
    cells, codes, _, whole = sums
    sum_p, sum_q = r[p].sum(), r[q].sum()
    codes -= _entropic(sum_p) + _entropic(sum_q)
    whole -= sum_p + sum_q
    for j in range(k):
        cells -= _entropic(r[p, j]) + _entropic(r[q, j])
    rest = by_factor - r[p] - r[q]
    own, other, cross = shares[p, p], shares[q, q], shares[p, q]
    new_p, new_q = np.empty(k + 1), np.empty(k + 1)
    r_p, r_q = np.empty(k), np.empty(k)
    angle, best = 0.0, value
    for stage in stages:
        centre = angle
        for step in stage:
            cos, sin = np.cos(centre + step), np.sin(centre + step)
            for j in range(k + 1):
                mixed = 2 * cos * sin * cross[j]
                new_p[j] = cos * cos * own[j] + sin * sin * other[j] + mixed
                new_q[j] = sin * sin * own[j] + cos * cos * other[j] - mixed
            _importance(new_p, r_p)
            _importance(new_q, r_q)
            in_cells = cells
            factors = sum_p = sum_q = 0.0
            for j in range(k):
                sum_p += r_p[j]
                sum_q += r_q[j]
                in_cells += _entropic(r_p[j]) + _entropic(r_q[j])
                factors += _entropic(rest[j] + r_p[j] + r_q[j])
            in_codes = codes + _entropic(sum_p) + _entropic(sum_q)
            found = _criterion(in_cells, in_codes, factors, whole + sum_p + sum_q, d, k)
            if found > best and found > value + 1e-12:
                best, angle = found, centre + step
    return angle, best


@njit(cache=True)
def _rotate(shares: Array, turn: Array, p: int, q: int, cos: float, sin: float) -> None:
    d, _, k = shares.shape
    for i in range(d):
        left, right = turn[i, p], turn[i, q]
        turn[i, p], turn[i, q] = cos * left + sin * right, cos * right - sin * left
        for j in range(k):
            left, right = shares[i, p, j], shares[i, q, j]
            shares[i, p, j], shares[i, q, j] = cos * left + sin * right, cos * right - sin * left
    for i in range(d):
        for j in range(k):
            left, right = shares[p, i, j], shares[q, i, j]
            shares[p, i, j], shares[q, i, j] = cos * left + sin * right, cos * right - sin * left


@njit(cache=True)
def turn_planes(
    shares: Array, turn: Array, order: Array, stages: Array, sweeps: int, most: int, least: float
) -> tuple[float, bool]:
    """Turn each plane of two codes to its best angle until a sweep over all planes brings less than `least`.

    shares (d, d, k + 1), the covariances of the codes' means given each factor and, last, that of the codes, and turn
    (d, d) are changed in place. order: the codes whose planes are turned. stages (s, a): angles to try, each stage
    around the best of the one before. At most `sweeps` sweeps and `most` planes. Gives D + C of the importances
    max(0, shares_iij) / shares_iik, and whether the sweeps came to their end.
    """
    d, k = len(shares), shares.shape[2] - 1
    r = np.empty((d, k))
    value, before, tried = 0.0, 0.0, 0
    for sweep in range(sweeps + 1):
        for i in range(d):
            _importance(shares[i, i], r[i])
        sums = _sums(r)
        value = _criterion(*sums, d, k)
        if sweep == sweeps or (sweep > 0 and value - before < least):
            break
        before = value
        by_factor = r.sum(axis=0)
        for a in range(len(order) - 1):
            for b in range(a + 1, len(order)):
                if tried == most:
                    return value, False
                tried += 1
                p, q = order[a], order[b]
                angle, value = _best_angle(shares, r, by_factor, sums, value, p, q, stages)
                if angle == 0.0:
                    continue
                _rotate(shares, turn, p, q, np.cos(angle), np.sin(angle))
                for i in (p, q):
                    by_factor -= r[i]
                    _importance(shares[i, i], r[i])
                    by_factor += r[i]
                sums = _sums(r)
    return value, True
