"""What an audit comes to: Table 1 of the review, and its Table 2 with the number and the rule behind every tick."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from karenina.audit.experiments import EXPERIMENTS
from karenina.audit.running import Audit

Row = tuple[str, str, str]
# From an audit and one of its rows to numbers; an empty tuple where the question does not arise.
Measure = Callable[[Audit, Row], tuple[float, ...]]


@dataclass(frozen=True)
class Cell:
    """One answer. tick: None if the rule does not apply, or the numbers could not be had (then they are NaN)."""

    tick: bool | None
    numbers: tuple[float, ...]

    def __str__(self) -> str:
        return self._text(" / ", lambda number: f"{number:.2f}")

    def short(self) -> str:
        """As text, for narrow columns: ✗.83/0."""
        return self._text("/", lambda number: f"{number:.2f}".replace("0.", ".").replace(".00", ""))

    def _text(self, between: str, write: Callable[[float], str]) -> str:
        if not self.numbers:
            return "–"
        if any(math.isnan(number) for number in self.numbers):
            return "?"
        mark = "" if self.tick is None else "✓ " if self.tick else "✗ "
        return mark + between.join(write(round(number, 2) + 0.0) or "0" for number in self.numbers)  # no -0


@dataclass(frozen=True)
class Rule:
    """A column of the table: `text` says in words what `measure` finds and when `passes` gives a tick."""

    title: str
    text: str
    measure: Measure
    passes: Callable[..., bool]

    def cell(self, audit: Audit, row: Row) -> Cell:
        numbers = self.measure(audit, row)
        if not numbers or any(math.isnan(number) for number in numbers):
            return Cell(None, numbers)
        return Cell(bool(self.passes(*(round(number, 4) for number in numbers))), numbers)


def _means(audit: Audit, row: Row, experiment: str) -> Mapping[float | str, float]:
    return audit.curve(*row, experiment)["mean"].to_dict()


def _property(audit: Audit, row: Row) -> tuple[float, ...]:
    """How far the score moves when two factors share each code (5.3), and when a factor has two codes (5.4)."""
    if row[2] not in ("modularity", "compactness", "explicitness"):
        return ()
    mixing, copies = _means(audit, row, "mixing"), _means(audit, row, "redundancy")
    if not mixing or not copies:
        return ()
    return mixing[0.0] - mixing[0.4], mixing[0.0] - copies["twice"]


def _calibration(audit: Audit, row: Row) -> tuple[float, ...]:
    noise = _means(audit, row, "noise")
    return (noise[0.0], noise[1.0]) if noise else ()


def _noise(audit: Audit, row: Row) -> tuple[float, ...]:
    """Explicitness must fall with noise, and with it what is a holistic score."""
    noise = _means(audit, row, "noise")
    return (noise[0.0] - noise[0.4],) if noise and row[2] not in ("explicitness", "holistic") else ()


def _largest_change(experiment: str) -> Measure:
    """The largest change, up or down, from the experiment's neutral value, or from its first."""

    def measure(audit: Audit, row: Row) -> tuple[float, ...]:
        means = _means(audit, row, experiment)
        if not means:
            return ()
        of = EXPERIMENTS[experiment]
        first = means[of.values[0] if of.neutral is None else of.neutral]
        return (float(np.max([abs(value - first) for value in means.values()])),)

    return measure


def _names(audit: Audit, row: Row) -> tuple[float, ...]:
    """The largest fall below the score of perfect codes."""
    names, noise = _means(audit, row, "categories"), _means(audit, row, "noise")
    return (float(np.max([noise[0.0] - value for value in names.values()])),) if names and noise else ()


def _sampling_error(audit: Audit, row: Row) -> tuple[float, ...]:
    """Mean absolute difference between the score of a hundredth of the rows and of all."""
    if "samples" not in audit.about["experiments"]:
        return ()
    return (float(sampling_errors(audit, row).get(0.01, math.nan)),)


def sampling_errors(audit: Audit, row: Row) -> pd.Series:
    """Figure 9: for each share of the rows the mean over seeds of |score - score of all rows|."""
    f = audit.frame
    mine = (f.protocol == row[0]) & (f.metric == row[1]) & (f.property == row[2]) & (f.experiment == "samples")
    by_seed = f[mine].pivot(index="seed", columns="value", values="score")
    if 1.0 not in by_seed or len(by_seed) < audit.about["seeds"]:
        return pd.Series(dtype=float)
    return by_seed.sub(by_seed[1.0], axis=0).abs().mean(axis=0, skipna=False)


def _bins(audit: Audit, row: Row) -> tuple[float, ...]:
    return (float(audit.bins[row[0], row[1]]),)


