"""CPU time and scores of the sampling and predictor metrics beside a plain scikit-learn implementation, in one run.

    python benchmarks/metrics_predictors.py [--full]

Both sides use one thread and are measured by process time, ours after a first call that loads compiled code. The plain
implementations loop over points, pairs, factors, folds and settings, as released code does. Where they take minutes, a
stated part is timed and scaled up; --full times all of it. Score: the largest difference of the compared numbers.
"""

import argparse
import sys
import time
import warnings
from functools import partial

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LassoCV, LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits
from timing import cpu_seconds

from karenina.metrics._dci import dci, dci_from_importance
from karenina.metrics._explicitness import explicitness
from karenina.metrics.interventions import z_diff, z_max_variance, z_min_variance

DEPTHS = (2, 4, 8, 16, 32)
GOALS = {
    "z_diff": 10,
    "z_min_variance": 3,
    "z_max_variance": 10,
    "explicitness": 3,
    "  multinomial": 1,
    "dci lasso": 100,
    "dci forest": 10,
    "dci boosted": 15,
}


def dsprites(n=10_000, seed=0):
    """Ten codes: the five factors standardised with noise, and five that carry little."""
    rng = np.random.default_rng(seed)
    v = np.column_stack([rng.integers(size, size=n) for size in (3, 6, 40, 32, 32)])
    z = (v - v.mean(axis=0)) / v.std(axis=0) + 0.1 * rng.normal(size=v.shape)
    return np.column_stack([z, z @ rng.normal(size=(5, 5)) * 0.2 + rng.normal(size=v.shape)]), v


def ten_bins(n=20_000, seed=0):
    """Eight codes that each mix a little of the next factor in, and eight factors of ten values."""
    rng = np.random.default_rng(seed)
    v = rng.integers(10, size=(n, 8))
    return (0.9 * v + 0.1 * np.roll(v, 1, axis=1)) / 10 + 0.05 * rng.normal(size=v.shape), v


def plain_z_diff(z, v, batch=64, train=10_000, evaluate=5_000):
    rng = np.random.default_rng(0)
    groups = [[np.flatnonzero(column == value) for value in np.unique(column)] for column in v.T]
    features, labels = np.empty((train + evaluate, z.shape[1])), np.empty(train + evaluate, int)
    for point in range(train + evaluate):
        labels[point] = i = rng.integers(v.shape[1])
        one, two = np.empty(batch, int), np.empty(batch, int)
        for pair in range(batch):
            group = groups[i][rng.integers(len(groups[i]))]
            one[pair], two[pair] = group[rng.integers(len(group))], group[rng.integers(len(group))]
        features[point] = np.abs(z[one] - z[two]).mean(axis=0)
    model = LogisticRegression(max_iter=1000).fit(features[:train], labels[:train])
    return model.score(features[train:], labels[train:])


def plain_votes(z, v, largest, batch=64, train=10_000, evaluate=5_000):
    rng = np.random.default_rng(0)
    spread = z.var(axis=0, ddof=1)
    k = v.shape[1]
    groups = []
    for i in range(k):
        table = {}
        for row, key in enumerate(map(tuple, np.delete(v, i, axis=1)) if largest else v[:, i].tolist()):
            table.setdefault(key, []).append(row)
        groups.append([np.array(rows) for rows in table.values() if len(rows) > 1])
    votes = np.zeros((2, z.shape[1], k), int)
    for point in range(train + evaluate):
        i = rng.integers(k)
        group = groups[i][rng.integers(len(groups[i]))]
        local = z[rng.choice(group, batch)].var(axis=0, ddof=1) / spread
        votes[int(point >= train), local.argmax() if largest else local.argmin(), i] += 1
    chosen = votes[0].argmax(axis=1)
    return votes[1][np.arange(z.shape[1]), chosen].sum() / evaluate


def plain_explicitness(z, v, held, truth, multinomial=False):
    mean, deviation = z.mean(axis=0), z.std(axis=0)
    x, x_held = (z - mean) / deviation, (held - mean) / deviation
    scores = []
    for y, y_held in zip(v.T, truth.T):
        classes = np.unique(y)
        if multinomial:
            p = LogisticRegression().fit(x, y).predict_proba(x_held)
        else:
            models = [LogisticRegression(class_weight="balanced").fit(x, y == c) for c in classes]
            p = np.column_stack([model.predict_proba(x_held)[:, 1] for model in models])
            p /= p.sum(axis=1, keepdims=True)
        scores.append(np.mean([roc_auc_score(y_held == c, p[:, i]) for i, c in enumerate(classes)]))
    return float(np.mean(scores))


def plain_lasso(z, v):
    x, y = (z - z.mean(axis=0)) / z.std(axis=0), (v - v.mean(axis=0)) / v.std(axis=0)
    weights = [LassoCV(cv=10).fit(x, column).coef_ for column in y.T]
    return dci_from_importance(np.abs(weights).T)


def plain_forest(z, y, share, folds=10):
    """Seconds to choose the depth of one factor's forest by cross-validation. share: how many of the folds to run."""
    start = time.process_time()
    for left in np.array_split(np.arange(len(z)), folds)[:share]:
        kept = np.delete(np.arange(len(z)), left)
        for depth in DEPTHS:
            forest_of(depth, z[kept], y[kept]).score(z[left], y[left])
    return (time.process_time() - start) * folds / share


