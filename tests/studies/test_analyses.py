"""Analyses on synthetic frames whose answers are known."""

import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from karenina.numerics.resampling import kendall, median_bounds, spearman
from karenina.studies import analyses
from karenina.studies.analyses import ANALYSES
from karenina.studies.analyses.scores import wide_table
from karenina.studies.study import NotEnough

mpl.use("agg")


def frame_of(values, family="predictor"):
    """A tidy frame from metric -> array (data sets, methods, strengths, seeds)."""
    parts = []
    for metric, cube in values.items():
        d, m, k, s = (axis.ravel() for axis in np.indices(cube.shape))
        part = pd.DataFrame({"data": [f"data{i}" for i in d], "method": [f"method{i}" for i in m], "strength": k * 1.0})
        part["run"] = [f"{a}-{b}-{c}-{e}" for a, b, c, e in zip(d, m, k, s)]
        part["setting"] = [f"{b}-{c}" for b, c in zip(m, k)]
        part["seed"], part["latents"], part["value"] = s, 10, cube.ravel()
        part["metric"], part["property"], part["factor"] = metric, "", ""
        part["family"] = family if isinstance(family, str) else family.get(metric, "predictor")
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def test_planted_variance_components_come_back():
    rng = np.random.default_rng(0)
    shape = (1, 40, 25, 20)
    between_methods, between_strengths, seeds = 0.3, 0.25, 0.45
    cube = (
        np.sqrt(between_methods) * rng.normal(size=(1, 40, 1, 1))
        + np.sqrt(between_strengths) * rng.normal(size=(1, 40, 25, 1))
        + np.sqrt(seeds) * rng.normal(size=shape)
    )
    # What was drawn rather than what was asked for, so that only the analysis is in question.
    total = cube.var()
    method = cube.mean(axis=(2, 3)).var() / total
    setting = cube.mean(axis=3).var() / total
    found = analyses.by_setting.variance_explained(frame_of({"mig": cube})).set_index("predictor")
    assert found.loc["method", "explained"] == pytest.approx(method, rel=1e-9)
    assert found.loc["setting", "explained"] == pytest.approx(setting, rel=1e-9)
    assert found.loc["method", "explained"] == pytest.approx(between_methods, abs=0.1)
    assert found.loc["setting", "adjusted"] == pytest.approx(between_methods + between_strengths, abs=0.1)
    assert (found["low"] < found["adjusted"]).all()
    assert (found["adjusted"] < found["high"]).all()


def test_the_interval_of_variance_explained_has_the_spread_of_new_seeds():
    rng = np.random.default_rng(2)
    settings = rng.normal(size=(1, 3, 4, 1))

    def explained():
        frame = frame_of({"mig": settings + rng.normal(size=(1, 3, 4, 30))})
        return analyses.by_setting.variance_explained(frame).set_index("predictor").loc["setting"]

    found = [explained() for _ in range(60)]
    low, high = np.quantile([one["adjusted"] for one in found], [0.025, 0.975])
    assert np.mean([one["high"] - one["low"] for one in found]) == pytest.approx(high - low, rel=0.25)


@pytest.mark.parametrize("seeds", [3, 6])
def test_the_interval_of_variance_explained_covers_the_share_of_settings_that_are_fixed(seeds):
    """Many trials at once, each a score of its own. The plain share is too large, and its interval misses."""
    rng = np.random.default_rng(0)
    effect = rng.normal(size=(1, 3, 4, 1))
    shares = {"method": effect.mean(axis=2).var(), "setting": effect.var()}
    frame = frame_of({f"trial{i}": effect + 1.5 * rng.normal(size=(1, 3, 4, seeds)) for i in range(150)})
    found = analyses.by_setting.variance_explained(frame)
    for predictor, part in found.groupby("predictor"):
        truth = shares[predictor] / (shares["setting"] + 1.5**2)
        assert 0.9 <= ((part["low"] <= truth) & (truth <= part["high"])).mean() <= 0.99
        assert part["adjusted"].mean() == pytest.approx(truth, abs=0.025)
        assert part["explained"].mean() > part["adjusted"].mean() + 0.1 / seeds


