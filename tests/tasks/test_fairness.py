import re
from pathlib import Path

import numpy as np
import planted
import pytest

from karenina.tasks import Fairness, fairness, total_variation
from karenina.tasks._fairness import _excess, _plain

SIZES = (3, 6, 10)


def table(n=3000, sizes=SIZES, seed=0):
    v = planted.labels(n, sizes, seed)
    return planted.identity(v), v


def test_hand_computed_case():
    mean, most = total_variation([[0, 100], [100, 100]])
    assert mean == pytest.approx(2 / 9)
    assert most == pytest.approx(1 / 3)


def test_total_variation_against_its_definition():
    counts = np.random.default_rng(0).integers(0, 50, size=(4, 5))
    overall = counts.sum(axis=1) / counts.sum()
    distances = [0.5 * np.abs(column / column.sum() - overall).sum() for column in counts.T]
    mean, most = total_variation(counts)
    assert mean == pytest.approx(np.average(distances, weights=counts.sum(axis=0)))
    assert most == pytest.approx(max(distances))
    assert total_variation(np.column_stack([counts, np.zeros(4)])) == pytest.approx((mean, most))


def test_reference_values():
    factors = planted.reference("identity")[0][1]
    expected = planted.published("identity", "sampling")["fairness_gbt_500_100"]["result"]
    result = fairness(factors[:3000], factors[:3000], train=500, sampler=lambda rows: rows, per_value=100)
    scores = result.scores()
    assert scores.keys() == expected.keys()
    means = [name for name in expected if name.startswith("mean_fairness")]
    assert max(abs(scores[name] - expected[name]) for name in means) < 0.03
    assert float(result) == pytest.approx(scores["mean_fairness:mean_pred:mean_sens"])
    assert abs(scores["max_fairness:mean_pred:mean_sens"] - expected["max_fairness:mean_pred:mean_sens"]) < 0.03


def test_all_summaries_of_a_small_matrix():
    matrix = np.array([[np.nan, 2.0, 4.0], [4.0, np.nan, 8.0], [2.0, 10.0, np.nan]])
    scores = Fairness(matrix, matrix, True).scores()
    expected = {
        "pred0:sens1": 2, "pred2:sens1": 10, "pred0:mean_sens": 3, "pred1:max_sens": 8, "sens1:mean_pred": 6,
        "sens2:max_pred": 8, "mean_sens:mean_pred": 5, "mean_sens:max_pred": 22 / 3, "max_sens:mean_pred": 6,
        "max_sens:max_pred": 10, "mean_pred:mean_sens": 5, "max_pred:mean_sens": 6, "max_pred:max_sens": 10,
    }  # fmt: skip
    for name, value in expected.items():
        assert scores[f"mean_fairness:{name}"] == pytest.approx(value)
    assert len(scores) == 2 * (6 + 12 + 8)


@pytest.mark.parametrize("sampler", [None, lambda rows: rows])
def test_perfect_codes_are_fair(sampler):
    z, v = table()
    result = fairness(z, v, sampler=sampler)
    assert result.intervened == (sampler is not None)
    assert float(result) < 0.01
    assert np.nanmax(result.mean) < 0.03
    assert np.isnan(np.diag(result.mean)).all()
    assert (result.max >= result.mean)[~np.eye(3, dtype=bool)].all()


@pytest.mark.parametrize("intervened", [True, False])
def test_a_leak_raises_the_pair_it_joins(intervened):
    z, v = table()

    def leak(rows):
        codes = rows.astype(float).copy()
        codes[:, 1] = np.minimum(rows[:, 1] + 2 * rows[:, 0], 6)  # scale is hidden more and more by shape
        return codes[:, 1:]

    result = fairness(leak(v), v, sampler=leak if intervened else None)
    assert result.mean[1, 0] > 0.2
    assert result.mean[0, 1] > 0.15
    assert result.mean[2, [0, 1]].max() < 0.05
    assert float(result) > 10 * float(fairness(z, v, sampler=(lambda rows: rows) if intervened else None))


def test_chance_does_not_count_as_unfairness():
    rng = np.random.default_rng(0)
    v = rng.integers((20, 20), size=(6000, 2))
    plain, corrected = (fairness(v, v, correct=correct, test=2000).mean[0, 1] for correct in (False, True))
    assert plain > 0.15
    assert corrected < 0.02
    v[:, 1] = np.where(rng.random(6000) < 0.5, v[:, 0], v[:, 1])  # true total variation: 0.5 * 0.95
    plain, corrected = (fairness(v, v, correct=correct, test=2000).mean[0, 1] for correct in (False, True))
    assert 0.4 < corrected < 0.48
    assert plain > corrected


