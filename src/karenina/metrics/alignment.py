"""DCI from the right point of view: beside the plain score, that of the codes rotated to where it is best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from karenina.metrics._dci import DCI, Lasso, Trees, dci
from karenina.metrics._inputs import Continuous, Floats, Inputs, Ints, metric
from karenina.numerics.columns import range_unit, standardised

ANGLES = 48  # tried per plane and sweep, over the quarter turn that covers all views of a plane
SWEEPS = 20
STARTS = 4


@dataclass(frozen=True, eq=False)
class AlignedDCI:
    """`float(result)` and `.value` are the aligned disentanglement; `.gain` is what the rotation brought.

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
        """Property -> its values per factor (k,)."""
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
    a code turns to the direction that predicts its factor best, if that is within sampling error of its own.

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
    gives high D even to noise: read the informativeness too. About 0.5 s for ten codes, plus two DCIs.

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
    if live.size:
        basis = _basis(centred[:, live], whiten)
        within, total = _shares(centred[:, live] @ basis, inputs.binned(factor_bins)[search])
        turn, found = _search(within, total, _starts(basis, within, rng))
        view = np.zeros((inputs.codes.shape[1], basis.shape[1]))
        view[live] = basis @ turn
        view = view @ _settled((inputs.codes[search] - mean) @ view, inputs.factors[search])
    rows = inputs.of_rows(score)
    turned = (rows.codes - mean) @ view if view.shape[1] else np.zeros_like(rows.codes)
    inner = int(rng.integers(2**31))
    plain, aligned = (dci(given, model=model, seed=inner, **options) for given in (rows, replace(rows, codes=turned)))
    return AlignedDCI(plain, aligned, view, mean, found, {"model": str(model), "rows": (len(search), len(score))})


def _basis(centred: Floats, whiten: bool) -> Floats:
    """Columns in which the codes are white, or of equal scale; directions without variance are left out."""
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


def _shares(z: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """Covariance of the codes' means given each factor, less what chance gives (k, d, d), and of the codes (d, d)."""
    n = len(z)
    total = z.T @ z / n
    within = np.empty((labels.shape[1], *total.shape))
    for j, label in enumerate(labels.T):
        count = np.bincount(label)
        sums = np.zeros((len(count), z.shape[1]))
        np.add.at(sums, label, z)
        present = count > 0
        between = (sums[present] / count[present, None]).T @ sums[present] / n
        chance = (present.sum() - 1) / max(n - 1, 1)
        within[j] = between - chance * total
    return within, total


def _starts(basis: Floats, within: Floats, rng: np.random.Generator) -> list[Floats]:
    """The view as given, and the eigenvectors of random mixtures, which are right if one view fits all factors."""
    starts = [np.eye(basis.shape[1])]
    for _ in range(STARTS - 1):
        mixture = np.tensordot(rng.uniform(0.5, 1.5, size=len(within)), within, axes=1)
        starts.append(np.linalg.eigh(mixture)[1])
    return starts


def _search(within: Floats, total: Floats, starts: Sequence[Floats]) -> tuple[Floats, tuple[float, float]]:
    """The best orthogonal matrix, and the criterion of the first start and of the best."""
    results = [_sweep(within, total, start) for start in starts]
    before = _criterion(_importance(within, total)[None])[0]
    turn, after = max(results, key=lambda result: result[1])
    return turn, (float(before), after)


def _importance(within: Floats, total: Floats) -> Floats:
    """Share of each code's variance from each factor (d, k), for codes along the axes."""
    share = np.einsum("jii->ij", within) / np.maximum(np.diag(total), np.finfo(float).tiny)[:, None]
    return np.maximum(share, 0)


def _criterion(r: Floats) -> Floats:
    """Disentanglement plus completeness of many importances at once: (a, d, k) to (a,)."""

    def entropy(p: Floats) -> Floats:
        return -(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1)

    codes, factors = r.sum(axis=2), r.sum(axis=1)
    whole = np.maximum(codes.sum(axis=1), np.finfo(float).tiny)
    by_code = entropy(r / np.maximum(codes, np.finfo(float).tiny)[:, :, None]) / max(np.log(r.shape[2]), 1e-9)
    by_factor = entropy(r.transpose(0, 2, 1) / np.maximum(factors, np.finfo(float).tiny)[:, :, None])
    by_factor = by_factor / max(np.log(r.shape[1]), 1e-9)
    return ((1 - by_code) * codes).sum(axis=1) / whole + ((1 - by_factor) * factors).sum(axis=1) / whole


def _sweep(within: Floats, total: Floats, turn: Floats) -> tuple[Floats, float]:
    """Turn each plane to its best angle, first on a grid and then near its best, until a sweep brings nothing."""
    turn = turn.copy()
    d = len(turn)
    s, c = turn.T @ within @ turn, turn.T @ total @ turn
    value = float(_criterion(_importance(s, c)[None])[0])
    steps = np.arange(ANGLES, dtype=np.float64)
    grid = steps * (np.pi / 2 / ANGLES)
    near = (steps - ANGLES // 2) * (np.pi / ANGLES**2)
    for _ in range(SWEEPS):
        before = value
        for p in range(d - 1):
            for q in range(p + 1, d):
                angle = 0.0
                for angles in (grid, near):
                    scores = _turned(s, c, p, q, angle + angles)
                    best = int(scores.argmax())
                    if scores[best] > value + 1e-12:
                        value, angle = float(scores[best]), angle + float(angles[best])
                if angle:
                    plane = np.eye(d)
                    plane[[p, q], [p, q]] = np.cos(angle)
                    plane[q, p], plane[p, q] = np.sin(angle), -np.sin(angle)
                    turn = turn @ plane
                    s, c = plane.T @ s @ plane, plane.T @ c @ plane
        if value - before < 1e-6:
            break
    return turn, value


def _turned(s: Floats, c: Floats, p: int, q: int, angles: Floats) -> Floats:
    """The criterion after turning the plane of codes p and q by each angle; only their two rows change."""
    r = np.repeat(_importance(s, c)[None], len(angles), axis=0)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    for row, (a, b, sign) in ((p, (cos**2, sin**2, 1)), (q, (sin**2, cos**2, -1))):
        cross = 2 * sign * cos * sin
        share = a * s[:, p, p] + b * s[:, q, q] + cross * s[:, p, q]
        variance = a * c[p, p] + b * c[q, q] + cross * c[p, q]
        r[:, row] = np.maximum(share, 0) / np.maximum(variance, np.finfo(float).tiny)
    return _criterion(r)


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
