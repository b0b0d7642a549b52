"""Prediction where the training rows are unlike the test rows (Traeuble et al. 2021, Dittadi et al. 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.checks import are_continuous, as_matrix, one_of, pair, positive_integer, ranks, varying
from karenina.numerics.trees import Sorted
from karenina.tasks._downstream import (
    MODELS,
    Predictor,
    accuracy,
    boosted_labels,
    boosted_values,
    chosen_models,
    r2,
    target_of,
)

Kind = Literal["corner", "correlated"]
LEAST = 20
_SHIFT = 20_210_718  # keeps the draw of rows apart from that of factors which were made with the same seed
# Trees split between all values, not between bins: a bin with rows of two classes would be told apart by another code,
# which is what fails on combinations that were not seen.
PREDICTORS: dict[str, tuple[Predictor, Predictor]] = {
    **MODELS,
    "boosted": (partial(boosted_labels, among=Sorted), partial(boosted_values, among=Sorted)),
}


@dataclass(frozen=True, eq=False)
class Shift:
    """Scores of predicting each factor: accuracy, or R2 where it is continuous; NaN for a constant factor.

    models: m names. seen (m, k): on other rows like the training rows. unseen (m, k): on rows they do not have.
    """

    models: tuple[str, ...]
    seen: Floats
    unseen: Floats
    kind: str

    def __float__(self) -> float:
        """Return the mean score on unseen rows, of the first model."""
        return float(np.nanmean(self.unseen[0]))

    def summary(self) -> dict[str, float]:
        """Return mean scores under flat names for tables: shift_<kind>_<model>_seen and shift_<kind>_<model>_unseen."""
        return {
            f"shift_{self.kind}_{model}_{where}": float(np.nanmean(scores[m]))
            for m, model in enumerate(self.models)
            for where, scores in (("seen", self.seen), ("unseen", self.unseen))
        }


def in_corner(factors: ArrayLike, pair_of: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the rows (n,) in which both factors are in the upper third of their values, or the last of two."""
    v = _pair(factors, pair_of)
    high = np.stack([ranks(column) for column in v.T], axis=1)
    top = high.max(axis=0)
    inside: NDArray[np.bool_] = (high >= np.minimum(np.ceil((top + 1) * 2 / 3), top)).all(axis=1)
    return inside


def near_diagonal(
    factors: ArrayLike, pair_of: tuple[int, int], sigma: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return rows (n,) that are kept with probability exp(-(a - b)^2 / 2 sigma^2), a and b the factors on [0, 1]:
    correlated rows.

    Traeuble et al. (2021).
    """
    if not sigma > 0:
        raise ValueError(f"sigma must be above 0, got {sigma}")
    v = _pair(factors, pair_of)
    unit = (v - v.min(axis=0)) / (v.max(axis=0) - v.min(axis=0))
    kept: NDArray[np.bool_] = rng.random(len(v)) < np.exp(-((unit[:, 0] - unit[:, 1]) ** 2) / (2 * sigma**2))
    return kept


def _pair(factors: ArrayLike, pair_of: tuple[int, int]) -> Floats:
    v = as_matrix(factors, "factors", least=2)
    if len(pair_of) != 2 or pair_of[0] == pair_of[1] or not all(0 <= j < v.shape[1] for j in pair_of):
        raise ValueError(f"pair must be two different columns of the {v.shape[1]} factors, got {pair_of}")
    chosen = v[:, list(pair_of)]
    if not varying(chosen).all():
        raise ValueError(f"factors {pair_of} must both vary")
    return chosen


def shift(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    kind: Kind = "corner",
    pair_of: tuple[int, int] | None = None,
    sigma: float = 0.2,
    models: Sequence[str] = ("logistic", "boosted"),
    rows: int = 5_000,
    continuous: bool | Sequence[bool] | None = None,
    seed: int = 0,
) -> Shift:
    """Predict factors from codes on combinations of two factors that the predictors were not trained on.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    kind : {"corner", "correlated"}
        What the training rows lack: those in which both factors of the pair are in their upper third, or those far from
        the diagonal, since rows are kept with probability exp(-(a - b)^2 / 2 sigma^2). Unseen rows are all others.
    pair_of : (i, j)
        Columns of factors; None: the two with the most values.
    sigma : float
        Of "correlated"; the smaller, the stronger.
    models : of "logistic" and "boosted"
        As in `downstream`, but that trees split between all values, not between bins.
    rows : int
        To train on, at most. A third of the rows like them are set aside for `seen`.
    continuous : bool or one per factor
        None: factors of integers are categorical.
    seed : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(6, size=(2000, 2))
    >>> mixed = v @ np.array([[1.0, 0.8], [-0.8, 1.0]])
    >>> apart, together = (shift(z, v, models=["boosted"], rows=500) for z in (v, mixed))
    >>> bool(apart.unseen.mean() > together.unseen.mean() + 0.1)
    True
    """
    names = chosen_models(models, PREDICTORS)
    one_of("kind", kind, get_args(Kind))
    rows = positive_integer(rows, "rows")
    z, v = pair(codes, factors)
    rng = np.random.default_rng([seed, _SHIFT])
    if pair_of is None:
        if v.shape[1] < 2:
            raise ValueError("a shift needs two factors, got one")
        counts = [len(np.unique(column)) for column in v.T]
        first, second = sorted(np.argsort(counts, kind="stable")[-2:].tolist())
        pair_of = (first, second)
    like = ~in_corner(v, pair_of) if kind == "corner" else near_diagonal(v, pair_of, sigma, rng)
    alike, unlike = rng.permutation(np.flatnonzero(like)), np.flatnonzero(~like)
    if len(alike) < LEAST or not len(unlike):
        raise ValueError(f"{len(alike)} rows to train on (at least {LEAST} are needed) and {len(unlike)} unlike them")
    seen, train = alike[: len(alike) // 3], alike[len(alike) // 3 :][:rows]
    number = are_continuous(continuous, v)
    scores = np.full((2, len(names), v.shape[1]), np.nan)
    tested = np.concatenate([seen, unlike])
    for j in np.flatnonzero(varying(v)):
        column = target_of(v[:, j], bool(number[j]))
        for m, name in enumerate(names):
            guess = PREDICTORS[name][int(number[j])](z[train], column[train], z[tested], rng)
            parts = zip((seen, unlike), np.split(guess, [len(seen)]))
            scores[:, m, j] = [(r2 if number[j] else accuracy)(column[part], part_guess) for part, part_guess in parts]
    return Shift(names, scores[0], scores[1], kind)
