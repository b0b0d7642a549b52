import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from karenina.metrics import score
from karenina.theory import entangle, entanglement, householder

MARGINALS = [stats.uniform(0, 2), stats.norm(1, 3), stats.expon(), stats.beta(2, 5)]


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([m.rvs(n, random_state=rng) for m in MARGINALS])


@given(st.integers(2, 40), st.floats(0.001, 0.499))
def test_matrix_is_orthogonal_without_zeros(d, alpha):
    a = householder(d, alpha)
    assert np.allclose(a @ a.T, np.eye(d), atol=1e-12)
    assert (a != 0).all()


def test_same_distribution_over_repeats():
    # Under the null the p-values of a two-sample test are uniform; test that with one more test.
    p_values = []
    for seed in range(60):
        f = entanglement(draw(2), 0.3, MARGINALS)
        p_values += [stats.ks_2samp(f(draw(500, seed))[:, j], draw(500, 10_000 + seed)[:, j]).pvalue for j in range(4)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    mixed = entangle(draw(20_000), 0.3, MARGINALS)
    assert abs(np.corrcoef(stats.rankdata(mixed, axis=0).T) - np.eye(4)).max() < 0.03


@pytest.mark.parametrize("marginals", [MARGINALS, None])
def test_invertible_and_the_jacobian_is_right_and_full(marginals):
    z = draw(2000)
    f = entanglement(z, 0.3, marginals)
    assert abs(f.inverse(f(z)) - z).max() < 1e-6
    some = z[:20]
    jacobian = f.jacobian(some)
    assert (jacobian != 0).all()
    if marginals is None:
        return  # piecewise linear: the difference quotient would straddle a knot
    numeric = np.empty_like(jacobian)
    for j in range(4):
        step = np.zeros(4)
        step[j] = 1e-6
        numeric[:, :, j] = (f(some + step) - f(some - step)) / 2e-6
    assert np.allclose(jacobian, numeric, rtol=1e-3, atol=1e-4)


def test_estimated_marginals_agree_with_known_ones():
    z = draw(50_000)
    difference = entangle(z) - entangle(z, marginals=MARGINALS)
    assert np.quantile(abs(difference) / z.std(axis=0), 0.99) < 0.1


def test_what_the_docs_say_of_metrics_that_see_the_factors():
    text = (Path(__file__).resolve().parents[1] / "docs" / "tasks.md").read_text()
    lines = re.search(r"\| metric \| z \| f\(z\) \|\n\|---.*\n((?:\|.*(?:\n|$))+)", text)[1].splitlines()
    said = {name: (float(one), float(two)) for name, one, two in (line.strip("| ").split(" | ") for line in lines)}
    rng = np.random.default_rng(0)  # as in examples/impossible.py
    marginals = [stats.norm(), stats.uniform(-1, 2), stats.gamma(2), stats.laplace()]
    z = np.column_stack([marginal.rvs(4000, random_state=rng) for marginal in marginals])
    both = (z, entangle(z, 0.3, marginals))
    tables = [{row.metric: row for row in score(codes, z, list(said), continuous=True).rows[::-1]} for codes in both]
    for name, values in said.items():
        assert [table[name].value for table in tables] == pytest.approx(values, abs=0.05), name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: entangle(draw(10), 0.5), "between 0 and 0.5"),
        (lambda: entangle(draw(10), 0.0), "between 0 and 0.5"),
        (lambda: entangle(draw(10)[:, :1]), "d > 1"),
        (lambda: entangle(np.zeros((5, 2))), "column 0 of z is constant"),
        (lambda: entangle([[np.nan, 1], [0, 1]]), "row 0, column 0"),
        (lambda: entangle(draw(10), marginals=MARGINALS[:2]), "2 marginals"),
        (lambda: entangle(draw(10) - 100, marginals=MARGINALS), "outside its marginal"),
        (lambda: entangle(draw(10)[:, 0]), r"expected \(n, d\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
