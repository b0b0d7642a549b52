"""DCI-ES: the area of known curves, probes by scikit-learn, Shapley values by all orderings, and edges."""

import numpy as np
import planted
import pytest
from sklearn.linear_model import LinearRegression

from karenina.metrics import dci_es
from karenina.metrics._dci import Probes, _targets
from karenina.metrics._inputs import check


def curve(result, lowest="zero"):
    """E of each factor, by the trapezoids of numpy."""
    best = np.minimum.accumulate(np.minimum(result.curves, result.details["baseline"]), axis=0)
    x = np.log(result.details["capacities"])
    floor = best[-1]
    area = np.trapezoid(best - floor, x, axis=0)
    of = result.details["baseline"] - (0 if lowest == "zero" else floor)
    return 1 - area / (0.5 * (x[-1] - x[0]) * of)


@pytest.mark.parametrize("lowest", ["zero", "reached"])
def test_explicitness_is_the_area_under_the_loss_capacity_curve(lowest):
    factors = planted.uniform(500, 2)
    codes = np.column_stack([factors[:, 0], factors[:, 1] + 0.3 * np.sin(9 * factors[:, 1])])
    result = dci_es(codes, factors, lowest=lowest, orderings=2)
    assert result.per_factor == pytest.approx(curve(result, lowest), abs=1e-9)
    assert result.explicitness == pytest.approx(result.per_factor.mean())


def test_probes_are_linear_regressions_on_features():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    probes = Probes.fit(z, [y[:, :1], y[:, 1:]], np.array([8, 16]), rng)
    features = np.cos(z @ probes.frequency + probes.phase)
    for weights, c in zip(probes.weights, (8, 16)):
        expected = LinearRegression().fit(features[:, :c], y).predict(features[:, :c])
        assert features[:, :c] @ weights[:-1] + weights[-1] == pytest.approx(expected, abs=1e-4)


def test_shapley_values_add_up_to_what_the_codes_tell():
    factors = planted.uniform(300, 2)
    inputs = check(factors, factors)
    rows = np.arange(300)
    targets = _targets(inputs, rows, rows)
    probes = Probes.fit(factors, [t.numbers for t in targets], np.array([8, 32]), np.random.default_rng(0))
    chosen = np.array([1, 1])
    importance = probes.shapley(factors, targets, chosen, inputs.live, 8, np.random.default_rng(1))
    # From the codes of other rows, whose guess has twice the variance for an error, to almost none.
    assert importance.sum(axis=0) == pytest.approx([2, 2], abs=0.2)
    assert (importance[[0, 1], [1, 0]] < 0.02).all()
    unknown = probes.shapley(factors, targets, np.array([-1, 1]), inputs.live, 2, np.random.default_rng(1))
    assert (unknown[:, 0] == 0).all()


def turned_parts(turn):
    """D and C when v_i = sum_j R_ij z_j is read exactly, from uncorrelated codes of one variance.

    A code of another row in place of z_j adds 2 R_ij^2 to the relative error whatever else is known, so that is its
    Shapley value. R (k, d).
    """
    importance = 2 * (turn**2).T

    def of(rows):
        share = rows / rows.sum(axis=1, keepdims=True)
        entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(axis=1) / np.log(rows.shape[1])
        return float(np.average(1 - entropy, weights=rows.sum(axis=1)))

    return importance, of(importance), of(importance.T)


EVEN = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([[3], [2], [6]])


@pytest.mark.parametrize("turn", [planted.rotation(3), EVEN])
def test_a_rotation_costs_disentanglement_as_computed_and_no_ease_of_use(turn):
    factors = planted.uniform(3000, 3) - 0.5
    plain, turned = dci_es(factors, factors), dci_es(factors @ turn, factors)
    importance, disentanglement, completeness = turned_parts(turn)
    assert plain.disentanglement == pytest.approx(1, abs=0.02)
    assert turned.importance == pytest.approx(importance, abs=0.1)
    assert turned.disentanglement == pytest.approx(disentanglement, abs=0.03)
    assert turned.completeness == pytest.approx(completeness, abs=0.03)
    assert turned.explicitness == pytest.approx(plain.explicitness, abs=0.02)


def test_size_is_factors_over_codes():
    factors = planted.uniform(300, 3)
    assert [dci_es(z, factors, orderings=1).size for z in (factors, np.hstack([factors, factors]))] == [1.0, 0.5]


def test_edges():
    factors = planted.labels(120, (3, 4))
    nothing = dci_es(np.zeros((120, 2)), factors)
    assert (nothing.explicitness, nothing.disentanglement, nothing.completeness) == (0, 0, 0)
    few = dci_es(factors[:40], factors[:40], orderings=1)
    assert few.details["capacities"].tolist() == [16, 32]
    same = [dci_es(factors, factors, seed=3, orderings=2).importance for _ in range(2)]
    assert (same[0] == same[1]).all()
    for wrong, message in (
        ({"capacities": [16]}, "capacities must have two numbers"),
        ({"capacities": [0, 4]}, "each of capacities must be an integer"),
        ({"lowest": "none"}, "lowest must be one of zero, reached, got 'none'"),
        ({"orderings": 0}, "orderings must be an integer"),
    ):
        with pytest.raises(ValueError, match=message):
            dci_es(factors, factors, **wrong)


def test_classes_that_training_rows_lack_are_not_scored():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(600, 2))
    label = (codes[:, 0] > 0).astype(int)
    test = rng.normal(size=(300, 2))
    truth = (test[:, 0] > 0).astype(int)
    plain = dci_es(codes, label, test=(test[:200], truth[:200]))
    truth[200:] = 5
    result = dci_es(codes, label, test=(test, truth))
    assert result.informativeness == pytest.approx(plain.informativeness)
    assert result.explicitness == pytest.approx(plain.explicitness)
    np.testing.assert_allclose(result.details["baseline"], plain.details["baseline"])
    factors = np.column_stack([label, codes[:, 1]])
    with pytest.warns(UserWarning, match="no explicitness of factor 0: training and test rows share none"):
        result = dci_es(codes, factors, test=(test, np.column_stack([np.full(300, 5), test[:, 1]])))
    assert np.isnan(result.per_factor).tolist() == [True, False]
    assert np.isnan(result.per_factor_informativeness).tolist() == [True, False]
    assert result.informativeness == result.per_factor_informativeness[1]