def forest_of(depth, z, y):
    return RandomForestClassifier(10, max_depth=depth, max_features=1.0, random_state=0).fit(z, y)


def compare_forest(z, v, depths, full):
    """Two folds of ten are timed unless --full. The last fits have the depths that ours chose, to compare scores."""
    train = np.random.default_rng(0).permutation(len(z))[round(len(z) / 3) :]
    seconds = sum(plain_forest(z[train], y, 10 if full else 2) for y in v[train].T)
    last, models = cpu_seconds(lambda: [forest_of(int(h), z[train], y) for h, y in zip(depths, v[train].T)])
    return seconds + last, dci_from_importance(np.column_stack([model.feature_importances_ for model in models]))


def compare_boosted(z, v, full):
    """All rounds of the factor with fewest classes and 3 rounds of the others are timed unless --full.

    The importances are then compared for that factor alone.
    """
    train = np.random.default_rng(0).permutation(len(z))[round(len(z) / 3) :]
    smallest = int(np.argmin(v.max(axis=0)))
    seconds, importances = 0.0, {}
    for j, y in enumerate(v[train].T):
        rounds = 100 if full or j == smallest else 3
        model = GradientBoostingClassifier(n_estimators=rounds, random_state=0)
        spent, _ = cpu_seconds(lambda model=model, y=y: model.fit(z[train], y))
        seconds += spent * 100 / rounds
        if rounds == 100:
            importances[j] = model.feature_importances_
    return seconds, importances


def line(name, plain, ours, difference, note=""):
    ratio = plain / ours
    verdict = "" if ratio >= GOALS[name] else "  BELOW"
    print(
        f"{name:16} {plain:10.3f} {ours:9.4f} {ratio:8.1f} {GOALS[name]:6} {difference:9.4f}{verdict}  {note}",
        flush=True,
    )
    return ratio >= GOALS[name]


def compare(title, z, v, full):
    print(f"\n{title}\n{'metric':16} {'plain s':>10} {'ours s':>9} {'ratio':>8} {'goal':>6} {'score':>9}")
    good, together = [], 0.0
    samplers = {
        "z_diff": (z_diff, lambda: plain_z_diff(z, v), {"standardise": False}),
        "z_min_variance": (z_min_variance, lambda: plain_votes(z, v, False), {}),
        "z_max_variance": (z_max_variance, lambda: plain_votes(z, v, True), {}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (ours, plain, options) in samplers.items():
            ours(z, v, train=10, evaluate=10, **options)
            slow, theirs = cpu_seconds(plain)
            fast, result = cpu_seconds(partial(ours, z, v, **options))
            good.append(line(name, slow, fast, abs(float(result) - theirs)))
            together += fast
        order = np.random.default_rng(0).permutation(len(z))
        held, kept = order[: len(z) // 3], order[len(z) // 3 :]
        tests = {"test": (z[held], v[held])}
        for name, options in {
            "explicitness": {},
            "  multinomial": {"classifier": "multinomial", "balanced": False},
        }.items():
            slow, theirs = cpu_seconds(partial(plain_explicitness, z[kept], v[kept], z[held], v[held], bool(options)))
            fast, result = cpu_seconds(partial(explicitness, z[kept], v[kept], **tests, **options))
            good.append(line(name, slow, fast, abs(float(result) - theirs)))
            together += fast
        dci(z[:100], v[:100])
        slow, theirs = cpu_seconds(lambda: plain_lasso(z[kept], v[kept]))
        fast, result = cpu_seconds(lambda: dci(z, v))
        good.append(line("dci lasso", slow, fast, gap(result, theirs)))
        together += fast
        for model in ("forest", "boosted"):
            dci(z[:100], v[:100], model=model)
        fast, result = cpu_seconds(lambda: dci(z, v, model="forest"))
        slow, theirs = compare_forest(z, v, result.details["depth"], full)
        note = "all folds" if full else "plain: 2 of 10 folds timed"
        good.append(line("dci forest", slow, fast, gap(result, theirs), note))
        slow, importances = compare_boosted(z, v, full)
        fast, result = cpu_seconds(lambda: dci(z, v, model="boosted"))
        if full:
            difference = gap(result, dci_from_importance(np.column_stack(list(importances.values()))))
            note = "all rounds"
        else:
            difference = max(np.abs(result.importance[:, j] - r).max() for j, r in importances.items())
            note = "plain: 100 rounds of one factor, 3 of the others; score is its importances"
        good.append(line("dci boosted", slow, fast, difference, note))
    print(f"without trees together {together:.2f} s")
    return all(good)


def gap(one, two):
    return max(abs(one.disentanglement - two.disentanglement), abs(one.completeness - two.completeness))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="time the plain tree models completely (an hour)")
    full = parser.parse_args().full
    with threadpool_limits(1):
        first = compare("10,000 x 10 codes, dSprites factors", *dsprites(), full)
        second = compare("20,000 x 8 codes, eight factors of ten values", *ten_bins(), full)
    return 0 if first and second else 1


if __name__ == "__main__":
    sys.exit(main())
