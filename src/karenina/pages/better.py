"""Is one model better than another? What a page says of it comes from a comparison on the same rows."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from karenina.evaluation.scoring import MODELS, NOISE_REGIMES, NOISED, difference
from karenina.pages.contents import Contents

if TYPE_CHECKING:
    from karenina.pages.choice import Choice

METRICS = ("mig", "dci_lasso")  # quick, and of two families
ROWS = 2000
RESAMPLES = 100
SURE = 0.05


def with_comparison(contents: Contents, choice: "Choice", rows: NDArray[np.int64]) -> "Choice":
    """The choice with what labels say of it and of the model next to it, and of the tasks that were measured."""
    sentences = [choice.labels, _next_best(contents, choice, rows), *_tasks(contents, choice, rows)]
    return replace(choice, labels=" ".join(filter(None, sentences)))


def better(
    labels: tuple[str, str],
    first: ArrayLike,
    second: ArrayLike,
    factors: ArrayLike,
    continuous: Any = None,
    seed: int = 0,
) -> str:
    """Whether the codes `first` (n, d) of a model are better than those of another, in a sentence with the numbers.

    Parameters
    ----------
    labels : two names
    first, second : arrays (n, d), (n, e)
        Codes of the same inputs.
    factors : array (n, k)
    continuous, seed
        As in `karenina.score`.

    >>> rng = np.random.default_rng(0)
    >>> v = rng.integers(5, size=(800, 3))
    >>> good, bad = v + 0.1 * rng.normal(size=v.shape), v + 2 * rng.normal(size=v.shape)
    >>> better(("A", "B"), good, bad, v).split(":")[0]
    'On the same 800 inputs A is better than B by mig, dci_lasso informativeness'
    """
    z, other, v = (np.asarray(part)[:ROWS] for part in (first, second, factors))
    found = difference(z, other, v, METRICS, resamples=RESAMPLES, seed=seed, continuous=continuous)
    names = [_name(metric, prop) for metric, prop in zip(found["metric"], found["property"])]
    parts, numbers = [], []
    for verb, kept in (
        ("is better than", (found["p"] <= SURE) & (found["difference"] > 0)),
        ("is worse than", (found["p"] <= SURE) & (found["difference"] < 0)),
    ):
        if kept.any():
            listed = ", ".join(name for name, keep in zip(names, kept) if keep)
            parts.append(f"{verb} {labels[1]} by {listed}")
    if not parts:
        parts = [f"cannot be told from {labels[1]}"]
    for name, row in zip(names, found.itertuples()):
        bounds = f"{row.difference:+z.2f} [{row.low:+z.2f}, {row.high:+z.2f}]"
        numbers.append(f"{name} {row.a:.2f} against {row.b:.2f}, {bounds}, p {row.p:.2f}")
    said = f"On the same {len(z):,} inputs {labels[0]} {' and '.join(parts)}"
    return f"{said}: {'; '.join(numbers)} (random halves of the rows, 95 %)."


def _name(metric: str, prop: str) -> str:
    from karenina.metrics.registry import score_name

    return score_name(metric, prop)


def _next_best(contents: Contents, choice: "Choice", rows: NDArray[np.int64]) -> str:
    """The chosen model beside the one that its criterion places next."""
    from karenina.pages.model import inputs_of

    by = contents.ranked_by
    if not by or not np.isfinite(contents.score(by)[rows]).any():
        by = next(iter(choice.checks), None)
    if by is None or len(rows) < 2:
        return ""
    values, about = contents.score(by)[rows], contents.about.iloc[rows]
    order = [i for i in np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable") if np.isfinite(values[i])]
    others = [i for i in order if about["run"].iloc[i] != choice.best]
    inputs = inputs_of(contents, choice.data) if others and choice.checks else None
    if inputs is None or not inputs.names:
        return ""
    second = about.iloc[others[0]]
    codes = [np.array(contents.codes(str(run))[0][:ROWS]) for run in (choice.best, second["run"])]
    names = (str(about.loc[choice.best, "label"]), f"{second['label']} (next by {by})")
    try:
        return better(names, codes[0], codes[1], inputs.factors[: len(codes[0])], list(inputs.continuous))
    except ValueError as error:  # fewer than 20 rows, say: the page stands without it
        contents.note(f"{names[0]} and {names[1]} were not compared: {error}")
        return ""


def _tasks(contents: Contents, choice: "Choice", rows: NDArray[np.int64]) -> list[str]:
    """Zero-shot inference of the chosen model and what wrong labels do to the order of all, where it was measured."""
    sentences = []
    whole = contents.frame[(contents.frame["factor"] == "") & (contents.frame["data"] == choice.data)]
    own = whole[whole["run"] == choice.best].set_index("metric")["value"]
    errors = [
        f"{own[f'zero_shot_{model}_inside']:.2f} ({model}; {own[f'zero_shot_{model}_outside']:.2f} outside)"
        for model in MODELS
        if f"zero_shot_{model}_inside" in own
    ]
    if errors:
        text = f"In the corner that training left out it predicts factors with NRMSE {' and '.join(errors)}"
        sentences.append(f"{text}; 1 is no better than the mean.")
    wide = whole.pivot_table(index="run", columns="metric", values="value")
    noisy = []
    for metric in NOISED:
        columns = [f"{metric}_noise_{regime}" for regime in NOISE_REGIMES]
        if set(columns) <= set(wide) and len(wide[columns].dropna()) > 2:
            clean, *wrong = wide[columns].dropna().to_numpy().T
            found = [np.corrcoef(clean, other)[0, 1] for other in wrong if np.ptp(clean) > 0 and np.ptp(other) > 0]
            noisy += [f"{metric} {', '.join(f'{value:.2f}' for value in found)}"] if found else []
    if noisy:
        text = "Correlation of scores under wrong labels (three regimes) with those under true ones"
        sentences.append(f"{text}: {'; '.join(noisy)}. UDR and dynamics see no labels.")
    return sentences
