"""DCI from the right point of view: the plain score, and that of the codes rotated to where it is best."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from karenina.metrics._dci import DCI, Lasso, Trees, dci
from karenina.metrics._inputs import Continuous, Floats, Inputs, Ints, metric
from karenina.numerics.columns import range_unit, standardised
from karenina.numerics.compile import njit

Array = Any
ANGLES = 48  # Tried per plane and sweep, and as many again near the best.
SWEEPS = 20
STARTS = 4
# Bounds of the work: a start tries so many planes, and of more codes than WIDE turns only those that tell most.
PLANES = 60_000
WIDE = 128
MOST_CODES = 500
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class AlignedDCI:
    """DCI of the codes as given and rotated.

    `float(result)` and `.value` are the aligned disentanglement; `.gain` is what the rotation brought.

    Attributes
    ----------
    plain, aligned : DCI of the same rows, as given and rotated
    view : (d, r), aligned codes are (codes - mean) @ view
    mean : (d,)
    found : disentanglement plus completeness of the search's own importances on the rows searched, before and after

    `per_code` and `matrix` are of the r aligned codes, not of those given.
    """

    new_codes: ClassVar[bool] = True

    plain: DCI
    aligned: DCI
    view: Floats
    mean: Floats
    found: tuple[float, float]
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return self.aligned.disentanglement

    @property
    def gain(self) -> float:
        return self.aligned.disentanglement - self.plain.disentanglement

    @property
    def per_factor(self) -> Floats:
        return self.aligned.per_factor

    @property
    def per_code(self) -> Floats:
        return self.aligned.per_code

    @property
    def matrix(self) -> Floats:
        return self.aligned.matrix

    @property
    def by_property(self) -> Mapping[str, Floats | None]:
        """Map each property to its values per factor (k,)."""
        return self.aligned.by_property

    def __float__(self) -> float:
        return float(self.value)


@metric
def aligned_dci(
    inputs: Inputs,
    *,
    model: str | Lasso | Trees = "lasso",
    whiten: bool = True,
    factor_bins: int = 10,
    continuous: Continuous = None,
    seed: int | np.random.Generator = 0,
    **options: Any,
) -> AlignedDCI:
    """DCI as given and in the view in which it is best: tells rotated but factorised codes from entangled ones.

    One random half of the rows finds the view, the other half is scored. Both scores high: disentangled. Plain low,
    aligned high: factorised, only rotated (Carbonneau et al. 2022, section 6.1). Both low: entangled, or uninformative.

    The search: live codes are whitened, so that any linear mixing of independent factors becomes a rotation. With S_j
    the covariance of the codes' means given factor j, the code along a unit vector q has importance

        R_qj = max(0, q' S_j q / q' C q - chance),

    the share of its variance from factor j; sweeps of plane rotations raise D + C of R from several starts. In the end
    a code turns to the direction that predicts its factor best, if that is within sampling error of its own. If D or
    D + C of the rows scored is then below that of the codes as given, the view given is kept, so `gain` is 0 or more.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    model, **options
        As in `dci`, which scores both views; but no test rows, as `test_fraction` of the half to be scored is held out.
    whiten : bool
        False only rotates the centred codes, on their own scales.
    factor_bins : int
        Bins of a continuous factor, for the search.
    continuous : bool or one per factor, optional
        By default, factors of integers are categorical and all others continuous.
    seed : int or numpy Generator

    Returns
    -------
    AlignedDCI

    Notes
    -----
    Assumes nearly independent factors, and codes that are a linear mixing of functions of single factors. The lasso
    gives high D even to noise: read the informativeness too. Beside two DCIs it takes 0.05 s for ten codes and up to
    4 s for a hundred. There the search is bounded: a note says if it was cut short. Above 128 codes only the most
    informative are turned, and more than 500 are refused.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.uniform(size=(2000, 3))
    >>> turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    >>> result = aligned_dci(v @ turn, v)
    >>> round(result.plain.disentanglement, 1), round(result.aligned.disentanglement, 1)
    (0.2, 1.0)
    """
    if options.get("test") is not None:
        raise ValueError("aligned_dci takes no test rows: it holds out a share of those given")
    inputs.require(12)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(inputs.codes))
    half = len(order) // 2
    search, score = order[:half], order[half:]
    mean = inputs.codes[search].mean(axis=0)
    centred = inputs.codes[search] - mean
    live = np.flatnonzero(centred.min(axis=0) != centred.max(axis=0))
    view, found = np.zeros((inputs.codes.shape[1], 0)), (0.0, 0.0)
    if live.size > MOST_CODES:
        raise ValueError(f"there are {live.size:,} codes that vary, and a view of at most {MOST_CODES} is searched for")
    if live.size:
        basis = _basis(centred[:, live], whiten)
        shares = _shares(centred[:, live] @ basis, inputs.binned(factor_bins)[search])
        turn, found, ended = _search(shares, _starts(shares, rng))
        if not ended:
            cut = f"the search for a view of {live.size:,} codes was cut short"
            warnings.warn(f"{cut}: a better one may exist", stacklevel=3)
        view = np.zeros((inputs.codes.shape[1], basis.shape[1]))
        view[live] = basis @ turn
        view = view @ _settled((inputs.codes[search] - mean) @ view, inputs.factors[search])
    rows = inputs.of_rows(score)
    turned = (rows.codes - mean) @ view if view.shape[1] else np.zeros_like(rows.codes)
    inner = int(rng.integers(2**31))
    plain, aligned = (dci(given, model=model, seed=inner, **options) for given in (rows, replace(rows, codes=turned)))
    # Linearly dependent codes, such as one-hot ones, have no white form that keeps their own view.
    worse = aligned.disentanglement < plain.disentanglement
    if worse or aligned.disentanglement + aligned.completeness < plain.disentanglement + plain.completeness:
        aligned, view = plain, np.eye(inputs.codes.shape[1])
    return AlignedDCI(plain, aligned, view, mean, found, {"model": str(model), "rows": (len(search), len(score))})


def _basis(centred: Floats, whiten: bool) -> Floats:
    """Return columns in which the codes are white, or of equal scale; directions without variance are left out."""
    unit = range_unit(centred)
    unit = unit if whiten else np.full_like(unit, unit.max())
    centred = centred / unit
    covariance = centred.T @ centred / len(centred)
    if not whiten:
        return np.eye(len(covariance)) / np.sqrt(np.trace(covariance) / len(covariance)) / unit[:, None]
    deviation = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
    kept = values > 1e-9 * values.max()
    if kept.all():  # the white codes nearest to the given ones
        return (vectors / np.sqrt(values)) @ vectors.T / deviation[:, None] / unit[:, None]
    return vectors[:, kept] / np.sqrt(values[kept]) / deviation[:, None] / unit[:, None]


def _shares(z: Floats, labels: Ints) -> Floats:
    """Return the covariance of the codes' means given each factor, less what chance gives, and last that of the codes.

    (k + 1, d, d) from centred codes z (n, d).
    """
    n = len(z)
    total = z.T @ z / n
    shares = np.empty((labels.shape[1] + 1, *total.shape))
    shares[-1] = total
    for j, label in enumerate(labels.T):
        count = np.bincount(label)
        sums = np.zeros((len(count), z.shape[1]))
        np.add.at(sums, label, z)
        present = count > 0
        between = (sums[present] / count[present, None]).T @ sums[present] / n
        chance = (present.sum() - 1) / max(n - 1, 1)
        shares[j] = between - chance * total
    return shares


def _importance(shares: Floats) -> Floats:
    """Return the share of each code's variance from each factor (d, k), for codes along the axes."""
    own = np.einsum("jii->ij", shares)
    return np.maximum(own[:, :-1], 0) / np.maximum(own[:, -1:], np.finfo(float).tiny)


