"""DCI from the right point of view: beside the plain score, that of the codes rotated to where it is best."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.metrics._histograms import factor_labels
from karenina.metrics._inputs import Inputs, check
from karenina.metrics.dci import DCI, dci
from karenina.numerics.columns import standardised

Array = NDArray[np.float64]

ANGLES = 48  # tried per plane and sweep, over the quarter turn that covers all views of a plane
SWEEPS = 20
STARTS = 4


@dataclass(frozen=True, eq=False)
class AlignedDCI:
    """`float(result)` and `.value` are the aligned disentanglement; `.gain` is what the rotation brought.

    plain, aligned: DCI of the same rows, as given and rotated. view: (d, r), aligned codes are (codes - mean) @ view;
    mean: (d,). found: disentanglement plus completeness of the search's own importances on the rows it searched, before
    and after.
    """

    plain: DCI
    aligned: DCI
    view: Array
    mean: Array
    found: tuple[float, float]
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return self.aligned.disentanglement

    @property
    def gain(self) -> float:
        return self.aligned.disentanglement - self.plain.disentanglement

    @property
    def per_factor(self) -> Array:
        return self.aligned.per_factor

    @property
    def per_code(self) -> Array:
        return self.aligned.per_code

    @property
    def matrix(self) -> Array:
        return self.aligned.matrix

    def __float__(self) -> float:
        return float(self.value)


def aligned_dci(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    model: str = "lasso",
    whiten: bool = True,
    factor_bins: int = 10,
    continuous: bool | Sequence[bool] | None = None,
    seed: int | np.random.Generator = 0,
    **options: Any,
) -> AlignedDCI:
    """Tell a rotated but factorised representation from an entangled one.

    A rotation of perfectly disentangled codes keeps the factors independent, but every axis-bound metric scores it low
    (review, 6.1). Here one random half of the rows finds the view in which DCI is best, and the other half is scored
    both as given and in that view, with `dci(model=model, **options)`. Both high: disentangled. Plain low, aligned
    high: factorised, only rotated. Both low: entangled, or uninformative.

    The search: live codes are whitened, so that any linear mixing of independent factors becomes a rotation
    (`whiten=False` only rotates the centred codes, on their own scales). With S_j the covariance of the codes' means
    given factor j, the code along a unit vector q has the share q'S_j q of its variance from factor j, however
    non-linear. These shares, less what chance gives, are the importances; sweeps of plane rotations raise their
    disentanglement plus completeness from several starts. Continuous factors are cut into `factor_bins` bins. In the
    end a code turns to the direction that predicts its factor best, if that is within sampling error of its own.

    Assumes: factors are (nearly) independent, and codes are a linear mixing of functions of single factors. Fails: a
    non-linear mixing is called entangled, rightly or not; the lasso gives sparse weights, hence high D, even to noise
    (review, 5.2), so read the informativeness too; the view is chosen with labels, so the aligned score is no measure
    of what a user without labels would see. The fresh half keeps noise from being aligned. Cost: some ten sweeps over
    d^2 / 2 planes, about 0.5 s for ten codes, plus two DCIs.

    >>> rng = np.random.default_rng(0)
    >>> v = rng.uniform(size=(2000, 3))
    >>> turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    >>> result = aligned_dci(v @ turn, v)
    >>> round(result.plain.disentanglement, 1), round(result.aligned.disentanglement, 1)
    (0.2, 1.0)
    """
    inputs = check(codes, factors, continuous, least=12)
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
        within, total = _shares(centred[:, live] @ basis, factor_labels(inputs, factor_bins)[search])
        turn, found = _search(within, total, _starts(basis, within, rng))
        view = np.zeros((inputs.codes.shape[1], basis.shape[1]))
        view[live] = basis @ turn
        view = view @ _settled((inputs.codes[search] - mean) @ view, inputs.factors[search])
    rows = inputs.codes[score]
    turned = (rows - mean) @ view if view.shape[1] else np.zeros_like(rows)
    inner = int(rng.integers(2**31))
    settings: dict[str, Any] = {"model": model, "continuous": inputs.continuous.tolist(), "seed": inner, **options}
    plain, aligned = (_restored(dci(z, inputs.factors[score], **settings), inputs) for z in (rows, turned))
    return AlignedDCI(plain, aligned, view, mean, found, {"model": model, "rows": (len(search), len(score))})


def _basis(centred: Array, whiten: bool) -> Array:
    """Columns in which the codes are white, or of equal scale; directions without variance are left out."""
    covariance = centred.T @ centred / len(centred)
    if not whiten:
        return np.eye(len(covariance)) / np.sqrt(np.trace(covariance) / len(covariance))
    deviation = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
    kept = values > 1e-9 * values.max()
    if kept.all():  # the white codes nearest to the given ones
        return (vectors / np.sqrt(values)) @ vectors.T / deviation[:, None]
    return vectors[:, kept] / np.sqrt(values[kept]) / deviation[:, None]


def _shares(z: Array, labels: NDArray[np.int64]) -> tuple[Array, Array]:
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


def _starts(basis: Array, within: Array, rng: np.random.Generator) -> list[Array]:
    """The view as given, and the eigenvectors of random mixtures, which are right if one view fits all factors."""
    starts = [np.eye(basis.shape[1])]
    for _ in range(STARTS - 1):
        mixture = np.tensordot(rng.uniform(0.5, 1.5, size=len(within)), within, axes=1)
        starts.append(np.linalg.eigh(mixture)[1])
    return starts


def _search(within: Array, total: Array, starts: Sequence[Array]) -> tuple[Array, tuple[float, float]]:
    """The best orthogonal matrix, and the criterion of the first start and of the best."""
    results = [_sweep(within, total, start) for start in starts]
    before = _criterion(_importance(within, total)[None])[0]
    turn, after = max(results, key=lambda result: result[1])
    return turn, (float(before), after)


def _importance(within: Array, total: Array) -> Array:
    """Share of each code's variance from each factor (d, k), for codes along the axes."""
    share = np.einsum("jii->ij", within) / np.maximum(np.diag(total), np.finfo(float).tiny)[:, None]
    return np.maximum(share, 0)


