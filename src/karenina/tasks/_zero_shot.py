"""Regression in a corner of factor space that was never seen (Eastwood and Williams 2018, appendix B.2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from karenina.numerics.arrays import Floats
from karenina.numerics.checks import pair
from karenina.numerics.columns import range_unit
from karenina.tasks._downstream import chosen_models

DEPTHS = (2, 4, 6, 8, 12, 16, 24)
MODELS = ("lasso", "forest")


@dataclass(frozen=True, eq=False)
class ZeroShot:
    """Errors of predicting each factor, in units of its standard deviation in the training rows (NRMSE).

    inside: (k,) in the corner. outside: (k,) on rows like the training rows that were not trained on. NaN for a factor
    that does not vary outside the corner.
    """

    inside: Floats
    outside: Floats
    model: str

    def __float__(self) -> float:
        """Return the mean error in the corner (the averages of Table 5)."""
        return float(np.nanmean(self.inside))

    def summary(self) -> dict[str, float]:
        """Return mean errors under flat names for tables: zero_shot_<model>_inside and zero_shot_<model>_outside."""
        means = {"inside": float(self), "outside": float(np.nanmean(self.outside))}
        return {f"zero_shot_{self.model}_{where}": mean for where, mean in means.items()}


def zero_shot(
    codes: ArrayLike, factors: ArrayLike, inside: ArrayLike, *, model: str = "lasso", seed: int = 0
) -> ZeroShot:
    """Fit factors on codes outside a corner of factor space; measure the error in the corner and outside it.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    inside : (n,) bool
        The rows of the corner, which must be the one that the codes' model never saw: for a model of
        "teapots:gap=exclude" `in_gap(factors)` of karenina.papers.eastwood2018.teapots, for one of
        "teapots:gap=exclude,reading=printed" `in_gap(factors, "printed")`. A fifth of the other rows is kept
        for the outside error.
    model : "lasso" or "forest"
        The penalty by cross-validation; ten trees, the depth by a validation set, as in the paper.
    seed : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.uniform(size=(1000, 2))
    >>> result = zero_shot(v @ [[1, 2], [3, 1]], v, (v > 0.6).all(axis=1))
    >>> bool((result.inside < 0.001).all())
    True
    """
    chosen_models(model, MODELS)
    z, v = pair(codes, factors)
    corner = np.asarray(inside)
    if corner.dtype != bool or corner.shape != (len(z),):
        raise ValueError(f"inside must be {len(z)} bools, got {corner.dtype} of shape {corner.shape}")
    if not corner.any():
        raise ValueError(f"the corner is empty: none of the {len(z)} rows is inside")
    seen = np.flatnonzero(~corner)
    if len(seen) < 10:
        raise ValueError(f"the corner leaves {len(seen)} of {len(z)} rows outside, at least 10 are needed to fit on")
    rng = np.random.default_rng(seed)
    seen = rng.permutation(seen)
    kept, train = seen[: len(seen) // 5], seen[len(seen) // 5 :]
    z, v = (columns / range_unit(columns) for columns in (z, v))
    scale = z[train].std(axis=0)
    z = (z - z[train].mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    errors = np.full((2, v.shape[1]), np.nan)
    for j, column in enumerate(v.T):
        if np.ptp(column[train]) == 0:
            continue
        target = (column - column[train].mean()) / column[train].std()
        fitted = (_lasso if model == "lasso" else _forest)(z[train], target[train], rng)
        for row, part in enumerate((corner, kept)):
            errors[row, j] = np.sqrt(((fitted.predict(z[part]) - target[part]) ** 2).mean())
    if np.isnan(errors).all():
        raise ValueError(f"every factor is constant outside the corner (factors has shape {v.shape})")
    return ZeroShot(errors[0], errors[1], model)


def _lasso(x: Floats, y: Floats, rng: np.random.Generator) -> Any:
    from sklearn.linear_model import LassoCV

    # Penalties down to 1e-5 of the largest: shrinkage pulls predictions to the centre, which costs most in a corner.
    return LassoCV(eps=1e-5, cv=min(5, len(y)), max_iter=10_000, tol=1e-6).fit(x, y)


def _forest(x: Floats, y: Floats, rng: np.random.Generator) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    last = len(y) // 5
    validation, rest = slice(0, last), slice(last, None)

    def grown(depth: int, part: slice) -> Any:
        return RandomForestRegressor(10, max_depth=depth, random_state=state).fit(x[part], y[part])

    state = int(rng.integers(2**31))
    errors = [((grown(depth, rest).predict(x[validation]) - y[validation]) ** 2).mean() for depth in DEPTHS]
    return grown(DEPTHS[int(np.argmin(errors))], slice(None))