def simulated(rng, labels, values, per_value, strength):
    """True total variation and the two estimates, when each value favours a random half of the labels."""
    sides = np.repeat([1.0, -1.0], [labels // 2, labels - labels // 2])
    p = 1 + strength * np.array([rng.permutation(sides) for _ in range(values)]).T
    p /= p.sum(axis=0)
    true = np.abs(p - p.mean(axis=1, keepdims=True)).sum(axis=0).mean() / 2
    value = np.repeat(np.arange(values), per_value)
    guess = np.concatenate([rng.choice(labels, p=column, size=per_value) for column in p.T])
    return true, _excess(guess, value, rng)[0], _plain(guess, value, rng)[0]


def test_what_the_docs_say_of_differences_that_are_missed():
    text = (Path(__file__).resolve().parents[2] / "docs" / "tasks.md").read_text()
    lines = re.search(r"\| true total variation .*\n\|---.*\n((?:\|.*\n)+)", text)[1].splitlines()
    said = np.array([[float(cell) for cell in line.strip("| ").split(" | ")] for line in lines])
    rng = np.random.default_rng(0)
    strengths = (0.95, 0.5, 0.25, 0.12, 0)
    found = np.array([np.mean([simulated(rng, 20, 10, 100, s) for _ in range(40)], axis=0) for s in strengths])
    np.testing.assert_allclose(said, found, atol=0.0075)
    few = np.array([np.mean([simulated(rng, 5, 5, 1000, s) for _ in range(10)], axis=0) for s in (0.25, 0.12)])
    np.testing.assert_allclose(few[:, 1], [0.10, 0.04], atol=0.01)


def test_continuous_factors_are_cut_into_bins():
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(3000, 2))
    for sampler in (None, lambda rows: rows):
        fair = fairness(v, v, sampler=sampler)
        assert float(fair) < 0.03
    leaky = fairness(v @ [[1.0], [1.0]], v, sampler=lambda rows: rows @ [[1.0], [1.0]])
    assert leaky.mean.shape == (2, 2)
    assert np.nanmin(leaky.mean) > 0.2


def test_the_sampler_sees_whole_rows_with_one_factor_set():
    z, v = table(400)
    seen = []

    def sampler(rows):
        seen.append(rows)
        return rows

    fairness(z, v, sampler=sampler, per_value=5)
    rows = np.concatenate(seen)
    assert rows.shape == (5 * sum(SIZES), 3)
    assert all(np.isin(rows[:, j], v[:, j]).all() for j in range(3))
    block = rows[:15].reshape(3, 5, 3)
    assert (block[:, :, 0] == [[0], [1], [2]]).all()
    assert (block[0, :, 1:] == block[2, :, 1:]).all()


def test_many_values_few_rows_and_a_constant_factor():
    v = np.random.default_rng(0).integers((183, 3, 1), size=(200, 3))
    with pytest.warns(UserWarning, match="constant factors: column 2"):
        result = fairness(v, v)
    assert np.isnan(result.mean[2]).all()
    assert np.isnan(result.mean[:, 2]).all()
    assert 0 <= float(result) <= 1
    assert all(np.isfinite(list(result.scores().values())))


def test_same_seed_same_bytes():
    z, v = table(500)
    z = z + np.random.default_rng(1).normal(size=z.shape)
    one, two, other = (fairness(z, v, seed=seed).mean for seed in (3, 3, 4))
    assert one.tobytes() == two.tobytes() != other.tobytes()


Z, V = table(30)


@pytest.mark.parametrize(
    ("codes", "factors", "options", "message"),
    [
        (Z, V[:, :1], {}, "fairness needs two factors that vary, got 1 of 1"),
        (Z, V, {"train": 0}, "train must be an integer of at least 1, got 0"),
        (Z, V, {"bins": -1}, "bins must be"),
        (Z, V, {"sampler": lambda rows: rows[:, :2]}, r"the sampler gave \(1900, 2\), expected \(1900, 3\)"),
        (Z, V, {"sampler": lambda rows: rows + np.inf}, "the sampler's codes of shape"),
        (Z[:5], V, {}, "codes has 5 rows"),
        (Z[:4], V[:4], {}, "no value of any factor has two of the 1 test rows"),
    ],
)
def test_bad_input(codes, factors, options, message):
    with pytest.raises(ValueError, match=message):
        fairness(codes, factors, **options)


@pytest.mark.parametrize("counts", [[[0, 0]], [[-1, 2]], [["a"]]])
def test_bad_counts(counts):
    with pytest.raises(ValueError, match="counts must be"):
        total_variation(counts)