def test_one_seed_cannot_tell_chance_from_settings():
    rng = np.random.default_rng(0)
    found = analyses.by_setting.variance_explained(frame_of({"mig": rng.normal(size=(1, 3, 4, 1))}))
    assert found[["adjusted", "low", "high"]].isna().all(axis=None)
    assert "one seed of each setting" in ANALYSES["variance_explained"].caption(found, ["mig"])
    two = analyses.by_setting.variance_explained(frame_of({"mig": rng.normal(size=(1, 3, 4, 2))}))
    assert two["adjusted"].notna().all()
    assert two["low"].isna().all()
    assert "[" not in ANALYSES["variance_explained"].caption(two, ["mig"])


def test_variance_explained_of_nothing_and_of_everything():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(1, 3, 4, 200))
    exact = np.broadcast_to(np.arange(3.0)[None, :, None, None], noise.shape)
    found = analyses.by_setting.variance_explained(frame_of({"noise": noise, "exact": exact})).set_index(
        ["score", "predictor"]
    )
    assert found.loc[("noise", "setting"), "adjusted"] == pytest.approx(0, abs=0.02)
    assert found.loc[("exact", "method"), "explained"] == pytest.approx(1)
    assert found.loc[("exact", "setting"), "explained"] == pytest.approx(1)


def beating(cubes):
    found = analyses.choosing.beats_random(frame_of(cubes))
    return {(row.metric, row.data): row for row in found.itertuples()}


def test_a_setting_that_is_always_best_always_wins():
    cube = np.broadcast_to(np.arange(12.0).reshape(1, 3, 4, 1), (2, 3, 4, 5))
    found = beating({"a": cube, "b": cube**2})
    assert [row.probability for row in found.values()] == [1, 1, 1, 1]


def test_scores_of_pure_chance_win_half_the_time_and_tie_with_themselves():
    """The random setting is the chosen one once in H times, which counts as equal: P = 1/H + (1 - 1/H)/2."""
    rng = np.random.default_rng(0)
    settings = 6
    cubes = {name: rng.normal(size=(3, 2, 3, 400)) for name in "abcd"}
    for row in beating(cubes).values():
        assert row.probability == pytest.approx((settings + 1) / (2 * settings), abs=0.01)
        assert row.low < row.probability < row.high


def test_planted_transfer_structure():
    """Two data sets rank settings alike, a third in reverse: of the six ordered pairs two transfer, four never win
    but by drawing the same setting."""
    order = np.arange(10.0).reshape(2, 5, 1)
    cube = np.stack([order, order, -order]) + np.zeros((3, 2, 5, 4))
    found = beating({"mig": cube})
    assert set(found) == {("same", "same"), ("same", "other")}
    assert found["same", "same"].probability == 1
    assert found["same", "other"].probability == pytest.approx(2 / 6 + 4 / 6 / 10)
    correlations = analyses.correlations.transfer(frame_of({"mig": cube})).set_index(["a", "b"])["correlation"]
    assert correlations["data0", "data1"] == pytest.approx(1)
    assert correlations["data0", "data2"] == pytest.approx(-1)


def test_missing_runs_do_not_count():
    cube = np.broadcast_to(np.arange(12.0).reshape(1, 3, 4, 1), (2, 3, 4, 5)).copy()
    frame = frame_of({"a": cube})
    holes = frame.drop(frame.index[[0, 17, 60]])
    found = analyses.choosing.beats_random(holes)
    assert (found["probability"] == 1).all()


