"""Tables 1 and 2 of Carbonneau et al. (2022), computed: the number and the rule behind every tick."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from karenina.audit.experiments import EXPERIMENTS
from karenina.audit.running import Audit, ScoreKey

Numbers = tuple[float, ...]
# A metric that gives perfect codes less than this cannot lose what the rules ask about.
_NEGLIGIBLE = 0.05


@dataclass(frozen=True)
class Cell:
    """The answer of a rule. tick: None if the rule decides nothing. numbers: empty if the rule does not apply or the
    experiment was not run, NaN where a score could not be had.
    """

    tick: bool | None
    numbers: Numbers

    def __str__(self) -> str:
        return self._text(" / ", lambda number: f"{number:.2f}")

    def short(self) -> str:
        """Return the answer as text for narrow columns: ✗ .83/0."""
        return self._text("/", lambda number: f"{number:.2f}".removesuffix(".00").replace("0.", ".", number < 1))

    def _text(self, between: str, write: Callable[[float], str]) -> str:
        if not self.numbers:
            return "–"
        mark = "" if self.tick is None else "✓ " if self.tick else "✗ "
        if any(map(math.isnan, self.numbers)):
            return mark + "no score" if mark else "?"
        return mark + between.join(write(round(number, 2) + 0.0) for number in self.numbers)  # no -0


@dataclass(frozen=True)
class Rule:
    """A column of the table: `text` says in words what `measure` finds of one score, and when `passes` gives a tick for
    a property and these numbers."""

    title: str
    text: str
    measure: Callable[[Audit, ScoreKey], Numbers]
    passes: Callable[..., bool | None]

    def cell(self, audit: Audit, key: ScoreKey) -> Cell:
        numbers = self.measure(audit, key)
        return Cell(self.passes(key.property, *(round(number, 4) for number in numbers)) if numbers else None, numbers)


def _at_most(limit: float) -> Callable[..., bool | None]:
    """Return a test that each number is at most `limit`, up or down."""
    return lambda prop, *numbers: None if any(map(math.isnan, numbers)) else max(map(abs, numbers)) <= limit


def _means(audit: Audit, key: ScoreKey, experiment: str) -> Mapping[float | str, float]:
    return audit.curve(*key, experiment)["mean"].to_dict()


def _perfect(audit: Audit, key: ScoreKey) -> float | None:
    """Return the score of perfect codes, from any experiment that has them; None if none has."""
    for name in audit.about["experiments"]:
        neutral = EXPERIMENTS[name].neutral
        if neutral is not None:
            return _means(audit, key, name)[neutral]
    return None


def _share(audit: Audit, key: ScoreKey, first: float, *changes: float) -> Numbers:
    """Return changes as shares of the score of perfect codes, or of `first` if that was not measured; none where it is
    near 0."""
    perfect = _perfect(audit, key)
    perfect = first if perfect is None else perfect
    return () if perfect < _NEGLIGIBLE else tuple(change / perfect for change in changes)


def _property(audit: Audit, key: ScoreKey) -> Numbers:
    mixing, copies = _means(audit, key, "mixing"), _means(audit, key, "redundancy")
    noise = _means(audit, key, "noise")
    if key.property not in ("modularity", "compactness", "explicitness") or not mixing or not copies or not noise:
        return ()
    lost = [mixing[0.0] - mixing[0.4], mixing[0.0] - copies["twice"]]
    return _share(audit, key, noise[0.0], *lost, *([noise[0.0] - noise[1.0]] if key.property == "explicitness" else []))


def _measures_it(prop: str, mixed: float, doubled: float, noisy: float = 1.0) -> bool | None:
    if any(map(math.isnan, (mixed, doubled, noisy))):
        return None
    if prop == "modularity":
        return mixed >= 0.2 and abs(doubled) <= 0.1
    if prop == "compactness":
        return mixed >= 0.2 and doubled >= 0.2
    return abs(mixed) <= 0.1 and abs(doubled) <= 0.1 and noisy >= 0.2


def _calibration(audit: Audit, key: ScoreKey) -> Numbers:
    noise = _means(audit, key, "noise")
    return (noise[0.0], noise[1.0]) if noise else ()


def _calibrated(prop: str, perfect: float, noise: float) -> bool | None:
    return None if math.isnan(perfect + noise) else perfect >= 0.95 and noise <= 0.1


def _noise(audit: Audit, key: ScoreKey) -> Numbers:
    noise = _means(audit, key, "noise")
    if not noise or key.property in ("explicitness", "holistic"):
        return ()
    return _share(audit, key, noise[0.0], noise[0.0] - noise[0.4])


def _largest_change(*experiments: str) -> Callable[[Audit, ScoreKey], Numbers]:
    """Return a function that measures the largest change of a score in each experiment, up or down, from its neutral
    value, or from its first value."""

    def measure(audit: Audit, key: ScoreKey) -> Numbers:
        return tuple(number for experiment in experiments for number in change(audit, key, experiment))

    def change(audit: Audit, key: ScoreKey, experiment: str) -> Numbers:
        means = _means(audit, key, experiment)
        if not means:
            return ()
        of = EXPERIMENTS[experiment]
        first = means[of.values[0] if of.neutral is None else of.neutral]
        return _share(audit, key, first, float(np.max([abs(value - first) for value in means.values()])))

    return measure


def _categories(audit: Audit, key: ScoreKey) -> Numbers:
    """Return the largest fall below the score of perfect codes."""
    means, perfect = _means(audit, key, "categories"), _perfect(audit, key)
    if not means or perfect is None:
        return ()
    return _share(audit, key, perfect, float(np.max([perfect - value for value in means.values()])))


def _sampling_error(audit: Audit, key: ScoreKey) -> Numbers:
    if "samples" not in audit.about["experiments"]:
        return ()
    errors = sampling_errors(audit, key)
    # Not yet measured, or no score of the whole sample either: nothing can be said.
    unknown = 0.01 not in errors or math.isnan(errors[1.0])
    return (math.nan, math.nan) if unknown else (float(errors[0.01]),)


def _data_efficient(prop: str, error: float, unknown: float = 0.0) -> bool | None:
    """Return whether the error is small. No score at all from a hundredth of the rows, where there is one from all, is
    a failure, too.
    """
    return None if math.isnan(unknown) else error <= 0.05


def sampling_errors(audit: Audit, key: ScoreKey) -> "pd.Series[float]":
    """Return for each share of the rows the mean over seeds of |score - score of all rows|, as Figure 9 of Carbonneau
    et al.

    Shares that the run has not come to are left out.
    """
    f = audit.frame
    mine = (
        (f.protocol == key.protocol)
        & (f.metric == key.metric)
        & (f.property == key.property)
        & (f.experiment == "samples")
    )
    measured = f[mine].groupby("value").size() == audit.seeds[f"{key.protocol}/{key.metric}"]
    by_seed = f[mine].pivot(index="seed", columns="value", values="score").loc[:, measured[measured].index]
    if 1.0 not in by_seed:
        return pd.Series(dtype=float)
    return by_seed.sub(by_seed[1.0], axis=0).abs().mean(axis=0, skipna=False)


def _bins(audit: Audit, key: ScoreKey) -> Numbers:
    uses_bins = audit.about["bins"][f"{key.protocol}/{key.metric}"]
    return () if uses_bins is None else (float(uses_bins),)


_OF_PERFECT = "of its score for perfect codes"
RULES = (
    Rule(
        "measures it",
        "5.3 and 5.4: modularity falls by 20 % or more when two factors share a code (weight 0.4) and holds within "
        "10 % when a factor has two codes; compactness falls by 20 % or more in both; explicitness holds within 10 % "
        "in both and falls by 20 % or more when all is noise (5.2). Numbers: what is lost in each.",
        _property,
        _measures_it,
    ),
    Rule(
        "calibrated",
        "5.2: at least 0.95 for perfect codes and at most 0.1 for noise. Numbers: both scores.",
        _calibration,
        _calibrated,
    ),
    Rule(
        "robust to noise",
        f"5.2: changes by at most 10 % {_OF_PERFECT} when 40 % of a code is noise. Not asked of explicitness and "
        "holistic scores, which should fall. Number: what is lost.",
        _noise,
        _at_most(0.1),
    ),
    Rule(
        "unmeasured factors",
        f"5.6: changes by at most 10 % {_OF_PERFECT} when fewer of the 8 factors are measured. Number: the largest "
        "change.",
        _largest_change("measured"),
        _at_most(0.1),
    ),
    Rule(
        "non-linear",
        f"5.5: changes by at most 10 % {_OF_PERFECT} when codes are bent by a tangent. Number: the largest change.",
        _largest_change("nonlinear"),
        _at_most(0.1),
    ),
    Rule(
        "no bins",
        "Has no parameter that cuts codes or factors into bins, read off the function. Number: 1 if it has.",
        _bins,
        lambda prop, uses_bins: not uses_bins,
    ),
    Rule(
        "data efficient",
        "5.7: with a hundredth of the rows the score is off by at most 0.05 on average (at the default size 1,000 of "
        "100,000; of 20,000 for trees). Number: how far off.",
        _sampling_error,
        _data_efficient,
    ),
    Rule(
        "scale invariant",
        f"Changes by at most 2 % {_OF_PERFECT} when all codes are multiplied by 0.01 or 100, or the noisy half of them "
        "by 100. Number: the largest change.",
        _largest_change("scale"),
        _at_most(0.02),
    ),
    Rule(
        "outlier",
        f"Changes by at most 10 % {_OF_PERFECT} when one entry of each code is 10 or 1,000 ranges away. Number: the "
        "largest change.",
        _largest_change("outlier"),
        _at_most(0.1),
    ),
    Rule(
        "one outlier",
        f"Changes by at most 10 % {_OF_PERFECT} when one entry of one code is 10 or 1,000 ranges away. Number: the "
        "largest change.",
        _largest_change("one_outlier"),
        _at_most(0.1),
    ),
    Rule(
        "noise codes",
        f"Changes by at most 10 % {_OF_PERFECT} when as many codes of noise are added, of 2, 10 or 100 values. Number: "
        "the largest change.",
        _largest_change("noise_codes"),
        _at_most(0.1),
    ),
    Rule(
        "inactive codes",
        f"Changes by at most 10 % {_OF_PERFECT} when 4 or 16 codes are added that hardly move, to perfect codes and to "
        "codes that hold all factors alike. Numbers: the largest change in each.",
        _largest_change("dead", "dead_mixed"),
        _at_most(0.1),
    ),
    Rule(
        "categorical",
        f"Factors are categorical, each code tells one of them: falls by at most 10 % {_OF_PERFECT}. Number: the "
        "largest fall.",
        _categories,
        lambda prop, fall: None if math.isnan(fall) else fall <= 0.1,
    ),
    Rule(
        "correlated",
        f"Codes are perfect, factors come in pairs of correlation up to 0.9: changes by at most 10 % {_OF_PERFECT}. "
        "Number: the largest change.",
        _largest_change("correlated"),
        _at_most(0.1),
    ),
    Rule(
        "rotated",
        "Pairs of codes turned by up to 45 degrees: nothing is lost, but no code stands for a factor any more. No "
        "tick: whether that should count is a matter of taste. Number: the largest change.",
        _largest_change("rotated"),
        lambda prop, change: None,
    ),
)


def characteristics(audit: Audit) -> dict[ScoreKey, dict[str, Cell]]:
    """Return Table 2 of Carbonneau et al. (2022), computed: for each score of the audit an answer to each rule, by
    title.
    """
    return {key: {rule.title: rule.cell(audit, key) for rule in RULES} for key in audit.keys}


def rules() -> dict[str, str]:
    """Return each column of `characteristics` with the rule that decides its ticks."""
    return {rule.title: rule.text for rule in RULES}


def table_1(audit: Audit) -> pd.DataFrame:
    """Return Table 1 of Carbonneau et al. (2022): mean scores of codes that are modular but not compact, a line per
    score.
    """
    cases = EXPERIMENTS["redundancy"].values
    lines = {key: audit.curve(*key, "redundancy")["mean"].reindex(cases).to_numpy() for key in audit.keys}
    index = pd.MultiIndex.from_tuples(lines, names=["protocol", "metric", "property"])
    return pd.DataFrame(np.array(list(lines.values())).reshape(-1, len(cases)), index=index, columns=list(cases))
