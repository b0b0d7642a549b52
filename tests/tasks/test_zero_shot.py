import re

import numpy as np
import pytest

import karenina
from karenina.papers.eastwood2018.teapots import in_gap
from karenina.tasks import zero_shot

RNG = np.random.default_rng(0)
V = RNG.uniform(size=(4000, 3))
CORNER = (V[:, 0] > 0.6) & (V[:, 1] > 0.6)
LINEAR = V @ RNG.normal(size=(3, 5)) + 0.05 * RNG.normal(size=(4000, 5))


def test_linear_code_is_as_good_in_the_corner():
    result = zero_shot(LINEAR, V, CORNER)
    assert result.inside == pytest.approx(result.outside, rel=0.1)
    assert float(result) == result.inside.mean()


def test_noiseless_linear_code_is_exact():
    result = zero_shot(V @ [[1, 2, 0], [0, 1, 1], [1, 0, 3]], V, CORNER)
    assert max(result.inside.max(), result.outside.max()) < 1e-3


@pytest.mark.parametrize("model", ["lasso", "forest"])
def test_code_that_breaks_in_the_corner_is_not(model):
    broken = np.where(CORNER[:, None], RNG.permutation(LINEAR), LINEAR)
    result = zero_shot(broken, V, CORNER, model=model)
    assert (result.inside > 2 * result.outside).all()


def test_errors_are_in_units_of_the_training_spread():
    result = zero_shot(RNG.normal(size=(4000, 2)), 100 * V, CORNER)
    assert result.outside == pytest.approx(1, abs=0.05)  # nothing but the mean can be predicted
    assert (result.inside[:2] > 1.2).all()  # and that is far from the corner
    assert result.summary().keys() == {"zero_shot_lasso_inside", "zero_shot_lasso_outside"}


def test_forest_reads_a_bent_code():
    bent = np.column_stack([np.tanh(6 * (V - 0.5)), V[:, :1] ** 3])
    result = zero_shot(bent, V, CORNER, model="forest")
    assert result.outside.max() < 0.1
    assert result.outside.max() < zero_shot(bent, V, CORNER).outside.max()


def test_factor_that_is_constant_outside_has_no_error():
    for constant in (0.0, 0.1, 0.7):  # the standard deviation of 0.1 repeated is not 0
        v = np.column_stack([V, np.where(CORNER, 0.9, constant)])
        result = zero_shot(LINEAR, v, CORNER)
        assert np.isnan(result.inside[3])
        assert np.isnan(result.outside[3])
        assert float(result) < 1


def test_same_seed_same_bytes():
    one, two, other = (zero_shot(LINEAR[:300], V[:300], CORNER[:300], model="forest", seed=s) for s in (1, 1, 2))
    assert one.inside.tobytes() == two.inside.tobytes() != other.inside.tobytes()


@pytest.mark.parametrize(
    ("inside", "options", "message"),
    [
        (np.zeros(4000, bool), {}, "the corner is empty: none of the 4000 rows"),
        (np.ones(4000, bool), {}, "leaves 0 of 4000 rows outside, at least 10"),
        (CORNER[:50], {}, r"inside must be 4000 bools, got bool of shape \(50,\)"),
        (CORNER.astype(int), {}, "inside must be 4000 bools, got int64"),
        (CORNER, {"model": "tree"}, "no model 'tree'; known: lasso, forest"),
    ],
)
def test_bad_input(inside, options, message):
    with pytest.raises(ValueError, match=message):
        zero_shot(LINEAR, V, inside, **options)


def test_constant_factors():
    with pytest.raises(ValueError, match="every factor is constant outside the corner"):
        zero_shot(LINEAR, np.zeros((4000, 1)), CORNER)


def test_the_corners_of_the_docstring_are_never_trained_on():
    corners = re.findall(r'"(teapots:[^"]+)"\s+`([^`]+)`', zero_shot.__doc__)
    assert len(corners) == 2
    everything = karenina.load("teapots").factors.sample(5000, np.random.default_rng(0))
    for data, corner in corners:
        trained = karenina.load(data).factors.sample(5000, np.random.default_rng(0))
        seen, possible = (
            eval(corner, {"karenina": karenina, "in_gap": in_gap, "factors": rows}) for rows in (trained, everything)
        )
        assert not seen.any()
        assert possible.any()


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**600])
def test_units_do_not_matter(unit):
    plain = zero_shot(LINEAR[:400], V[:400], CORNER[:400])
    for codes, factors in ((unit * LINEAR, V), (LINEAR, unit * V)):
        found = zero_shot(codes[:400], factors[:400], CORNER[:400])
        assert found.inside == pytest.approx(plain.inside)