def test_two_seeds_have_no_interval():
    """Without one of them there is no pair of seeds."""
    cube = np.random.default_rng(0).normal(size=(2, 3, 4, 2))
    found = analyses.choosing.beats_random(frame_of({"a": cube}))
    assert found[["low", "high"]].isna().all(axis=None)
    assert found["probability"].between(0, 1).all()
    assert "nan" not in analyses.choosing.beats_random_caption(found, ())
    figure = ANALYSES["beats_random"].chart(found)
    assert figure.panels[0].series[0].y == found["probability"].tolist()


def test_choices_beat_chance_as_often_as_when_they_are_drawn_one_by_one():
    """Section 5.4 of Locatello et al. (2019) in words: draw, choose, compare."""
    rng = np.random.default_rng(3)
    cubes = {name: np.round(rng.normal(size=(3, 2, 4, 5)) + np.arange(4)[:, None], 1) for name in "ab"}
    frame = frame_of(cubes)
    frame.loc[rng.choice(len(frame), 12, replace=False), "value"] = np.nan
    score = frame.set_index(["metric", "data", "setting", "seed"])["value"]
    datas, settings, seeds = (list(frame[name].unique()) for name in ("data", "setting", "seed"))
    found = analyses.choosing.beats_random(frame).set_index(["metric", "data"])
    for same_metric in (True, False):
        for same_data in (True, False):
            means = []
            for a, b, d, e in itertools.product(cubes, cubes, datas, datas):
                if (a == b) is not same_metric or (d == e) is not same_data:
                    continue
                wins = []
                for s, t in itertools.permutations(seeds, 2):
                    best = max(settings, key=lambda one: np.nan_to_num(score[a, d, one, s], nan=-np.inf))
                    pairs = [(score[b, e, best, t], score[b, e, other, t]) for other in settings]
                    known = [x >= y for x, y in pairs if np.isfinite(x + y)]
                    wins += [np.mean(known)] if known else []
                means.append(np.mean(wins))
            words = tuple("same" if same else "other" for same in (same_metric, same_data))
            assert found.loc[words, "probability"] == pytest.approx(np.mean(means))
            rest = [analyses.choosing.beats_random(frame[frame["seed"] != one]) for one in seeds]
            left = [one.set_index(["metric", "data"]).loc[words, "probability"] for one in rest]
            half = stats.t.ppf(0.975, 4) * np.sqrt(4 / 5 * np.sum((left - np.mean(left)) ** 2))
            assert found.loc[words, "high"] == pytest.approx(min(np.mean(means) + half, 1))


