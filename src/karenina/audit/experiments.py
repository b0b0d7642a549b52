"""Controlled experiments: representations made by hand, whose right scores are known.

Carbonneau et al. (2022), sections 5.2 to 5.7, and failures that users of the metrics have met. An experiment makes
codes and factors for each value of one parameter; all of them begin with the same factors for the same seed.

>>> codes, factors = EXPERIMENTS["noise"].make(0.2, rows=1000, seed=0)
>>> codes.shape, factors.shape, EXPERIMENTS["noise"].truth(0.2)["modularity"]
((1000, 8), (1000, 8), 1.0)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from karenina.numerics.arrays import Floats

Pair = tuple[Floats, Floats]
# The right score of each property; a property that is not named has none.
Truth = dict[str, float]

FACTORS = 8
# Sample efficiency is measured on this many times the rows of the other experiments (Carbonneau et al.: 100,000 and
# 20,000).
LARGE = 5
_PERFECT: Truth = {"modularity": 1.0, "compactness": 1.0, "explicitness": 1.0, "holistic": 1.0}


@dataclass(frozen=True)
class Experiment:
    """One parameter of a representation, and the right scores at each of its values.

    Attributes
    ----------
    section : of Carbonneau et al. (2022), or "" for our own
    values : of the parameter, numbers or names
    build : (v, value, rng) -> codes and factors, from uniform factors v (rows, 8)
    truth : value -> the right score of each property that has one
    neutral : the value that gives perfect codes, equal to the factors, if there is one
    categorical : factors are categorical, not continuous
    nested : the values are shares of one large sample, of LARGE times the rows
    """

    name: str
    section: str
    title: str
    parameter: str
    values: tuple[float | str, ...]
    build: Callable[[Floats, float | str, np.random.Generator], Pair]
    truth: Callable[[float | str], Truth]
    neutral: float | str | None = None
    categorical: bool = False
    nested: bool = False

    def make(self, value: float | str, rows: int = 20_000, seed: int = 0) -> Pair:
        """Return codes (n, d) and factors (n, k) at this value of the parameter. n is `rows`, but for "samples"."""
        if value not in self.values:
            raise ValueError(f"{self.name} has no {self.parameter} {value!r}; it has {self.values}")
        rng = np.random.default_rng(seed)
        factors = rng.random((LARGE * rows if self.nested else rows, FACTORS))
        return self.build(factors, value, rng)


def _noise(v: Floats, alpha: float | str, rng: np.random.Generator) -> Pair:
    """Mix codes with noise, equation 9."""
    alpha = float(alpha)
    return (1 - alpha) * v + alpha * rng.random(v.shape), v


def _noise_truth(alpha: float | str) -> Truth:
    """Return the right scores: noise takes explicitness alone, until there is nothing left to be modular."""
    if alpha == 0:
        return dict(_PERFECT)
    return dict.fromkeys(_PERFECT, 0.0) if alpha == 1 else {"modularity": 1.0, "compactness": 1.0}


def _mixing(v: Floats, alpha: float | str, rng: np.random.Generator) -> Pair:
    """Return v R: each factor has weight 1 - alpha in its own code and alpha in the next (the last in the first)."""
    alpha = float(alpha)
    return (1 - alpha) * v + alpha * np.roll(v, 1, axis=1), v


def _mixing_truth(alpha: float | str) -> Truth:
    """Return the right scores. Each code serves two factors, each factor has two codes: 1 - entropy of the weights, as
    DCI counts it.

    The codes tell everything until alpha is 0.5: then R is singular (its rows with signs in turn add up to 0), which
    the authors overlook.
    """
    alpha = float(alpha)
    if alpha == 0:
        return dict(_PERFECT)
    entropy = -alpha * math.log(alpha) - (1 - alpha) * math.log(1 - alpha)
    both = 1 - entropy / math.log(FACTORS)
    return {"modularity": both, "compactness": both} | ({"explicitness": 1.0} if alpha < 0.5 else {})


_CODES_OF_A_FACTOR: dict[float | str, int] = {"cos, sin": 2, "twice": 2, "four times": 4}


def _redundancy(v: Floats, case: float | str, rng: np.random.Generator) -> Pair:
    """Return angles of which each has several codes, eight codes in all: modular, not compact."""
    copies = _CODES_OF_A_FACTOR[case]
    angles = 2 * np.pi * v[:, : FACTORS // copies]
    if case == "cos, sin":
        return np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(len(v), FACTORS), angles
    return np.repeat(angles, copies, axis=1), angles


def _redundancy_truth(case: float | str) -> Truth:
    compactness = 1 - math.log(_CODES_OF_A_FACTOR[case]) / math.log(FACTORS)
    return {"modularity": 1.0, "compactness": compactness, "explicitness": 1.0}


def _tangent(v: Floats, alpha: float | str, rng: np.random.Generator) -> Pair:
    """Bend codes by a tangent, equation 10."""
    steepness = 1000 ** (float(alpha) - 0.25)
    omega = 2 * np.arctan(steepness / 2)
    return np.tan(omega * (v - 0.5)) / steepness + 0.5, v


def _measured(v: Floats, count: float | str, rng: np.random.Generator) -> Pair:
    return v, v[:, : int(count)]


def _samples(v: Floats, share: float | str, rng: np.random.Generator) -> Pair:
    """Return the first rows of a large sample v R, where three quarters of R are zero.

    R is drawn again while a factor is in no code or a code has no factor, of which the authors say nothing.
    """
    mixing = np.zeros((FACTORS, FACTORS))
    while not mixing.any(axis=0).all() or not mixing.any(axis=1).all():
        mixing = rng.random((FACTORS, FACTORS)) * (rng.random((FACTORS, FACTORS)) < 0.25)
    rows = max(round(len(v) * float(share)), 2)
    return v[:rows] @ mixing, v[:rows]


def _scale(v: Floats, scale: float | str, rng: np.random.Generator) -> Pair:
    """Return codes, every second one with 40 % of noise: all multiplied by `scale`, or the noisy ones alone by 100."""
    codes = v.copy()
    codes[:, 1::2] = 0.6 * codes[:, 1::2] + 0.4 * rng.random(codes[:, 1::2].shape)
    if scale == "noisy x 100":
        codes[:, 1::2] *= 100
        return codes, v
    return float(scale) * codes, v


def _outlier(v: Floats, distance: float | str, rng: np.random.Generator, count: int = FACTORS) -> Pair:
    """Move one entry of each code, or of so many, to this many times the range of the code.

    One code alone is what a rule that compares the ranges of codes stumbles over.
    """
    codes = v.copy()
    if float(distance) > 1:
        codes[np.arange(count), np.arange(count)] = float(distance)
    return codes, v


def _noise_codes(v: Floats, count: float | str, rng: np.random.Generator) -> Pair:
    """Return categorical factors, codes equal to them, and as many codes of noise, of this many values; none for 0."""
    values = np.floor(10 * v)
    if not count:
        return values, values
    return np.hstack([values, np.floor(int(count) * rng.random(v.shape)) * 10 / int(count)]), values


def _dead(v: Floats, count: float | str, rng: np.random.Generator) -> Pair:
    """Add codes that hardly move: what the mean codes of latents that a VAE has switched off look like."""
    return np.hstack([v, 1e-3 * rng.normal(size=(len(v), int(count)))]), v


def _dead_mixed(v: Floats, count: float | str, rng: np.random.Generator) -> Pair:
    """Add codes that hardly move to eight codes that each hold all factors alike.

    DCI divides entropies by log d, so that what eight of many codes share looks concentrated.
    """
    from scipy.linalg import hadamard

    return _dead(v @ hadamard(FACTORS) / FACTORS, count, rng)[0], v


def _rotated(v: Floats, degrees: float | str, rng: np.random.Generator) -> Pair:
    """Rotate codes in pairs: nothing is lost, but no code stands for a factor any more."""
    angle = np.radians(float(degrees))
    even, odd = v[:, 0::2] - 0.5, v[:, 1::2] - 0.5
    codes = np.empty_like(v)
    codes[:, 0::2] = np.cos(angle) * even - np.sin(angle) * odd
    codes[:, 1::2] = np.sin(angle) * even + np.cos(angle) * odd
    return codes if angle else v, v


def _categories(v: Floats, count: float | str, rng: np.random.Generator) -> Pair:
    """Return categorical factors, and codes that have a level for each value, in random order."""
    values = np.floor(int(count) * v)
    levels = np.stack([rng.permutation(int(count)) for _ in range(FACTORS)], axis=1)
    return levels[values.astype(int), np.arange(FACTORS)] / int(count), values


def _correlated(v: Floats, rho: float | str, rng: np.random.Generator) -> Pair:
    """Return factors in pairs with this correlation (of a Gaussian copula), and codes equal to the factors."""
    from scipy.special import ndtr, ndtri

    rho = float(rho)
    if rho == 0:
        return v, v
    factors = v.copy()
    normal = ndtri(np.clip(v, 1e-12, 1 - 1e-12))
    factors[:, 1::2] = ndtr(rho * normal[:, 0::2] + math.sqrt(1 - rho**2) * normal[:, 1::2])
    return factors, factors


def _always_perfect(value: float | str) -> Truth:
    return dict(_PERFECT)


def _explicit(value: float | str) -> Truth:
    return {"explicitness": 1.0} if value else dict(_PERFECT)


_ALPHAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("noise", "5.2", "Perfect codes, then noise", "share of noise", _ALPHAS, _noise, _noise_truth, 0.0),
        Experiment(
            "mixing",
            "5.3",
            "Less modular, less compact",
            "weight of a second factor",
            (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
            _mixing,
            _mixing_truth,
            0.0,
        ),
        Experiment(
            "redundancy",
            "5.4",
            "Modular, not compact",
            "codes of a factor",
            ("cos, sin", "twice", "four times"),
            _redundancy,
            _redundancy_truth,
        ),
        Experiment("nonlinear", "5.5", "Codes bent by a tangent", "bend", _ALPHAS, _tangent, _always_perfect),
        Experiment(
            "measured",
            "5.6",
            "Only some factors measured",
            "factors measured",
            tuple(range(FACTORS, 0, -1)),
            _measured,
            _always_perfect,
            FACTORS,
        ),
        Experiment(
            "samples",
            "5.7",
            "The first rows of a large sample",
            "share of the rows",
            (0.001, 0.01, 0.1, 1.0),
            _samples,
            lambda value: {},
            nested=True,
        ),
        Experiment(
            "scale",
            "",
            "Codes multiplied",
            "multiplied by",
            (1.0, 0.01, 100.0, "noisy x 100"),
            _scale,
            lambda value: {"modularity": 1.0, "compactness": 1.0},
        ),
        Experiment(
            "outlier", "", "A wild entry in each code", "ranges away", (1, 10, 1000), _outlier, _always_perfect, 1
        ),
        Experiment(
            "one_outlier",
            "",
            "A wild entry in one code",
            "ranges away",
            (1, 10, 1000),
            partial(_outlier, count=1),
            _always_perfect,
            1,
        ),
        Experiment(
            "noise_codes",
            "",
            "Noise beside perfect codes",
            "values of a noise code",
            (0, 2, 10, 100),
            _noise_codes,
            lambda value: {"compactness": 1.0, "explicitness": 1.0},
            categorical=True,
        ),
        Experiment("dead", "", "Codes that hardly move", "codes added", (0, 4, 16), _dead, _always_perfect, 0),
        Experiment(
            "dead_mixed",
            "",
            "Codes that hardly move beside mixed ones",
            "codes added",
            (0, 4, 16),
            _dead_mixed,
            lambda value: {"modularity": 0.0, "compactness": 0.0, "explicitness": 1.0},
        ),
        Experiment("rotated", "", "Codes turned in pairs", "degrees", (0, 15, 30, 45), _rotated, _explicit, 0),
        Experiment(
            "categories",
            "",
            "Categorical factors",
            "values",
            (2, 4, 8, 16),
            _categories,
            _always_perfect,
            categorical=True,
        ),
        Experiment(
            "correlated",
            "",
            "Correlated factors",
            "correlation",
            (0.0, 0.3, 0.6, 0.9),
            _correlated,
            _always_perfect,
            0.0,
        ),
    )
}
