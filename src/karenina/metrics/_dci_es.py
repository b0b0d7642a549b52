"""DCI-ES: how large a predictor must be to read the factors (explicitness E), and how large the code is (size S)."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from karenina.metrics._dci import dci_from_importance
from karenina.metrics._inputs import Bools, Continuous, Floats, Inputs, Ints, Test, mean_of_known, metric, split
from karenina.numerics.arrays import range_unit, scale_of
from karenina.numerics.checks import one_of, positive_integer

CAPACITIES = (16, 32, 64, 128, 256, 512)
# Of the frequencies of the features, divided by sqrt(d): small, so that few features already hold every linear map.
GAIN = 0.5
_RIDGE = 1e-10  # of the mean square of a feature: against rounding only
_TRAINED = 10_000  # rows at most
_SHAPLEY_ROWS = 1_000

Lowest = Literal["zero", "reached"]


@dataclass(frozen=True, eq=False)
class DCIES:
    """Five properties, kept apart. `float(result)` and `.value` are the explicitness E.

    Attributes
    ----------
    disentanglement, completeness, informativeness, explicitness, size : float
        D, C, I, E and S.
    importance : (d, k)
        `.matrix` is its transpose (k, d).
    per_code : (d,)
        D of each code.
    per_factor, per_factor_informativeness : (k,)
        E and I of each factor. `per_factor` is E, unlike in `DCI`, where it is completeness.
    curves : (capacities, k)
        Loss of each factor at each capacity: 1 - R2 of a continuous factor, the error rate of a categorical one on
        the values that training rows have.
    details : capacities (c,), baseline (k,), completeness (k,)
    """

    disentanglement: float
    completeness: float
    informativeness: float
    explicitness: float
    size: float
    importance: Floats
    per_code: Floats
    per_factor: Floats
    per_factor_informativeness: Floats
    curves: Floats
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        return self.explicitness

    @property
    def matrix(self) -> Floats:
        return self.importance.T

    @property
    def by_property(self) -> Mapping[str, Floats | None]:
        """Property -> its values per factor (k,)."""
        return {
            "compactness": self.details.get("completeness"),
            "explicitness": self.per_factor_informativeness,
            "ease of use": self.per_factor,
        }

    def __float__(self) -> float:
        return self.explicitness


@metric
def dci_es(
    inputs: Inputs,
    *,
    capacities: Sequence[int] = CAPACITIES,
    lowest: Lowest = "zero",
    orderings: int = 8,
    test_fraction: float = 1 / 3,
    rows: int | None = None,
    test: Test = None,
    continuous: Continuous = None,
    seed: int = 0,
) -> DCIES:
    """Predict factors by ever larger probes: E is high when small ones do as well as large ones.

    A probe of capacity c is a linear read-out of c random Fourier features of all codes. With the smallest loss l_c
    that a probe of capacity c or less, or a guess, has on rows it was not fitted on, the guess's l_b, and x = log c,

        E_j = 1 - 2 area(l_c - min l_c) / ((x_max - x_min) (l_b - l*)),

    1 when the smallest probe is the best, 0 when the loss falls along a straight line from the baseline to 0, and -1 at
    worst; E is the mean over factors. S = factors / codes. D, C and I are those of DCI for the best probe of each
    factor, whose importances are Shapley values of its loss over codes that are replaced by those of other rows.
    Eastwood et al. (2023), as released for l* = 0.

    Parameters
    ----------
    codes : (n, d)
    factors : (n, k)
    capacities : numbers of features
        Those above half of the training rows are left out.
    lowest : {"zero", "reached"}
        l*: 0, as in their experiments, or the smallest loss of the largest probes.
    orderings : int
        Of the codes, for the Shapley values; half of them are others turned round.
    test_fraction, rows, test, continuous
        As in `dci`.
    seed : int

    Returns
    -------
    DCIES

    Notes
    -----
    E is about how the information that is there can be used, not about how much there is: noise, of which chance tells
    a little, has a flat curve and E near 1. Read it beside I. A factor that no probe tells better than a guess has E =
    0, as with constant codes. E depends on the family of probes. The release counts the weights of a probe, which are
    those of c features and an intercept, so that its x differs from ours by next to a constant; it takes D and C from
    the one probe that is best for all factors together. 10,000 x 10 codes and dSprites factors take 3 s.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.uniform(-1, 1, size=(600, 2))
    >>> waves = np.column_stack([v[:, 0], np.sin(7 * v[:, 1])])
    >>> easy, hard = dci_es(v, v), dci_es(v, waves)
    >>> round(easy.explicitness, 1), easy.explicitness > hard.explicitness, easy.size
    (1.0, True, 1.0)
    """
    one_of("lowest", lowest, get_args(Lowest))
    orderings = positive_integer(orderings, "orderings")
    grid = np.unique([positive_integer(capacity, "each of capacities") for capacity in capacities])
    if len(grid) < 2:
        raise ValueError(f"capacities must have two numbers or more, got {list(capacities)}")
    rng = np.random.default_rng(seed)
    inputs, train, held = split(inputs, test_fraction, rows, rng)
    train = train[:_TRAINED]
    small = grid[grid <= max(len(train) // 2, 1)]
    grid = small if len(small) > 1 else grid[:2]
    targets = _targets(inputs, train, held)
    offset, unit = scale_of(inputs.codes[train], "standard")
    z = (inputs.codes - offset) / unit
    probes = Probes.fit(z[train], [target.numbers for target in targets], grid, rng)
    curves = probes.losses(z[held], targets)
    baseline = np.array([target.baseline for target in targets])
    best = np.minimum.accumulate(np.minimum(curves, baseline), axis=0)
    x = np.log(grid)
    floor = best[-1]
    area = (((best[:-1] + best[1:]) / 2 - floor) * np.diff(x)[:, None]).sum(axis=0)
    whole = (x[-1] - x[0]) * (baseline - (0.0 if lowest == "zero" else floor)) / 2
    told = np.divide(baseline - floor, baseline, out=np.zeros_like(floor), where=baseline > 0)
    explicit = np.where(told > 0, 1 - np.divide(area, whole, out=np.zeros_like(area), where=whole > 0), 0.0)
    unknown = np.isnan(baseline)
    explicit[unknown] = np.nan
    informative = np.where(inputs.continuous, told, 1 - floor)
    chosen = np.where(told > 0, curves.argmin(axis=0), -1)
    importance = probes.shapley(z[held[:_SHAPLEY_ROWS]], targets, chosen, inputs.live, orderings, rng)
    parts = dci_from_importance(importance)
    if unknown.any():
        which = ", ".join(name for name, gone in zip(inputs.names, unknown) if gone)
        warnings.warn(f"no explicitness of {which}: training and test rows share none of its values", stacklevel=3)
    return DCIES(
        disentanglement=parts.disentanglement,
        completeness=parts.completeness,
        informativeness=mean_of_known(informative),
        explicitness=mean_of_known(explicit),
        size=len(inputs.kept) / inputs.codes.shape[1],
        importance=inputs.among_given(importance.T).T,
        per_code=parts.per_code,
        per_factor=inputs.among_given(explicit),
        per_factor_informativeness=inputs.among_given(informative),
        curves=inputs.among_given(curves.T).T,
        details={
            "capacities": grid,
            "baseline": inputs.among_given(baseline),
            "completeness": inputs.among_given(parts.per_factor),
        },
    )


@dataclass(frozen=True, eq=False)
class _Target:
    """A factor: numbers (train, outputs) to fit, one column per value if it is categorical; truth (held,).

    known (held,): whether training rows have the label, too; other rows are not scored. baseline: the loss of a guess,
    NaN if no label is known.
    """

    numbers: Floats
    truth: NDArray[Any]
    known: Bools
    scale: float
    categorical: bool
    baseline: float

    def loss(self, guess: Floats, rows: Ints | slice = slice(None)) -> float:
        """Of outputs (m, outputs) for these of the held rows."""
        truth = self.truth[rows]
        if self.categorical:
            wrong = (guess.argmax(axis=1) != truth)[self.known[rows]]
            return float(wrong.mean()) if len(wrong) else 0.0
        return float(((guess[:, 0] - truth) ** 2).mean()) / self.scale


def _targets(inputs: Inputs, train: Ints, held: Ints) -> list[_Target]:
    found = []
    for j, column in enumerate(inputs.factors.T):
        if inputs.continuous[j]:
            column = column / range_unit(column)
            truth = column[held]
            variance = float(truth.var())
            known, baseline = np.ones(len(truth), bool), 1.0 if variance else 0.0
            found.append(_Target(column[train][:, None], truth, known, variance or 1.0, False, baseline))
        else:
            label = inputs.labels[:, j]
            numbers = np.eye(int(label.max()) + 1)[label[train]]
            guess = int(numbers.sum(axis=0).argmax())
            known = np.isin(label[held], label[train])
            baseline = float((label[held] != guess)[known].mean()) if known.any() else float("nan")
            found.append(_Target(numbers, label[held], known, 1.0, True, baseline))
    return found


@dataclass(frozen=True, eq=False)
class Probes:
    """Read-outs of the first c of the features cos(z W + b), for each capacity c.

    W (d, C), b (C,). weights: for each capacity the read-outs (c + 1, outputs) of all factors side by side, the
    intercept last; `columns` are those of each factor.
    """

    frequency: Floats
    phase: Floats
    weights: list[Floats]
    columns: list[slice]

    @classmethod
    def fit(cls, z: Floats, numbers: list[Floats], grid: Ints, rng: np.random.Generator) -> "Probes":
        d, most = z.shape[1], int(grid[-1])
        frequency = rng.normal(scale=GAIN / np.sqrt(d), size=(d, most))
        phase = rng.uniform(0, 2 * np.pi, size=most)
        features = np.cos(z @ frequency + phase)
        mean, y = features.mean(axis=0), np.hstack(numbers)
        features -= mean
        gram, with_y = features.T @ features, features.T @ (y - y.mean(axis=0))
        gram[np.diag_indices(most)] += _RIDGE * len(z)
        weights = []
        for c in grid:
            # The first c features of all: one product of the columns serves every capacity.
            read = np.linalg.solve(gram[:c, :c], with_y[:c])
            weights.append(np.vstack([read, y.mean(axis=0) - mean[:c] @ read]))
        ends = np.cumsum([0, *(part.shape[1] for part in numbers)])
        return cls(frequency, phase, weights, [slice(a, b) for a, b in pairwise(ends.tolist())])

    def losses(self, z: Floats, targets: list[_Target]) -> Floats:
        """(capacities, k) on held rows z."""
        features = np.cos(z @ self.frequency + self.phase)
        found = np.empty((len(self.weights), len(targets)))
        for i, weights in enumerate(self.weights):
            guess = features[:, : len(weights) - 1] @ weights[:-1] + weights[-1]
            found[i] = [target.loss(guess[:, own]) for target, own in zip(targets, self.columns)]
        return found

    def shapley(
        self, z: Floats, targets: list[_Target], chosen: Ints, live: Any, orderings: int, rng: np.random.Generator
    ) -> Floats:
        """How much each code lowers the loss of each factor's chosen probe, (d, k): the mean over orderings in which
        codes come to be known, those that are not yet known being replaced by those of other rows.

        chosen (k,): which capacity; -1 for a factor of which nothing is known.
        """
        d, k = z.shape[1], len(targets)
        importance = np.zeros((d, k))
        codes, known = np.flatnonzero(live), np.flatnonzero(chosen >= 0)
        if not len(codes) or not len(known):
            return importance
        most = max(len(self.weights[chosen[j]]) for j in known) - 1
        read = np.zeros((most + 1, self.weights[0].shape[1]))
        for j in known:
            own = self.weights[chosen[j]][:, self.columns[j]]
            read[: len(own) - 1, self.columns[j]] = own[:-1]
            read[-1, self.columns[j]] = own[-1]
        rows = slice(0, len(z))

        def losses(projected: Floats) -> Floats:
            guess = np.cos(projected) @ read[:-1] + read[-1]
            return np.array([targets[j].loss(guess[:, self.columns[j]], rows) for j in known])

        order = rng.permutation(codes)
        for turn in range(orderings):
            order = order[::-1] if turn % 2 else rng.permutation(codes)
            other = z[rng.permutation(len(z))]
            projected = other @ self.frequency[:, :most] + self.phase[:most]
            before = losses(projected)
            for code in order:
                projected += np.outer(z[:, code] - other[:, code], self.frequency[code, :most])
                after = losses(projected)
                importance[code, known] += before - after
                before = after
        return np.maximum(importance / orderings, 0.0)