def test_agreement_is_scipys_and_permuted_scores_do_not_agree():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 3, 4, 30))
    cubes = {"a": a, "b": np.round(a + rng.normal(size=a.shape), 1), "c": rng.permutation(a.ravel()).reshape(a.shape)}
    for kind, reference in (("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        found = analyses.correlations.agreement(frame_of(cubes), kind).set_index(["data", "a", "b"])
        assert len(found) == 2 * 3
        for (data, x, y), row in found.iterrows():
            i = int(data[-1])
            assert row["correlation"] == pytest.approx(reference(cubes[x][i].ravel(), cubes[y][i].ravel())[0], abs=1e-9)
            assert row["low"] < row["correlation"] < row["high"]
        chance = found.drop(("data0", "a", "b")).drop(("data1", "a", "b"))
        assert (chance["correlation"].abs() < 0.2).all()


@pytest.mark.parametrize(("correlate", "n"), [(spearman, 10), (spearman, 60), (kendall, 10), (kendall, 60)])
def test_intervals_cover_as_often_as_they_say(correlate, n):
    """Of normal pairs with correlation r, Spearman tends to 6/pi asin(r/2) and Kendall to 2/pi asin(r)."""
    rng = np.random.default_rng(0)
    r = 0.6
    truth = 6 / np.pi * np.arcsin(r / 2) if correlate is spearman else 2 / np.pi * np.arcsin(r)
    covered = 0
    for _ in range(300):
        x = rng.normal(size=(n, 2))
        x[:, 1] = r * x[:, 0] + np.sqrt(1 - r * r) * x[:, 1]
        _, low, high = correlate(x)
        covered += low[0, 1] < truth < high[0, 1]
    assert 0.92 * 300 <= covered <= 0.985 * 300


def test_columns_with_holes_use_the_rows_they_have():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    x[:20, 2] = np.nan
    x[:, 3] = np.nan
    found, low, _ = spearman(x)
    assert found[0, 1] == pytest.approx(stats.spearmanr(x[:, 0], x[:, 1])[0])
    assert found[0, 2] == found[2, 0] == pytest.approx(stats.spearmanr(x[20:, 0], x[20:, 2])[0])
    assert np.isnan(found[:, 3]).all()
    assert np.isfinite(low[:3, :3][~np.eye(3, dtype=bool)]).all()


def test_distribution_is_quantiles():
    rng = np.random.default_rng(0)
    cube = rng.normal(size=(2, 2, 3, 21))
    found = analyses.by_setting.by_method(frame_of({"mig": cube}), ("method", "strength")).set_index(
        ["data", "method", "strength"]
    )
    assert len(found) == 12
    row = found.loc[("data1", "method0", 2.0)]
    np.testing.assert_allclose(
        row[["q25", "median", "q75"]].astype(float), np.quantile(cube[1, 0, 2], [0.25, 0.5, 0.75])
    )
    assert row["low"] <= row["median"] <= row["high"]
    assert row["runs"] == 21


@pytest.mark.parametrize("n", [6, 9, 12, 50])
def test_the_interval_of_a_median_covers_as_often_as_it_says(n):
    rng = np.random.default_rng(0)
    for draw in (rng.normal, rng.exponential, lambda size: rng.beta(0.5, 0.5, size)):
        truth = np.median(draw(size=100_000))
        bounds, kinds = median_bounds([draw(size=n) for _ in range(1000)])
        assert set(kinds) == {"95 %"}
        assert 0.93 < np.mean((bounds[:, 0] < truth) & (truth < bounds[:, 1])) < 0.985


def test_fewer_than_six_models_have_a_range_and_are_said_to():
    rng = np.random.default_rng(0)
    cube = rng.normal(size=(1, 2, 3, 5))
    found = analyses.by_setting.by_strength(frame_of({"mig": cube}))
    assert set(found["bounds"]) == {"range"}
    assert (found["low"] == found["least"]).all()
    assert (found["high"] == found["most"]).all()
    assert "range" in ANALYSES["by_strength"].chart(found, None).note
    assert "95 %" not in ANALYSES["by_strength"].chart(found, None).note
    enough = analyses.by_setting.by_strength(frame_of({"mig": rng.normal(size=(1, 2, 3, 6))}))
    assert "95 % interval" in ANALYSES["by_strength"].chart(enough, None).note
    pair = {f"total_correlation_{kind}": cube for kind in ("mean", "sampled")}
    assert set(analyses.by_setting.total_correlation(frame_of(pair))["bounds"]) == {"range"}
    assert (analyses.by_setting.by_strength(frame_of({"mig": cube[..., :1]}))["bounds"] == "").all()


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interval_of_latents_that_are_off_is_that_of_new_seeds(seeds):
    """Settings are fixed: their differences do not widen it, as they would if all models were alike."""
    rng = np.random.default_rng(0)
    rate = np.linspace(0.1, 0.9, 6)
    on = 10 - rng.binomial(10, rate[None, None, :, None], size=(400, 1, 6, seeds))  # as many trials as data sets
    found = analyses.by_setting.polarised(frame_of({"informative_latents": on}, "label-free"))
    covered = (found["low"] <= 10 * rate.mean()) & (10 * rate.mean() <= found["high"])
    assert 0.92 <= covered.mean() <= 0.98


def test_unsupervised_scores_are_set_against_metrics():
    rng = np.random.default_rng(0)
    good = rng.normal(size=(1, 2, 3, 50))
    cubes = {"mig": good, "elbo": rng.normal(size=good.shape), "udr_lasso": np.exp(good), "udr_spearman": -good}
    family = {"elbo": "label-free", "udr_lasso": "selection", "udr_spearman": "selection"}
    frame = frame_of(cubes, family)
    found = analyses.correlations.unsupervised(frame).set_index("unsupervised")["correlation"]
    assert found["udr_lasso"] == pytest.approx(1)
    assert found["udr_spearman"] == pytest.approx(-1)
    assert abs(found["elbo"]) < 0.15
    versions = analyses.correlations.udr_versions(frame).set_index("version")
    assert versions.loc["udr_lasso", "correlation"] == pytest.approx(1)
    assert versions.loc["udr_lasso", "cells"] == 2  # methods


def test_selectors_gain_what_their_choice_is_worth():
    rng = np.random.default_rng(0)
    strength = np.broadcast_to(np.arange(3.0)[:, None], (1, 2, 3, 20))
    mig = strength + 0.3 * rng.random(size=strength.shape)
    cubes = {
        "mig": mig,
        "udr_lasso": mig**3,  # an oracle
        "dynamics": strength,  # knows the setting and nothing of seeds
        "reconstruction": mig,  # better when small, so that it chooses the worst
        "elbo": rng.normal(size=mig.shape),
    }
    family = {"udr_lasso": "selection", "dynamics": "selection", "reconstruction": "label-free", "elbo": "label-free"}
    found = analyses.choosing.selectors(frame_of(cubes, family)).set_index(["selector", "among"])
    assert found.loc[("udr_lasso", "all"), "gain"] == found.loc[("udr_lasso", "seeds"), "gain"] == 1
    assert found.loc[("udr_lasso", "all"), "regret"] == 0
    best_setting = mig[:, :, 2].mean()
    assert found.loc[("dynamics", "all"), "chosen"] == pytest.approx(best_setting)
    assert found.loc[("dynamics", "seeds"), "gain"] == pytest.approx(0, abs=1e-12)
    worst = (mig.min() - mig.mean()) / (mig.max() - mig.mean())
    assert found.loc[("reconstruction", "all"), "gain"] == pytest.approx(worst)
    by_setting = [(part.mean(), part.max()) for part in mig.reshape(-1, 20)]
    assert found.loc[("elbo", "seeds"), "random"] == pytest.approx(np.mean([mean for mean, _ in by_setting]))
    assert found.loc[("elbo", "seeds"), "oracle"] == pytest.approx(np.mean([best for _, best in by_setting]))
    assert abs(found.loc[("elbo", "seeds"), "gain"]) < 0.6
    known = found["low"].notna()
    assert (found["low"] <= found["gain"] + 1e-12)[known].all()
    assert not known["dynamics", "seeds"]  # it is the same in all settings, which tells nothing of the spread
    assert found.xs("seeds", level="among")["bounds"].unique().tolist() == ["95 %"]
    assert found.xs("all", level="among")["bounds"].unique().tolist() == ["middle 95 % of resamples"]


def test_gains_among_seeds_cover_what_other_settings_have():
    rng = np.random.default_rng(0)
    quality = rng.normal(size=(200, 1, 8, 6))  # as many trials as data sets
    cubes = {"mig": quality, "elbo": quality + 1.5 * rng.normal(size=quality.shape)}
    found = analyses.choosing.selectors(frame_of(cubes, {"elbo": "label-free"}), resamples=2)
    found = found[found["among"] == "seeds"]
    truth = (found["chosen"] - found["random"]).sum() / (found["oracle"] - found["random"]).sum()
    assert 0.9 <= ((found["low"] <= truth) & (truth <= found["high"])).mean() <= 0.985


def test_versions_of_udr_have_the_interval_of_leaving_out_seeds():
    """Cells share their models, so that a resample of cells would know nothing of the seeds."""
    rng = np.random.default_rng(0)
    mig = rng.normal(size=(1, 2, 3, 8))
    cubes = {"mig": mig, "sap": mig + rng.normal(size=mig.shape), "udr_lasso": mig + rng.normal(size=mig.shape)}
    found = analyses.correlations.udr_versions(frame_of(cubes, {"udr_lasso": "selection"})).set_index("version")

    def mean(kept):
        x, *ys = (cubes[name][0][..., kept] for name in ("udr_lasso", "mig", "sap"))
        return np.mean([stats.spearmanr(x[m].ravel(), y[m].ravel())[0] for m in (0, 1) for y in ys])

    left = np.array([mean(np.arange(8) != seed) for seed in range(8)])
    half = stats.t.ppf(0.975, 7) * np.sqrt(7 / 8 * np.sum((left - left.mean()) ** 2))
    row = found.loc["udr_lasso"]
    assert row["correlation"] == pytest.approx(mean(np.arange(8)))
    np.testing.assert_allclose(row[["low", "high"]].astype(float), row["correlation"] + np.array([-half, half]))


def test_more_partners_correlate_better():
    """UDR_ij = quality_i + noise: with P partners the score is quality plus noise of variance falling with P."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=(1, 1, 4, 30))
    frame = frame_of({"mig": quality})
    runs = frame["run"].to_numpy().reshape(4, 30)
    target = np.repeat(runs, 29, axis=1).ravel()
    source = np.concatenate([np.delete(row, i) for row in runs for i in range(30)])
    values = np.repeat(quality.reshape(4, 30), 29, axis=1).ravel() + 3 * rng.normal(size=target.size)
    pairs = pd.DataFrame({"data": "data0", "target": target, "source": source, "value": values})
    found = analyses.correlations.udr_partners(frame, pairs).set_index("partners")
    assert list(found.index) == [5, 10, 15, 20, 25]
    assert found["correlation"].is_monotonic_increasing
    assert found["std"].iloc[0] > found["std"].iloc[-1]
    assert ((found["least"] <= found["correlation"]) & (found["correlation"] <= found["most"])).all()
    assert "(range " in ANALYSES["udr_partners"].caption(found.reset_index(), ["mig"])
    assert "[" not in ANALYSES["udr_partners"].caption(found.reset_index(), ["mig"])
    exact = analyses.correlations.udr_partners(
        frame, pairs.assign(value=np.repeat(quality.reshape(4, 30), 29, axis=1).ravel())
    )
    np.testing.assert_allclose(exact["correlation"], 1)
    unknown = frame.assign(value=frame["value"].where(frame["run"] != frame["run"].iloc[7]))
    exact = analyses.correlations.udr_partners(
        unknown, pairs.assign(value=np.repeat(quality.reshape(4, 30), 29, axis=1).ravel())
    )
    np.testing.assert_allclose(exact["correlation"], 1)


def test_models_without_a_score_are_not_counted():
    rng = np.random.default_rng(0)
    cubes = {name: rng.normal(size=(1, 2, 3, 10)) for name in ("mig", "sap", "downstream_boosted_100")}
    cubes["downstream_boosted_100"][..., 3:] = np.nan
    cubes["sap"][0, 0, 0, 0] = np.nan
    frame = frame_of(cubes, {"downstream_boosted_100": "task"})
    found = analyses.correlations.tasks(frame).set_index("score")["runs"]
    assert found.to_dict() == {"mig": 18, "sap": 17}
    assert analyses.correlations.agreement(frame)["runs"].tolist() == [59]


def test_dynamics_are_set_against_means_over_their_seeds():
    rng = np.random.default_rng(0)
    cube = rng.normal(size=(1, 1, 8, 6)) + 5 * np.arange(8)[None, None, :, None]
    frame = frame_of({"mig": cube, "noise": rng.normal(size=cube.shape)})
    runs = frame["run"].to_numpy()[: cube.size].reshape(8, 6)
    lines = [
        ("data0", f"0-{k}", n, draw, " ".join(runs[k, draw : draw + n]), float(k))
        for n, draws in ((3, 3), (6, 1))
        for draw in range(draws)
        for k in range(8)
    ]
    dynamics = pd.DataFrame(lines, columns=["data", "setting", "seeds", "draw", "runs", "value"])
    found = analyses.correlations.dynamics(frame, dynamics).set_index(["score", "seeds"])
    assert found.loc[("mig", 3), "correlation"] == pytest.approx(1)
    assert found.loc[("mig", 3), "draws"] == 3
    assert found.loc[("mig", 6), "settings"] == 8
    noise = frame[frame["metric"] == "noise"]["value"].to_numpy().reshape(8, 6)
    whole = stats.spearmanr(np.arange(8), noise.mean(axis=1))[0]
    draws = [stats.spearmanr(np.arange(8), noise[:, draw : draw + 3].mean(axis=1))[0] for draw in range(3)]
    assert found.loc[("noise", 6), "correlation"] == pytest.approx(whole)
    assert found.loc[("noise", 3), "correlation"] == pytest.approx(np.mean(draws))
    assert found.loc[("noise", 3), "std"] == pytest.approx(np.std(draws, ddof=1))


def test_polarised_counts_latents_that_are_off():
    informative = np.full((1, 2, 1, 10), 10.0)
    informative[0, 1, 0, :5] = 6
    found = analyses.by_setting.polarised(frame_of({"informative_latents": informative}, "label-free")).set_index(
        "method"
    )
    assert list(found["off"]) == [0, 2]
    assert list(found["runs_with_off"]) == [0, 0.5]
    assert found.loc["method1", "low"] < 2 < found.loc["method1", "high"]


def test_polarised_has_a_bar_for_each_number_of_latents():
    cube = np.stack([np.full((1, 1, 10), 2.0), np.full((1, 1, 10), 8.0)])[None, :, 0]
    frame = frame_of({"informative_latents": cube}, "label-free")
    frame = frame.assign(latents=np.where(frame["method"] == "method0", 4, 16), method="beta_vae")
    (panel,) = analyses.by_setting.polarised_chart(analyses.by_setting.polarised(frame)).panels
    assert panel.ticks == ("beta_vae, 4 latents", "beta_vae, 16 latents")
    assert list(panel.series[0].y) == [2, 8]


def test_total_correlation_against_strength():
    rng = np.random.default_rng(0)
    mean = 10 + np.arange(3.0)[None, None, :, None] + 0.1 * rng.normal(size=(1, 2, 3, 20))
    cubes = {"total_correlation_mean": mean, "total_correlation_sampled": 20 - mean}
    found = analyses.by_setting.total_correlation(frame_of(cubes, "label-free"))
    medians = found.set_index(["representation", "method", "strength"])["median"].sort_index()
    assert medians["mean", "method0"].is_monotonic_increasing
    assert medians["sampled", "method0"].is_monotonic_decreasing
    assert set(found[found["strength"] > 0]["mean_above_sampled"]) == {1.0}


def test_metrics_with_several_properties_are_several_scores():
    frame = frame_of({"dci": np.zeros((1, 1, 2, 3)), "mig": np.ones((1, 1, 2, 3))})
    second = frame[frame["metric"] == "dci"].assign(property="compactness", value=2.0)
    parts = frame[frame["metric"] == "mig"].assign(factor="x", value=np.nan)
    table = wide_table(
        pd.concat([frame, second, parts]).assign(property=lambda f: f["property"].replace("", "modularity"))
    )
    assert table.names == ("dci disentanglement", "mig", "dci completeness")
    assert table.values.tolist() == [[0, 1, 2]] * 6


def test_too_little_is_said():
    one = frame_of({"mig": np.zeros((1, 1, 1, 1))})
    for name in ("agreement", "transfer", "beats_random", "polarised"):
        with pytest.raises(NotEnough, match="needs "):
            ANALYSES[name].compute(one)


def everything():
    rng = np.random.default_rng(0)
    family = dict.fromkeys(("elbo", "informative_latents"), "label-free")
    family |= {f"total_correlation_{kind}": "label-free" for kind in ("mean", "sampled")}
    family |= {"udr_lasso": "selection", "udr_spearman": "selection", "fairness_mean": "task"}
    return frame_of({name: rng.normal(size=(2, 2, 3, 6)) for name in ("mig", "sap", *family)}, family)


@pytest.mark.parametrize("name", analyses.ANALYSES)
def test_every_analysis_has_a_figure(name):
    analysis = analyses.ANALYSES[name]
    frame = everything()
    runs = frame["run"].drop_duplicates()
    extra = {
        "pairs": pd.DataFrame({"data": "", "target": runs, "source": runs, "value": 1.0}),
        "dynamics": pd.DataFrame(
            {"data": "data0", "setting": "0-0", "seeds": 2, "draw": 0, "runs": runs, "value": 1.0}
        ),
    }
    found = analysis.compute(frame, *([extra[analysis.extra]] if analysis.extra else []))
    figure = analysis.figure(found, None)
    assert len(figure.axes) >= 1
    figure.canvas.draw()


def test_tasks_are_correlated_with_every_score_and_are_no_metric():
    rng = np.random.default_rng(0)
    mig = rng.normal(size=(1, 2, 3, 20))
    values = {"mig": mig, "elbo": rng.normal(size=mig.shape), "downstream_boosted_100": mig**3, "fairness_mean": -mig}
    family = {"elbo": "label-free", "downstream_boosted_100": "task", "fairness_mean": "task"}
    frame = frame_of(values, family)
    found = analyses.correlations.tasks(frame).set_index(["task", "score"]).correlation
    assert found["downstream_boosted_100", "mig"] == pytest.approx(1)
    assert found["fairness_mean", "mig"] == pytest.approx(-1)
    assert abs(found["downstream_boosted_100", "elbo"]) < 0.3
    assert set(analyses.correlations.unsupervised(frame).score) == {"mig"}
    with pytest.raises(NotEnough, match="tasks = true"):
        analyses.correlations.tasks(frame_of({"mig": mig}))


def test_a_data_set_without_labels_has_no_correlation_with_partners():
    rng = np.random.default_rng(0)
    cube = rng.random((2, 1, 1, 4))
    cube[1] = np.nan
    frame = frame_of({"mig": cube, "udr_lasso": rng.random((2, 1, 1, 4))}, {"udr_lasso": "selection"})
    names = [[f"{d}-0-0-{s}" for s in range(4)] for d in (0, 1)]
    pairs = [(f"data{d}", a, b, rng.random()) for d in (0, 1) for a in names[d] for b in names[d] if a != b]
    found = ANALYSES["udr_partners"].compute(frame, pd.DataFrame(pairs, columns=["data", "target", "source", "value"]))
    assert set(found["data"]) == {"data0"}  # 0 with the interval [0, 0] before


def test_dynamics_of_runs_that_are_to_be_made_again_are_left_out():
    frame = frame_of({"mig": np.arange(8.0).reshape(1, 1, 4, 2)})
    lines = [("data0", f"0-{k}", 2, 0, f"0-0-{k}-0 0-0-{k}-1", float(k)) for k in range(4)]
    table = pd.DataFrame(lines, columns=["data", "setting", "seeds", "draw", "runs", "value"])
    compute = ANALYSES["dynamics"].compute
    assert compute(frame, table)["settings"].tolist() == [4]
    assert compute(frame[frame["run"] != "0-0-3-1"], table)["settings"].tolist() == [3]
    assert compute(frame[frame["seed"] == 0], table).empty