def _starts(shares: Floats, rng: np.random.Generator) -> list[Floats]:
    """Return where searches start: the view as given, and eigenvectors of random mixtures, which are right if one view
    fits all factors."""
    starts = [np.eye(shares.shape[1])]
    for _ in range(STARTS - 1):
        mixture = np.tensordot(rng.uniform(0.5, 1.5, size=len(shares) - 1), shares[:-1], axes=1)
        starts.append(np.linalg.eigh(mixture)[1])
    return starts


def _search(shares: Floats, starts: Sequence[Floats]) -> tuple[Floats, tuple[float, float], bool]:
    """Return the best orthogonal matrix, D + C before and after, and whether every search came to its end."""
    steps = np.arange(ANGLES, dtype=np.float64)
    # First over the quarter turn that covers all views of a plane, then near the best of these.
    stages = np.stack([steps * (np.pi / 2 / ANGLES), (steps - ANGLES // 2) * (np.pi / ANGLES**2)])
    d = shares.shape[1]
    found: list[float] = []
    best, ended = starts[0], d <= WIDE
    for start in starts:
        turn, turned = start.copy(), start.T @ shares @ start
        order = np.arange(d) if d <= WIDE else np.argsort(-_importance(turned).sum(axis=1), kind="stable")[:WIDE]
        by_plane = np.ascontiguousarray(turned.transpose(1, 2, 0))
        if not found:
            found.append(turn_planes(by_plane, turn, order, stages, 0, 0, 0.0)[0])
        value, done = turn_planes(by_plane, turn, order, stages, SWEEPS, PLANES, 1e-6)
        ended = ended and done
        if value > max(found[1:], default=-np.inf):
            best = turn
        found.append(value)
    return best, (found[0], max(found[1:])), ended


def _settled(z: Floats, factors: Floats) -> Floats:
    """Turn a code to the direction that predicts its factor, if that is within sampling error: (r, r).

    Orthogonal codes have no correlation in the rows at hand, where independent factors have one of about 1 / sqrt(n).
    The search is therefore off by such an angle, and the entropies of DCI would notice.
    """
    n, r = z.shape
    weights = np.linalg.lstsq(z, standardised(factors), rcond=None)[0]
    length = np.linalg.norm(weights, axis=0)
    tilt = np.eye(r)
    taken: set[int] = set()
    for j in np.argsort(-length, kind="stable"):
        if length[j] == 0:
            continue
        direction = weights[:, j] / length[j]
        i = int(np.abs(direction).argmax())
        if i not in taken and 1 - direction[i] ** 2 <= min(0.1, 9 * r / n):
            tilt[:, i] = direction * np.sign(direction[i])
            taken.add(i)
    return tilt


@njit(cache=True)
def _entropic(x: float) -> float:
    return x * np.log(x) if x > 0 else 0.0


@njit(cache=True)
def _write_importance(explained: Array, out: Array) -> None:
    """Write the importances of a code from its variances given each factor and, last, its variance."""
    for j in range(len(out)):
        out[j] = max(explained[j], 0.0) / max(explained[-1], TINY)


@njit(cache=True)
def _sums(r: Array) -> tuple[float, float, float, float]:
    """Return h(r), h(sums of codes), h(sums of factors) and W, from which `_criterion` computes D + C."""
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
    """Return D + C; a single factor has D = 1, a single code C = 1, and no importance at all gives 0."""
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
    """Return the angle between codes p and q at which D + C is largest, and D + C there; 0 if none is above `value`."""
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
            _write_importance(new_p, r_p)
            _write_importance(new_q, r_q)
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

    With r (d, k) the importance of each code for each factor, W the sum of r, and h the sum of x log x over its
    argument, disentanglement plus completeness are

        D + C = 2 - (h(sums of codes) - h(r)) / (W log k) - (h(sums of factors) - h(r)) / (W log d),

    so that an angle between two codes costs no more than these two, whatever the number of the others.

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
            _write_importance(shares[i, i], r[i])
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
                    _write_importance(shares[i, i], r[i])
                    by_factor += r[i]
                sums = _sums(r)
    return value, True