def _measures_its_property(prop: str, mixed: float, doubled: float) -> bool:
    if prop == "modularity":
        return mixed >= 0.2 and abs(doubled) <= 0.1
    if prop == "compactness":
        return mixed >= 0.2 and doubled >= 0.2
    return abs(mixed) <= 0.1 and abs(doubled) <= 0.1


RULES = (
    Rule(
        "calibrated",
        "5.2: at least 0.95 for perfect codes and at most 0.1 for noise. Numbers: both scores.",
        _calibration,
        lambda perfect, noise: perfect >= 0.95 and noise <= 0.1,
    ),
    Rule(
        "robust to noise",
        "5.2: loses at most 0.1 when 40 % of a code is noise. Not asked of explicitness and holistic scores, which "
        "should fall. Number: what is lost.",
        _noise,
        lambda lost: lost <= 0.1,
    ),
    Rule(
        "unmeasured factors",
        "5.6: changes by at most 0.1 when fewer of the 8 factors are measured. Number: the largest change.",
        _largest_change("measured"),
        lambda change: change <= 0.1,
    ),
    Rule(
        "non-linear",
        "5.5: changes by at most 0.1 when codes are bent by a tangent. Number: the largest change.",
        _largest_change("nonlinear"),
        lambda change: change <= 0.1,
    ),
    Rule(
        "no bins",
        "Has no parameter that cuts codes or factors into bins (read off the function). Number: 1 if it has.",
        _bins,
        lambda cut: not cut,
    ),
    Rule(
        "data efficient",
        "5.7: with a hundredth of the rows (1,000 of 100,000) the score is off by at most 0.05 on average. Number: how "
        "far off.",
        _sampling_error,
        lambda error: error <= 0.05,
    ),
    Rule(
        "scale invariant",
        "Changes by at most 0.02 when all codes are multiplied by 0.01 or 100. Number: the largest change.",
        _largest_change("scale"),
        lambda change: change <= 0.02,
    ),
    Rule(
        "outlier",
        "Changes by at most 0.1 when one entry of each code is 10 or 1,000 ranges away. Number: the largest change.",
        _largest_change("outlier"),
        lambda change: change <= 0.1,
    ),
    Rule(
        "dead codes",
        "Changes by at most 0.1 when 4 or 16 codes are added that hardly move. Number: the largest change.",
        _largest_change("dead"),
        lambda change: change <= 0.1,
    ),
    Rule(
        "names",
        "Factors are names in no order, each code tells one of them: at most 0.1 below its score for perfect codes. "
        "Number: the largest fall.",
        _names,
        lambda change: change <= 0.1,
    ),
    Rule(
        "correlated",
        "Codes are perfect, factors come in pairs of correlation up to 0.9: changes by at most 0.1. Number: the "
        "largest change.",
        _largest_change("correlated"),
        lambda change: change <= 0.1,
    ),
)

# Modularity, compactness and explicitness each have their own right answer, so that this rule needs the property.
PROPERTY = (
    "measures it",
    "5.3 and 5.4: modularity falls by 0.2 or more when two factors share a code (weight 0.4) and holds within 0.1 when "
    "a factor has two codes; compactness falls by 0.2 or more in both; explicitness holds within 0.1 in both. Numbers: "
    "what is lost in each.",
)


def characteristics(audit: Audit) -> dict[Row, dict[str, Cell]]:
    """Table 2 of the review, computed: for each row of the audit an answer to each rule, by title."""
    table = {}
    for row in audit.rows:
        numbers = _property(audit, row)
        known = bool(numbers) and not any(map(math.isnan, numbers))
        tick = _measures_its_property(row[2], *(round(x, 4) for x in numbers)) if known else None
        cells = {PROPERTY[0]: Cell(tick, numbers)}
        table[row] = cells | {rule.title: rule.cell(audit, row) for rule in RULES}
    return table


def rules() -> dict[str, str]:
    """Each column of `characteristics` with the rule that decides its ticks."""
    return {PROPERTY[0]: PROPERTY[1]} | {rule.title: rule.text for rule in RULES}


def table_1(audit: Audit) -> pd.DataFrame:
    """Table 1 of the review: mean scores of codes that are modular but not compact, one line per score."""
    cases = EXPERIMENTS["redundancy"].values
    lines = {row: audit.curve(*row, "redundancy")["mean"].reindex(cases).to_numpy() for row in audit.rows}
    index = pd.MultiIndex.from_tuples(lines, names=["protocol", "metric", "property"])
    return pd.DataFrame(np.array(list(lines.values())).reshape(-1, len(cases)), index=index, columns=list(cases))