def _criterion(r: Array) -> Array:
    """Disentanglement plus completeness of many importances at once: (a, d, k) to (a,)."""

    def entropy(p: Array) -> Array:
        return -(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1)

    codes, factors = r.sum(axis=2), r.sum(axis=1)
    whole = np.maximum(codes.sum(axis=1), np.finfo(float).tiny)
    by_code = entropy(r / np.maximum(codes, np.finfo(float).tiny)[:, :, None]) / max(np.log(r.shape[2]), 1e-9)
    by_factor = entropy(r.transpose(0, 2, 1) / np.maximum(factors, np.finfo(float).tiny)[:, :, None])
    by_factor = by_factor / max(np.log(r.shape[1]), 1e-9)
    return ((1 - by_code) * codes).sum(axis=1) / whole + ((1 - by_factor) * factors).sum(axis=1) / whole


def _sweep(within: Array, total: Array, turn: Array) -> tuple[Array, float]:
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


def _turned(s: Array, c: Array, p: int, q: int, angles: Array) -> Array:
    """The criterion after turning the plane of codes p and q by each angle; only their two rows change."""
    r = np.repeat(_importance(s, c)[None], len(angles), axis=0)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    for row, (a, b, sign) in ((p, (cos**2, sin**2, 1)), (q, (sin**2, cos**2, -1))):
        cross = 2 * sign * cos * sin
        share = a * s[:, p, p] + b * s[:, q, q] + cross * s[:, p, q]
        variance = a * c[p, p] + b * c[q, q] + cross * c[p, q]
        r[:, row] = np.maximum(share, 0) / np.maximum(variance, np.finfo(float).tiny)
    return _criterion(r)


def _settled(z: Array, factors: Array) -> Array:
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


def _restored(result: DCI, inputs: Inputs) -> DCI:
    """Per-factor parts at the positions of the factors as they were given."""
    return replace(
        result,
        importance=inputs.spread(result.importance.T).T,
        per_factor=inputs.spread(result.per_factor),
        per_factor_informativeness=inputs.spread(result.per_factor_informativeness),
    )
