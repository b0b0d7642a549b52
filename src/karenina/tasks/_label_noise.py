"""Wrong labels, and what they do to a metric (Holtz et al. 2022, section 4, Tables 2 and 3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.arrays import Floats
from karenina.numerics.checks import as_factors, as_matrix, flags

# Table 2: how often shape, scale, orientation, x and y are perturbed.
REGIMES = {
    1: (0.05, 0.1, 0.05, 0.05, 0.05),
    2: (0.1, 0.2, 0.1, 0.1, 0.1),
    3: (0.3, 0.3, 0.3, 0.3, 0.3),
}
Noise = int | float | Sequence[float]


def label_noise(
    factors: ArrayLike, regime: Noise = 1, *, ordered: bool | Sequence[bool] | None = None, seed: int = 0
) -> NDArray[Any]:
    """Perturb factor labels; the result has their shape and dtype, and only values that they have.

    Parameters
    ----------
    factors : (n, k)
    regime : 1, 2 or 3 of Table 2, a probability, or one probability per factor
        The regimes name dSprites' factors; with another number of factors each takes the probability that shape,
        orientation and position share.
    ordered : bool or one per factor
        With its factor's probability an ordered label moves by Gaussian noise of the factor's standard deviation, to
        the nearest value, and an unordered one becomes another value, all equally likely. (The paper gives the two
        kinds and the probabilities; the width is ours.) None: of five factors under a regime the first is unordered, as
        in dSprites, otherwise all are ordered.
    seed : int

    Examples
    --------
    >>> v = np.random.default_rng(0).integers(3, size=(1000, 2))
    >>> noisy = label_noise(v, (0.3, 0.0), ordered=False)
    >>> (noisy != v).mean(axis=0).round(1)
    array([0.3, 0. ])
    """
    table = as_factors(factors)
    v = as_matrix(table, "factors", least=1)
    p = _probabilities(regime, v.shape[1])
    sprites = np.arange(v.shape[1]) > 0 if v.shape[1] == 5 and _published(regime) else np.ones(v.shape[1], bool)
    by_order = flags(ordered, sprites, "ordered")
    rng = np.random.default_rng(seed)
    out = v.copy()
    for j in range(v.shape[1]):
        values, label = np.unique(v[:, j], return_inverse=True)
        hit = rng.random(len(v)) < p[j]
        if by_order[j]:
            moved = v[:, j] + v[:, j].std() * rng.standard_normal(len(v))
            new = np.searchsorted((values[1:] + values[:-1]) / 2, moved)
        else:
            new = (label + rng.integers(1, max(len(values), 2), size=len(v))) % len(values)
        out[hit, j] = values[new[hit]]
    return out.astype(table.dtype).reshape(table.shape)


def _published(regime: Noise) -> bool:
    return isinstance(regime, (int, np.integer)) and not isinstance(regime, bool)


def _probabilities(regime: Noise, k: int) -> Floats:
    if _published(regime):
        if regime not in REGIMES:
            raise ValueError(f"regime must be 1, 2, 3 or probabilities, got {regime!r}")
        published = REGIMES[int(regime)]  # type: ignore[arg-type]
        return np.array(published if k == 5 else (published[0],) * k)
    p = np.asarray(regime, np.float64)
    if isinstance(regime, bool) or p.shape not in [(), (k,)] or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"regime must be 1, 2, 3, a probability or {k} of them, got {regime!r}")
    return np.broadcast_to(p, (k,))


@dataclass(frozen=True, eq=False)
class Robustness:
    """A metric with clean and with wrong labels, over m models and r regimes of noise.

    clean: (m,). noisy: (r, m). pearson, spearman: (r,), correlations of noisy with clean scores across the models; NaN
    where either does not vary.
    """

    clean: Floats
    noisy: Floats
    pearson: Floats
    spearman: Floats


def robustness(
    metric: Callable[[Floats, NDArray[Any]], Any],
    codes: Sequence[ArrayLike],
    factors: ArrayLike,
    *,
    regimes: Sequence[Noise] = (1, 2, 3),
    ordered: bool | Sequence[bool] | None = None,
    seed: int = 0,
) -> Robustness:
    """Correlate a metric's scores under label noise with its clean scores, across models (Table 3).

    Parameters
    ----------
    metric : (codes, factors) -> a number, or something with float()
    codes : (n, d) per model, at least three models
        Of the same n inputs. All models see the same wrong labels.
    factors : (n, k)
    regimes, ordered, seed : as in `label_noise`

    Examples
    --------
    >>> v = np.random.default_rng(0).integers(3, size=(500, 2))
    >>> first_code = lambda codes, factors: np.corrcoef(codes[:, 0], factors[:, 0])[0, 1]
    >>> robustness(first_code, [v, v[:, ::-1], -v], v, regimes=[0.1]).spearman
    array([1.])
    """
    from scipy.stats import rankdata

    z = [as_matrix(one, f"codes of model {i}") for i, one in enumerate(codes)]
    if len(z) < 3:
        raise ValueError(f"a correlation across models needs at least 3 of them, got {len(z)}")
    v = as_factors(factors)
    as_matrix(v, "factors")
    for i, one in enumerate(z):
        if len(one) != len(v):
            raise ValueError(f"codes of model {i} have {len(one)} rows and factors {len(v)}")
    clean = np.array([float(metric(one, v)) for one in z])
    tables = [label_noise(v, regime, ordered=ordered, seed=seed) for regime in regimes]
    noisy = np.array([[float(metric(one, table)) for one in z] for table in tables]).reshape(len(tables), len(z))
    return Robustness(
        clean,
        noisy,
        np.array([_correlation(row, clean) for row in noisy]),
        np.array([_correlation(rankdata(row), rankdata(clean)) for row in noisy]),
    )


def _correlation(a: Floats, b: Floats) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / scale) if scale > 0 else float("nan")
