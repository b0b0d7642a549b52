"""The fast trees against scikit-learn's gradient boosting."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from karenina.numerics.trees import Binned, Sorted, boost


def blurred(n, sizes, noise, seed=0):
    rng = np.random.default_rng(seed)
    v = rng.integers(sizes, size=(n, len(sizes)))
    return v + noise * rng.normal(size=v.shape), v


@pytest.mark.parametrize("classes", [2, 3])
def test_same_scores_as_scikit_learn_where_bins_lose_nothing(classes):
    z, v = blurred(240, (classes, 4, 4), 0.4)
    z = z.astype(np.float32).astype(float)  # scikit-learn works in float32
    ours = boost(Binned.of(z), v[:, 0], classes, np.random.default_rng(0))
    theirs = GradientBoostingClassifier(random_state=0).fit(z, v[:, 0])
    assert ours.importance == pytest.approx(theirs.feature_importances_, abs=0.01)  # ties fall by chance
    early = replace(ours, feature=ours.feature[:20], cut=ours.cut[:20], leaf=ours.leaf[:20])
    stages = list(theirs.staged_decision_function(z))
    scores, expected = early.decision(z), stages[19].T
    if classes > 2:  # a shift of all classes together is free
        scores, expected = (s - s.mean(axis=0) for s in (scores, expected))
    assert np.allclose(scores, expected, atol=1e-9)


def test_same_regression_as_scikit_learn():
    z, v = blurred(250, (5, 7), 0.3)
    z = z.astype(np.float32).astype(float)
    target = v[:, 0] + 0.1 * v[:, 1]
    ours = boost(Binned.of(z), target, 0, np.random.default_rng(0)).predict(z)
    theirs = GradientBoostingRegressor(random_state=0).fit(z, target).predict(z)
    assert np.allclose(ours, theirs, atol=1e-9)


# With ten rows many splits are equally good; ours are drawn, scikit-learn leaves them to rounding.
@pytest.mark.parametrize(("n", "seeds"), [(10, 15), (100, 1), (500, 1)])
def test_accuracy_on_new_rows_agrees_with_scikit_learn(n, seeds):
    z, v = blurred(n + 3000, (3, 6, 9), 0.25, seed=n)
    gaps = []
    for j in range(3):
        seen, labels = np.unique(v[:n, j], return_inverse=True)
        fits = [boost(Binned.of(z[:n]), labels, len(seen), np.random.default_rng(seed)) for seed in range(seeds)]
        ours = np.mean([seen[fit.predict(z[n:])] == v[n:, j] for fit in fits])
        theirs = seen[GradientBoostingClassifier(random_state=0).fit(z[:n], labels).predict(z[n:])]
        gaps.append(ours - (theirs == v[n:, j]).mean())
    assert abs(np.mean(gaps)) < 0.02
    assert np.abs(gaps).max() < 0.03


def test_same_seed_same_bytes():
    z, v = blurred(500, (3, 6), 0.3)
    z = np.column_stack([z, z])  # every split ties with its copy
    one, two, other = (boost(Binned.of(z), v[:, 1], 6, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.decision(z).tobytes() == two.decision(z).tobytes()
    assert one.importance.tobytes() != other.importance.tobytes()
    assert one.importance[2:].sum() == pytest.approx(0.5, abs=0.1)


def test_constant_codes_predict_the_largest_class():
    model = boost(Binned.of(np.zeros((30, 2))), np.repeat([0, 1, 2], [5, 20, 5]), 3, np.random.default_rng(0))
    assert (model.predict(np.random.default_rng(0).normal(size=(4, 2))) == 1).all()
    assert (model.importance == 0).all()


def test_bins_are_exact_for_codes_of_few_values():
    z = np.random.default_rng(0).normal(size=(200, 3))
    target = z[:, 0] + np.sin(3 * z[:, 1]) + 0.1 * np.random.default_rng(1).normal(size=200)
    exact, binned = (boost(kind.of(z), target, 0, np.random.default_rng(0)) for kind in (Sorted, Binned))
    np.testing.assert_allclose(binned.predict(z), exact.predict(z), atol=1e-9)
    np.testing.assert_allclose(binned.importance, exact.importance, atol=0.01)  # equal splits fall by chance
