"""UDR against scikit-learn, scipy and plain restatements, and on planted models."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import planted
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom, spearmanr
from sklearn.linear_model import Lasso, MultiTaskLasso, MultiTaskLassoCV

import karenina.selection as selection
from karenina._active import ACTIVE_KL
from karenina.selection import Preset, similarity_matrix, udr
from karenina.selection._inputs import check_codes
from karenina.selection._udr import prepare


def standardised(z):
    return (z - z.mean(axis=0)) / z.std(axis=0)


def mixed(rng, factors, rotation, noise):
    size = factors.shape[1]
    mixing = np.eye(size) + rotation * rng.normal(size=(size, size))
    return factors @ mixing + noise * rng.normal(size=factors.shape)


def signed_permutation(rng, z):
    return z[:, rng.permutation(z.shape[1])] * rng.choice([-1.0, 1.0], z.shape[1])


def equation_2(R, target, source):
    """Restated from the paper; target and source say which latents are informative."""
    total = 0.0
    for b in np.flatnonzero(source):
        total += R[:, b].max() ** 2 / R[:, b].sum() if R[:, b].sum() > 0 else 0.0
    for a in np.flatnonzero(target):
        total += R[a].max() ** 2 / R[a].sum() if R[a].sum() > 0 else 0.0
    return total / (target.sum() + source.sum())


def released(R, target, source):
    """Restated from what disentanglement_lib does: filter, then the mean of two means."""
    R = R[np.ix_(target, source)]
    with np.errstate(invalid="ignore"):
        by_column = np.nan_to_num(R.max(axis=0) ** 2 / R.sum(axis=0)).mean()
        by_row = np.nan_to_num(R.max(axis=1) ** 2 / R.sum(axis=1)).mean()
    return (by_column + by_row) / 2


def abs_spearman(x, y):
    return np.abs([[spearmanr(a, b).statistic for b in y.T] for a in x.T])


CASES = [(0.0, 0.0, 300), (0.1, 0.3, 300), (0.3, 1.0, 203), (1.0, 0.3, 500), (0.0, 30.0, 101)]


@pytest.mark.parametrize(("rotation", "noise", "n"), CASES)
def test_lasso_and_multitask_lasso_equal_scikit_learn(rotation, noise, n):
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(n, 6))
    x, y = standardised(mixed(rng, factors, rotation, noise)), standardised(mixed(rng, factors, rotation, noise)[:, :4])
    for alpha in (0.01, 0.1):
        ours = similarity_matrix(y, x, preset=Preset(alpha, multitask=False))
        theirs = Lasso(alpha=alpha, tol=1e-13, max_iter=100_000).fit(x, y).coef_
        np.testing.assert_allclose(ours, np.abs(theirs), atol=1e-6)
        ours = similarity_matrix(y, x, preset=Preset(alpha))
        theirs = MultiTaskLasso(alpha=alpha, tol=1e-13, max_iter=100_000).fit(x, y).coef_
        np.testing.assert_allclose(ours, np.abs(theirs), atol=1e-6)


@pytest.mark.parametrize(("rotation", "noise", "n"), CASES)
def test_cross_validation_equals_scikit_learn(rotation, noise, n):
    from karenina.numerics.lasso import centred, cross_validate

    rng = np.random.default_rng(2)
    factors = rng.normal(size=(n, 5))
    x, y = standardised(mixed(rng, factors, rotation, noise)), standardised(mixed(rng, factors, rotation, noise)[:, :4])
    model = MultiTaskLassoCV(alphas=100, cv=5, tol=1e-8, max_iter=50_000).fit(x, y)
    exact = MultiTaskLasso(alpha=model.alpha_, tol=1e-13, max_iter=100_000).fit(x, y).coef_
    np.testing.assert_allclose(similarity_matrix(y, x), np.abs(exact), atol=1e-6)

    folds = np.array_split(np.arange(n), 5)
    sums, others = (np.stack([one[f].sum(axis=0) for f in folds]) for one in (x, y))
    sizes = np.array([len(f) for f in folds])
    weights, alpha, converged = cross_validate(
        centred(np.stack([x[f].T @ x[f] for f in folds]), sums, sums, sizes),
        centred(np.stack([x[f].T @ y[f] for f in folds]), sums, others, sizes),
        sizes,
        np.geomspace(1, 1e-3, 100),
    )
    assert converged
    assert alpha == pytest.approx(model.alpha_, rel=1e-10)
    np.testing.assert_allclose(weights.T, exact, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_spearman_equals_scipy_with_ties_and_signed_zeros(dtype):
    rng = np.random.default_rng(3)
    x, y = (3 * rng.normal(size=(200, 4))).astype(dtype), (2 * rng.normal(size=(200, 3))).astype(dtype)
    x[:20, 0] = 0.0
    x[20:40, 0] = -0.0 if dtype is not np.int64 else 0
    x[:, 1] = x[:, 1].round()
    np.testing.assert_allclose(similarity_matrix(x, y, similarity="spearman"), abs_spearman(x, y), atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e300, 1e300, allow_nan=False), min_size=3, max_size=60))
def test_ranks_equal_scipy(values):
    from scipy.stats import rankdata

    z = np.array(values)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare(check_codes([z, z], None, 0, 3), np.array([0]), ranks=True).z[0]
    ranks = rankdata(z[:, 0])
    expected = (ranks - ranks.mean()) / ranks.std() if ranks.std() > 0 else np.zeros(len(ranks))
    np.testing.assert_allclose(prepared, expected, atol=1e-9)


def trained(rng, models=4, n=200, latents=(6, 4, 6, 5)):
    """Models of different sizes with some uninformative latents."""
    factors = rng.normal(size=(n, 6))
    codes = [mixed(rng, factors, 0.2, 0.4)[:, : latents[m]] for m in range(models)]
    kl = [rng.choice([0.001, 0.5], size=latents[m], p=[0.3, 0.7]) for m in range(models)]
    for row in kl:
        row[0] = 1.0
    return codes, kl


@pytest.mark.parametrize("similarity", ["lasso", "spearman"])
@pytest.mark.parametrize("preset", ["paper", "dlib"])
def test_scores_equal_a_plain_restatement(similarity, preset):
    codes, kl = trained(np.random.default_rng(4))
    informative = [row > 0.01 for row in kl]
    expected = np.full((4, 4), np.nan)
    for i in range(4):
        for j in range(4):
            if i == j:
                continue
            y, x = standardised(codes[i]) * informative[i], standardised(codes[j]) * informative[j]
            if similarity == "spearman":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    R = np.nan_to_num(abs_spearman(y, x))
            elif preset == "dlib":
                R = np.abs(Lasso(alpha=0.1, tol=1e-12).fit(x, y).coef_)
            else:
                alpha = MultiTaskLassoCV(alphas=100, cv=5, tol=1e-9, max_iter=100_000).fit(x, y).alpha_
                R = np.abs(MultiTaskLasso(alpha=alpha, tol=1e-12, max_iter=10_000).fit(x, y).coef_)
            formula = released if preset == "dlib" else equation_2
            expected[i, j] = formula(R, informative[i], informative[j])
    ranking = udr(codes, kl, similarity=similarity, preset=preset, matrices=True)
    np.testing.assert_allclose(ranking.pairwise, expected, atol=1e-6)
    np.testing.assert_allclose(ranking.scores, np.nanmedian(expected, axis=1), atol=1e-6)
    assert ranking.matrices[0, 1].shape == (6, 4)
    if preset == "paper":
        alone = similarity_matrix(codes[0] * informative[0], codes[1] * informative[1], similarity=similarity)
        np.testing.assert_allclose(alone, ranking.matrices[0, 1], atol=1e-12)


def test_latents_are_active_above_the_threshold_of_their_preset():
    codes, kl = trained(np.random.default_rng(4))
    kl = [np.where(row == 0.5, 0.022, row) for row in kl]  # above 0.01, below 0.05
    for preset, threshold in (("dlib", 0.01), ("paper", ACTIVE_KL), (Preset(0.1, multitask=False), ACTIVE_KL)):
        found = udr(codes, kl, preset=preset)
        assert found.kl_threshold == threshold
        assert found.informative.tolist() == [int((row > threshold).sum()) for row in kl]
        assert (found.scores == udr(codes, kl, preset=preset, kl_threshold=threshold).scores).all()
    assert udr(codes, kl, preset="dlib", kl_threshold=0.05).kl_threshold == 0.05


def test_kl_may_be_a_data_frame():
    codes = [np.random.default_rng(i).normal(size=(50, 3)) for i in range(3)]
    kl = np.array([[2.0, 2, 2], [2, 0, 0], [0, 0, 0]])
    for index in (None, list("abc")):
        found = udr(codes, pd.DataFrame(kl, index=index))
        assert found.informative.tolist() == [3, 1, 0]
        np.testing.assert_array_equal(found.scores, udr(codes, kl).scores)


def test_identical_up_to_permutation_and_sign():
    rng = np.random.default_rng(5)
    z = rng.normal(size=(1000, 10))
    codes = [signed_permutation(rng, z) for _ in range(4)]
    kl = np.ones((4, 10))
    assert udr(codes, kl).scores.min() > 0.99
    np.testing.assert_allclose(udr(codes, kl, preset="dlib").scores, 0.9, atol=1e-9)
    brute = equation_2(abs_spearman(z, z), np.ones(10, bool), np.ones(10, bool))
    np.testing.assert_allclose(udr(codes, kl, similarity="spearman").scores, brute, atol=1e-12)


def test_spearman_of_identical_orthogonal_codes_is_one():
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    ranking = udr([grid, -grid[:, ::-1]], np.ones((2, 3)), similarity="spearman")
    np.testing.assert_allclose(ranking.scores, 1.0, atol=1e-12)


def test_independent_low_rotated_below_aligned():
    rng = np.random.default_rng(6)
    z = rng.normal(size=(2000, 6))
    kl = np.ones((4, 6))
    independent = udr([rng.normal(size=(2000, 6)) for _ in range(4)], kl)
    assert independent.scores.max() < 0.05
    rotations = [planted.rotation(6, seed) for seed in range(4)]
    for options in ({}, {"preset": "dlib"}, {"similarity": "spearman"}):
        aligned = udr([signed_permutation(rng, z) for _ in range(4)], kl, **options)
        rotated = udr([z @ q for q in rotations], kl, **options)
        assert rotated.scores.max() < aligned.scores.min() - 0.3


def test_subset_scores_as_high_as_the_full_model_when_clean():
    """Section 4: a model that learnt fewer factors is scored on those it has; its dead latents do not count."""
    rng = np.random.default_rng(7)
    z = rng.normal(size=(3000, 5))
    full, part = signed_permutation(rng, z), z.copy()
    part[:, 3:] = 0.0
    kl = [np.ones(5), np.array([1, 1, 1, 0, 0.0])]
    score = udr([full, part], kl).pairwise[1, 0]
    # Each of 3 + 3 matched latents gives 1, of the 5 + 3 that count.
    assert score == pytest.approx(6 / 8, abs=0.01)
    assert udr([part, -part], kl[1:] * 2).scores.min() > 0.99


def test_collapsed_model_scores_zero_and_is_no_ones_partner():
    codes, kl = trained(np.random.default_rng(8))
    alone = udr(codes, kl)
    kl_with = [*kl, np.zeros(6)]
    ranking = udr([*codes, np.zeros((200, 6))], kl_with)
    assert ranking.scores[-1] == 0.0
    assert ranking.informative[-1] == 0
    np.testing.assert_array_equal(ranking.scores[:-1], alone.scores)
    assert np.isnan(ranking.pairwise[:, -1]).all()
    assert (udr([np.zeros((20, 3)), np.zeros((20, 3))], np.zeros((2, 3))).scores == 0).all()


def test_groups_and_all_to_all():
    rng = np.random.default_rng(9)
    codes = [rng.normal(size=(300, 3)) for _ in range(6)]
    kl = np.ones((6, 3))
    groups = ["b", "a", "b", "a", "b", "a"]
    within = udr(codes, kl, groups, similarity="spearman")
    across = udr(codes, kl, groups, similarity="spearman", all_to_all=True)
    same = np.array(groups)[:, None] == np.array(groups)
    np.testing.assert_array_equal(np.isnan(within.pairwise), ~same | np.eye(6, dtype=bool))
    np.testing.assert_allclose(within.pairwise[0, 2], across.pairwise[0, 2], atol=1e-12)
    np.testing.assert_array_equal(np.diff(across.start), 5)
    assert within.groups == tuple(groups)


def test_frame_order_and_best_per_informative():
    codes, kl = trained(np.random.default_rng(10))
    ranking = udr(codes, kl, preset="dlib")
    frame = ranking.frame
    assert list(frame["model"]) == list(ranking.order)
    assert frame["score"].is_monotonic_decreasing
    assert "active" in str(ranking)
    for count, model in ranking.best_per_informative.items():
        assert ranking.informative[model] == count
        assert ranking.scores[model] == ranking.scores[ranking.informative == count].max()
    assert ranking.best == ranking.order[0]


@pytest.mark.parametrize("partners", [2, 3, 4, 5, 6, 7, 12])
def test_an_interval_covers_as_often_as_the_closed_form_says_or_is_not_given(partners):
    """Models have 119 possible partners, and the 60th of their values is the median that a few partners estimate."""
    rng = np.random.default_rng(11)
    factors = rng.normal(size=(100, 3))
    codes = [mixed(rng, factors, 0.5, rng.choice([0.1, 1.0])) for _ in range(120)]  # two kinds: partners of two values
    everyone = udr(codes, np.ones((120, 3)), similarity="spearman")
    covered = []
    for seed in range(20):
        some = udr(codes, np.ones((120, 3)), similarity="spearman", partners=partners, seed=seed)
        given = np.isfinite(some.interval).all(axis=1)
        assert given.all() == given.any() == (partners >= 6)
        covered.append((some.interval[:, 0] <= everyone.scores) & (everyone.scores <= some.interval[:, 1]))
        assert not given.any() or ((some.interval[:, 0] <= some.scores) & (some.scores <= some.interval[:, 1])).all()
    if partners >= 6:
        # The k-th smallest is above the median if fewer than k of the partners, drawn without repetition, are not.
        k = np.sum(binom.cdf(np.arange(partners // 2), partners, 0.5) <= 0.025)
        expected = 1 - 2 * hypergeom.cdf(k - 1, 119, 60, partners)
        assert expected > 0.95
        error = np.sqrt(expected * (1 - expected) / np.size(covered))
        assert abs(np.mean(covered) - expected) < 3 * error


def test_fewer_partners_give_an_interval_of_less_confidence():
    codes, kl = trained(np.random.default_rng(12))
    ranking = udr(codes, kl)
    assert np.isnan(ranking.intervals(0.76)).all()
    np.testing.assert_array_equal(ranking.intervals(0.75)[0], [ranking.values[:3].min(), ranking.values[:3].max()])


def test_same_seed_same_bytes():
    codes, kl = trained(np.random.default_rng(12))
    a, b, c = (udr(codes, kl, partners=2, n=150, seed=s) for s in (1, 1, 2))
    assert a.scores.tobytes() == b.scores.tobytes()
    assert a.interval.tobytes() == b.interval.tobytes()
    assert a.scores.tobytes() != c.scores.tobytes()


def test_invariant_to_scale_shift_sign_and_order():
    rng = np.random.default_rng(13)
    codes, kl = trained(rng)
    changed, changed_kl = [], []
    for z, row in zip(codes, kl):
        order = rng.permutation(len(row))
        scale = rng.uniform(0.1, 10, len(row)) * rng.choice([-1, 1], len(row))
        changed.append(z[:, order] * scale + rng.normal(size=len(row)))
        changed_kl.append(row[order])
    for options in ({}, {"preset": "dlib"}, {"similarity": "spearman"}):
        np.testing.assert_allclose(
            udr(changed, changed_kl, **options).scores, udr(codes, kl, **options).scores, atol=1e-8
        )


def test_constant_latents_count_for_nothing():
    rng = np.random.default_rng(14)
    z = rng.normal(size=(500, 3))
    with_constant = np.column_stack([z, np.full(500, 0.1)])
    for options in ({}, {"preset": "dlib"}, {"similarity": "spearman"}):
        plain = udr([z, -z], np.ones((2, 3)), **options)
        padded = udr([with_constant, -z], [np.array([1, 1, 1, 0.0]), np.ones(3)], **options)
        np.testing.assert_allclose(padded.scores, plain.scores, atol=1e-9)
    assert np.isfinite(udr([with_constant, -with_constant], np.ones((2, 4))).scores).all()


def bad(**changes):
    given = {"codes": [np.random.default_rng(i).normal(size=(50, 3)) for i in range(3)], "kl": np.ones((3, 3))}
    return given | changes


Z = np.random.default_rng(0).normal(size=(50, 3))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (bad(codes=[Z, -Z, Z[:40]]), "model 0 has 50 rows, model 2 has 40"),
        (bad(codes=[Z, -Z, np.where(Z > 2, np.nan, Z)]), "model 2 contain .* NaN"),
        (bad(codes=[Z, -Z, np.where(Z > 2, np.inf, Z)]), "model 2 contain .* NaN or infinite"),
        (bad(codes=[Z]), "at least 2; got 1"),
        (bad(codes=[]), "at least 2; got 0"),
        (bad(codes=Z), r"one \(models, n, L\) array; got an array of shape \(50, 3\)"),
        (bad(codes=[Z, -Z, Z[:, 0]]), "model 2 must be numbers of shape"),
        (bad(codes=[Z, -Z, np.full((50, 3), "a")]), "model 2 must be numbers"),
        (bad(codes=[z[:7] for z in (Z, -Z, 2 * Z)]), "at least 10 rows"),
        (bad(codes=3), "list of"),
        (bad(kl=np.ones((3, 4))), r"kl of model 0 must have shape \(3,\)"),
        (bad(kl=np.ones((2, 3))), "3 models, 2 rows"),
        (bad(kl=np.ones(3)), "kl of model 0 must have shape"),
        (bad(kl=1.0), "one row of latents per model"),
        (bad(kl=-np.ones((3, 3))), "not negative"),
        (bad(kl=np.full((3, 3), np.nan)), "finite"),
        (bad(groups=["a", "b"]), "3 given, 2 groups"),
        (bad(groups=["a", "b", "c"]), "no group has two"),
        (bad(similarity="pearson"), "similarity must be"),
        (bad(preset="x"), "preset must be"),
        (bad(partners=0), "partners must be an integer of at least 1"),
        (bad(n=51), "n must be from 10 to the 50 rows"),
        (bad(kl_threshold=float("nan")), "kl_threshold"),
        (bad(workers=0), "workers"),
    ],
)
def test_bad_input_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        udr(**given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, "alpha must be above 0"),
        ({"multitask": False}, "a lasso per latent needs its alpha"),
        ({"uninformative": "dead"}, "uninformative must be .* got 'dead'"),
    ],
)
def test_a_bad_preset_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        Preset(**options)


def test_a_bad_confidence_is_named():
    with pytest.raises(ValueError, match="confidence must be between 0 and 1; got 1.5"):
        udr(**bad()).intervals(1.5)


def test_a_group_of_which_one_model_is_left_gets_no_score():
    codes = [np.random.default_rng(i).normal(size=(50, 3)) for i in range(4)]
    kl = np.array([[1.0] * 3, [0.0] * 3] * 2)
    with pytest.warns(UserWarning, match="2 models have no partner"):
        ranking = udr(codes, kl, ["a", "a", "b", "b"])
    np.testing.assert_array_equal(ranking.scores, [np.nan, 0, np.nan, 0])
    assert ranking.best_per_informative == {}
    with pytest.raises(ValueError, match="no model has both a score and an active latent"):
        _ = ranking.best


def test_latents_near_the_threshold_are_reported():
    codes = [np.random.default_rng(i).normal(size=(50, 3)) for i in range(3)]
    kl = np.array([[2.0, 1.0, 0.06], [2.0, 0.15, 0.19], [2.0, 1.0, 0.001]])
    words = "3 latents of 2 of the 3 models have a KL near kl_threshold=0.1 .0.05 to 0.2.: rank again with "
    with pytest.warns(UserWarning, match=f"{words}kl_threshold=0.05 and 0.2, and see whether the order holds"):
        udr(codes, kl, kl_threshold=0.1)
    assert "KL above 0.01 nats" in str(udr(codes, kl, kl_threshold=0.01))


def test_group_of_one_and_duplicates_warn():
    codes = bad()["codes"]
    with pytest.warns(UserWarning, match="1 models have no partner .* model 2"):
        ranking = udr(codes, np.ones((3, 3)), ["a", "a", "b"])
    assert np.isnan(ranking.scores[2])
    assert ranking.order[-1] == 2
    with pytest.warns(UserWarning, match="models 0 and 3 have identical codes"):
        udr([*codes, codes[0].copy()], np.ones((4, 3)))


def test_import_is_light():
    import subprocess
    import sys

    code = "import sys, karenina.selection; print([m for m in ('torch', 'numba', 'sklearn') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
    assert selection.udr is udr


def test_no_function_has_the_name_of_a_module():
    """`import karenina.selection.udr` would give one or the other, whichever was imported last."""
    modules = {path.stem for path in Path(selection.__file__).parent.glob("*.py")}
    assert not modules & set(selection.__all__)


@pytest.mark.parametrize("mixing", [0.05, 0.15, 0.5])
@pytest.mark.parametrize("options", [{"preset": "dlib"}, {"preset": Preset(0.05)}, {"similarity": "spearman"}])
def test_single_precision_changes_nothing_that_counts(monkeypatch, mixing, options):
    import karenina.selection._udr as module

    rng = np.random.default_rng(15)
    factors = rng.normal(size=(3000, 8))
    codes = [mixed(rng, factors, mixing, 0.3) for _ in range(12)]
    kl = np.ones((12, 8))
    monkeypatch.setattr(module, "_LARGE", np.inf)
    double = udr(codes, kl, matrices=True, **options)
    monkeypatch.setattr(module, "_LARGE", 0)
    single = udr(codes, kl, matrices=True, **options)
    changed = max(np.abs(single.matrices[pair] - double.matrices[pair]).max() for pair in double.matrices)
    assert changed < 1e-6
    assert (changed > 0) == (mixing < 0.5 or "similarity" in options)


@pytest.mark.parametrize("dead", [1e-3, 0.02])
@pytest.mark.parametrize("similarity", ["lasso", "spearman"])
def test_dead_latents_that_echo_live_ones_change_nothing(similarity, dead):
    # A dead latent's mean code is a faint copy of live ones; standardised, it would be as large as they are.
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(500, 3))
    clean = [factors @ np.diag(rng.choice([-1, 1], 3)) + 0.1 * rng.normal(size=(500, 3)) for _ in range(3)]
    echoes = [1e-4 * (z @ rng.normal(size=(3, 2)) + 0.01 * rng.normal(size=(500, 2))) for z in clean]
    with_dead = [np.hstack([z, echo]) for z, echo in zip(clean, echoes)]
    kl = np.array([[2.0, 2.0, 2.0, dead, dead]] * 3)
    np.testing.assert_allclose(
        udr(with_dead, kl, similarity=similarity).pairwise,
        udr(clean, kl[:, :3], similarity=similarity).pairwise,
        atol=1e-6,
    )


def half_dead(rng, n=2000):
    """A clean model and two whose latents are nearly the same: the lasso finds the rest in their small difference."""
    z = rng.normal(size=(n, 2))
    return [z, z @ [[1.0, 1.0], [0.1, -0.1]], z @ [[1.0, -1.0], [0.15, 0.1]]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"preset": Preset(1e-4, multitask=False, uninformative="drop")},
        {"preset": Preset(1e-4)},
        {"preset": Preset(uninformative="keep")},
    ],
)
def test_never_above_one(options):
    ranking = udr(half_dead(np.random.default_rng(16)), np.full((3, 2), 0.5), matrices=True, **options)
    assert max(matrix.max() for matrix in ranking.matrices.values()) > 3  # weights are given as they are
    assert 0 < ranking.values.min() <= ranking.values.max() <= 1
    for (i, j), R in ranking.matrices.items():
        terms = [np.minimum(R.max(axis=axis) ** 2 / R.sum(axis=axis), 1) for axis in (0, 1)]
        assert ranking.pairwise[i, j] == pytest.approx(np.mean(terms), abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 6))
def test_equation_2_is_at_most_one_for_any_weights(seed, spread):
    from karenina.selection._udr import udr_value

    rng = np.random.default_rng(seed)
    R = np.exp(spread * rng.normal(size=(4, 6))) * rng.integers(2, size=(4, 6))
    target, source = rng.random(4) < 0.7, rng.random(6) < 0.7
    assert 0 <= udr_value(R, target, source, False) <= 1 + 1e-12
    assert 0 <= udr_value(R, target, source, True) <= 1 + 1e-12


@pytest.mark.parametrize("similarity", ["lasso", "spearman"])
def test_the_letter_of_equation_2_keeps_uninformative_latents(similarity):
    codes, kl = trained(np.random.default_rng(17))
    informative = [row > 0.01 for row in kl]
    ranking = udr(codes, kl, similarity=similarity, preset=Preset(uninformative="keep"), matrices=True)
    for (i, j), R in ranking.matrices.items():
        np.testing.assert_allclose(R, similarity_matrix(codes[i], codes[j], similarity=similarity), atol=1e-12)
        expected = equation_2(R, informative[i], informative[j])
        assert ranking.pairwise[i, j] == pytest.approx(expected, abs=1e-9)
    assert not np.allclose(ranking.scores, udr(codes, kl, similarity=similarity).scores, atol=1e-3)


def test_entropies_in_place_of_maxima_are_those_of_dci():
    """Duan et al. (2020), A.2: the aggregation of Eastwood & Williams on a similarity matrix, both ways."""
    from karenina.metrics import dci_from_importance
    from karenina.selection import Preset, udr

    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 4))
    codes = [z, z @ rng.normal(size=(4, 4)), z[:, ::-1] + rng.normal(size=z.shape)]
    kl = np.array([[1, 1, 1, 0.0], [1, 1, 1, 1], [1, 0, 1, 1]])
    given = {"similarity": "spearman", "matrices": True}
    found = udr(codes, kl, preset=Preset(aggregation="entropy"), **given)
    for (i, j), matrix in found.matrices.items():
        kept = matrix[np.ix_(kl[i] > 0, kl[j] > 0)]
        rows = dci_from_importance(kept).disentanglement
        columns = dci_from_importance(kept.T).disentanglement
        assert found.pairwise[i, j] == pytest.approx((rows + columns) / 2)
    assert (found.scores != udr(codes, kl, **given).scores).all()
    same = udr([z, -z[:, ::-1]], np.ones((2, 4)), preset=Preset(aggregation="entropy"))
    assert same.scores == pytest.approx([1, 1], abs=0.05)
    alone = udr([z[:, :1], z[:, :1] ** 3], np.ones((2, 1)), preset=Preset(aggregation="entropy"))
    assert alone.scores == pytest.approx([1, 1])
    with pytest.raises(ValueError, match="aggregation must be one of maximum, entropy"):
        Preset(aggregation="mean")
