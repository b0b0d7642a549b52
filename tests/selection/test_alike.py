"""MCC and CKA against brute force."""

from itertools import permutations

import numpy as np
import pandas as pd
import planted
import pytest
from scipy.stats import spearmanr

from karenina._active import ACTIVE_KL
from karenina.selection import alike


def models(seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(200, 4))
    sizes = (4, 3, 4, 2)
    return [(factors @ rng.normal(size=(4, s)) + rng.normal(size=(200, s))) * rng.uniform(0.1, 5, s) for s in sizes]


def best_matching(R):
    R = R if len(R) <= len(R.T) else R.T
    return max(np.mean([R[a, b] for a, b in enumerate(p)]) for p in permutations(range(R.shape[1]), len(R)))


@pytest.mark.parametrize("correlation", ["pearson", "spearman"])
def test_equal_brute_force(correlation):
    codes = models()
    found = alike(codes, correlation=correlation)
    for i, x in enumerate(codes):
        for j, y in enumerate(codes):
            if i == j:
                assert found.mcc[i, j] == found.cka[i, j] == 1
                continue
            a, b = x - x.mean(axis=0), y - y.mean(axis=0)
            cka = np.linalg.norm(a.T @ b) ** 2 / np.linalg.norm(a.T @ a) / np.linalg.norm(b.T @ b)
            assert found.cka[i, j] == pytest.approx(cka, abs=1e-10)
            if correlation == "pearson":
                R = np.corrcoef(x.T, y.T)[: x.shape[1], x.shape[1] :]
            else:
                R = np.array([[spearmanr(u, v).statistic for v in y.T] for u in x.T])
            assert found.mcc[i, j] == pytest.approx(best_matching(np.abs(R)), abs=1e-10)


def test_rotation_lowers_mcc_and_not_cka():
    rng = np.random.default_rng(1)
    z = np.linalg.qr(rng.normal(size=(300, 4)) - 0.0)[0]
    z -= z.mean(axis=0)
    turned = z @ planted.rotation(4)
    found = alike([z, -z[:, ::-1], turned])
    assert found.mcc[0, 1] == pytest.approx(1)
    assert found.cka[0, 2] == pytest.approx(1)
    assert found.mcc[0, 2] < 0.9


def test_medoid_and_groups():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(300, 3))
    noisy = [z + s * rng.normal(size=z.shape) for s in (1.0, 0.8, 0.1, 0.9)]
    assert alike(noisy).medoid() == 2
    assert alike(noisy).medoid("cka") == 2
    grouped = alike(noisy, groups=["a", "a", "b", "b"])
    assert np.isnan(grouped.mcc[0, 2])
    assert grouped.centrality()[0] == grouped.mcc[0, 1]
    alone = alike(noisy[:2], groups=["a", "b"])
    assert np.isnan(alone.centrality()).all()
    with pytest.raises(ValueError, match="no two models"):
        alone.medoid()


def test_only_informative_latents_take_part():
    codes = models()
    kl = [np.ones(4), np.ones(3), np.array([1, 0, 1, 1.0]), np.zeros(2)]
    found = alike(codes, kl)
    without = alike([codes[0], codes[2][:, [0, 2, 3]]])
    assert found.mcc[0, 2] == pytest.approx(without.mcc[0, 1])
    assert found.cka[0, 2] == pytest.approx(without.cka[0, 1])
    assert found.mcc[0, 3] == found.cka[0, 3] == 0


def test_latents_are_active_above_the_threshold_of_all_rankings():
    codes = models()[:1] + models(1)[:1]
    kl = np.array([[1, 1, 1, 0.9 * ACTIVE_KL]] * 2)
    assert alike(codes, kl).mcc[0, 1] == pytest.approx(alike([z[:, :3] for z in codes]).mcc[0, 1])


def test_kl_may_be_a_data_frame():
    codes = [models(seed)[1] for seed in range(3)]
    kl = np.array([[1.0, 1, 1], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(alike(codes, pd.DataFrame(kl)).mcc, alike(codes, kl).mcc)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="correlation must be"):
        alike(models(), correlation="kendall")
    with pytest.raises(ValueError, match="at least 2"):
        alike(models()[:1])


def test_tiles_of_two_models_and_one_left_over(monkeypatch):
    """As with the codes of three models of all images of dSprites."""
    codes = models()[:3]
    whole = alike(codes)
    monkeypatch.setattr("karenina.selection._udr._PANEL_BYTES", 1)
    small = alike(codes)
    assert small.mcc == pytest.approx(whole.mcc)
    assert small.cka == pytest.approx(whole.cka)
