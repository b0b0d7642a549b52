import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, pearsonr, spearmanr

from karenina.tasks import label_noise, robustness

SPRITES = np.random.default_rng(0).integers((3, 6, 40, 32, 32), size=(20_000, 5))


@pytest.mark.parametrize(("regime", "shape"), [(1, 0.05), (2, 0.1), (3, 0.3)])
def test_published_regimes_perturb_as_often_as_they_say(regime, shape):
    changed = (label_noise(SPRITES, regime) != SPRITES).mean(axis=0)
    scale = {1: 0.1, 2: 0.2, 3: 0.3}[regime]
    assert changed[0] == pytest.approx(shape, abs=0.01)
    assert 0.6 * scale < changed[1] < 0.8 * scale  # a small Gaussian step may come back to the same of six values
    assert changed[2:] == pytest.approx(0.95 * shape, abs=0.01)


def test_unordered_labels_become_any_other_value_alike():
    noisy = label_noise(SPRITES[:, :1], 1.0, ordered=False)
    moves = np.zeros((3, 3))
    np.add.at(moves, (SPRITES[:, 0], noisy[:, 0]), 1)
    assert (np.diag(moves) == 0).all()
    assert moves[~np.eye(3, dtype=bool)] / len(SPRITES) == pytest.approx(1 / 6, abs=0.01)


def test_ordered_labels_move_by_gaussian_steps_to_values_that_exist():
    v = np.random.default_rng(0).choice([0.0, 0.5, 2.0, 9.0], size=(5000, 1))
    noisy = label_noise(v, 1.0)
    assert np.isin(noisy, v).all()
    middle = SPRITES[(SPRITES[:, 3] > 12) & (SPRITES[:, 3] < 20)]
    step = (label_noise(SPRITES, (0, 0, 0, 1, 0)) - SPRITES)[(SPRITES[:, 3] > 12) & (SPRITES[:, 3] < 20), 3]
    assert len(middle) == len(step)
    assert abs(step.mean()) < 0.3
    assert step.std() == pytest.approx(SPRITES[:, 3].std(), rel=0.1)  # a little less: the ends stop it


def test_what_the_docs_say_of_labels_that_stay():
    text = (Path(__file__).resolve().parents[2] / "docs" / "tasks.md").read_text()
    said = re.search(r"with six values (\d+) % .*, with 40 values (\d+) %, with two (\d+) %", text).groups()
    for size, percent in zip((6, 40, 2), said):
        inside = norm.cdf(0.5 / np.sqrt((size**2 - 1) / 12))  # half a step, in standard deviations
        stays = ((size - 2) * (2 * inside - 1) + 2 * inside) / size  # at the two ends one way out only
        assert round(100 * stays) == int(percent)
        v = np.tile(np.arange(size), 60_000 // size)[:, None]
        assert (label_noise(v, 1.0) == v).mean() == pytest.approx(stays, abs=0.01)


def test_shape_dtype_and_other_numbers_of_factors():
    noisy = label_noise(SPRITES[:, 1:4], 3)
    assert noisy.dtype == SPRITES.dtype
    assert noisy.shape == (20_000, 3)
    assert 0.2 < (noisy != SPRITES[:, 1:4]).mean() < 0.3
    assert label_noise(SPRITES[:, 0], 0.5).shape == (20_000,)
    assert (label_noise(SPRITES, 0.0) == SPRITES).all()
    assert (label_noise(np.ones((9, 2), int), 1.0, ordered=[True, False]) == 1).all()


def test_same_seed_same_bytes():
    one, two, other = (label_noise(SPRITES, 2, seed=seed).tobytes() for seed in (5, 5, 6))
    assert one == two != other


def linear(codes, factors):
    return np.corrcoef(codes[:, 0], factors[:, 0])[0, 1] ** 2


def test_robustness_correlates_noisy_with_clean_scores():
    rng = np.random.default_rng(0)
    v = SPRITES[:1000, 1:3]
    models = [v + sigma * rng.normal(size=v.shape) for sigma in np.linspace(0, 5, 12)]
    result = robustness(linear, models, v, regimes=(0.0, 1, 3, 1.0))
    assert result.clean == pytest.approx([linear(z, v) for z in models])
    assert result.noisy.shape == (4, 12)
    assert result.noisy[1] == pytest.approx([linear(z, label_noise(v, 1)) for z in models])
    assert result.pearson[0] == pytest.approx(1)
    assert result.pearson == pytest.approx([pearsonr(row, result.clean)[0] for row in result.noisy])
    assert result.spearman == pytest.approx([spearmanr(row, result.clean)[0] for row in result.noisy])
    assert result.pearson[1] > 0.95


@pytest.mark.parametrize("value", [0.5, 0.1])  # the mean of 0.1 repeated is not quite 0.1
def test_a_metric_that_never_changes_has_no_correlation(value):
    result = robustness(lambda codes, factors: value, [SPRITES] * 3, SPRITES, regimes=[1])
    assert np.isnan([result.pearson[0], result.spearman[0]]).all()


@pytest.mark.parametrize(
    ("regime", "options", "message"),
    [
        (4, {}, "regime must be 1, 2, 3 or probabilities, got 4"),
        (True, {}, "regime must be"),
        (1.5, {}, "a probability or 5 of them, got 1.5"),
        ([0.1, 0.2], {}, r"a probability or 5 of them, got \[0.1, 0.2\]"),
        (1, {"ordered": [True]}, "ordered must be True, False or 5 of them"),
    ],
)
def test_bad_noise(regime, options, message):
    with pytest.raises(ValueError, match=message):
        label_noise(SPRITES[:10], regime, **options)


def test_bad_models():
    with pytest.raises(ValueError, match="at least 3 of them, got 2"):
        robustness(linear, [SPRITES, SPRITES], SPRITES)
    with pytest.raises(ValueError, match="codes of model 1 have 5 rows and factors 20000"):
        robustness(linear, [SPRITES, SPRITES[:5], SPRITES], SPRITES)
