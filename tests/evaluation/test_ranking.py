"""Ranking and evaluating real runs."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import karenina
from karenina._console import plain_console
from karenina.cli import app
from karenina.drawing.pictures import save_reconstructions, traverse
from karenina.evaluation.ranking import CRITERIA, centrality, pipe, plot_pairs, rank
from karenina.evaluation.scoring import evaluate, inputs
from karenina.fitting.encoding import encode
from karenina.fitting.export import export
from karenina.training.run import decoder_jacobian

# After 150 steps some latents have a KL of about 0.1.
TRAINED = {"rows": 300, "kl_threshold": 1e-3}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karenina.training.loop.TRACE_IMAGES", 20)  # the dynamics score of 200 takes seconds
        for beta in (1, 16):
            for seed in (0, 1):
                out = folder / f"beta{beta}-{seed}"
                karenina.train("blobs", "beta_vae", beta=beta, seed=seed, latents=4, steps=150, trace=True, out=out)
    return sorted(folder.iterdir())


def expected(by, opened):
    """The scores of runs by a criterion, from the functions that define it."""
    images, _ = inputs(karenina.load("blobs"), 300)
    codes, kl = zip(*((run.encode(images)[0], run.kl(images)) for run in opened))
    betas = [run.config.parameters["beta"] for run in opened]
    alive = [values > 1e-3 for values in kl]
    if by.startswith("udr"):
        options = {"similarity": "spearman" if "spearman" in by else "lasso", "all_to_all": "a2a" in by}
        return karenina.udr(codes, kl, betas, kl_threshold=1e-3, **options).scores
    if by == "consensus":
        elbo = [evaluate(run, metrics=(), rows=300).label_free["elbo"] for run in opened]
        return karenina.selection.consensus(codes, kl, elbo=elbo, kl_threshold=1e-3).scores
    if by == "dynamics":
        found = karenina.dynamics([run.trace for run in opened], betas)
        return [dict(zip(found.groups, found.scores))[beta] for beta in betas]
    if by == "orthogonality":
        jacobians = [decoder_jacobian(run, z[:64])[:, :, kept] for run, z, kept in zip(opened, codes, alive)]
        return [karenina.selection.orthogonality(jacobian) for jacobian in jacobians]
    if by == "support":
        return [-float(karenina.selection.factorised_support(z[:, kept])) for z, kept in zip(codes, alive)]
    if by == "centrality":
        return centrality(opened, alive)
    if by == "pipe":
        return [pipe(run, z) for run, z in zip(opened, codes)]
    if by == "active_units":
        return [kept.sum() for kept in alive]
    terms = [evaluate(run, metrics=(), rows=300).label_free for run in opened]
    column, sign = {
        "elbo": ("elbo", 1),
        "reconstruction": ("reconstruction", -1),
        "kl": ("kl", -1),
        "total_correlation": ("total_correlation_sampled", -1),
        "mutual_information": ("mutual_information_mean", -1),
    }[by]
    return [sign * term[column] for term in terms]


@pytest.mark.parametrize("by", CRITERIA)
def test_every_criterion_puts_the_run_with_the_highest_score_first(runs, by):
    opened = [karenina.open(run) for run in runs]
    scores = dict(zip(map(str, runs), np.asarray(expected(by, opened), float)))
    ranking = rank(runs, by, **TRAINED)
    if by == "consensus":  # where settings agree they come first, and ranks of four models have ties
        assert dict(zip(ranking.frame.run, ranking.frame.score)) == pytest.approx(scores)
        assert ranking.choice.order == [runs.index(run.path) for run in ranking.runs]
        return
    assert ranking.frame.run.tolist() == sorted(scores, key=lambda run: -scores[run])
    assert ranking.frame.score.tolist() == pytest.approx(sorted(scores.values(), reverse=True), rel=1e-5)
    assert [str(run.path) for run in ranking.runs] == ranking.frame.run.tolist()
    assert ranking.best is ranking.runs[0]
    assert ranking.frame["rank"].tolist() == [1, 2, 3, 4]


@pytest.fixture(scope="module")
def kl(runs):
    """KLs of each run, the highest first."""
    return np.array([-np.sort(-evaluate(karenina.open(run), metrics=(), rows=300).kl) for run in runs])


def test_active_units_are_counted_at_the_threshold(runs, kl):
    frame = rank(runs, "active_units", rows=300, kl_threshold=float(np.median(kl))).frame
    assert frame.score.tolist() == frame.active.tolist()
    assert frame.score.sum() == kl.size / 2


@pytest.mark.parametrize(("by", "active"), [("pipe", 0), ("support", 0), ("support", 1), ("orthogonality", 1)])
def test_too_few_active_latents_get_no_score(runs, kl, by, active):
    ranking = rank(runs, by, rows=300, kl_threshold=float(kl[:, active].max()))
    assert ranking.frame.active.max() == active
    assert ranking.frame.score.isna().all()
    with pytest.raises(ValueError, match=f"no run has a score by {by}"):
        _ = ranking.best


def test_the_best_run_has_an_active_latent(runs, kl):
    top = int(kl[:, 0].argmax())
    found = rank(runs, "elbo", rows=300, kl_threshold=float(np.sort(kl[:, 0])[-2]))
    assert sorted(found.frame.active) == [0, 0, 0, (kl[top] > found.kl_threshold).sum()]
    assert str(found.best.path) == str(runs[top])
    with pytest.raises(ValueError, match="no run with a score by elbo has an active latent .KL above 1e.09 nats"):
        _ = rank(runs, "elbo", rows=300, kl_threshold=1e9).best


def test_udr_has_short_names_and_hyphens(runs):
    for names in (("udr", "udr_lasso", "udr-lasso"), ("udr_a2a", "udr_lasso_a2a", "udr-a2a")):
        found = [rank(runs[:2] + runs[2:], by, **TRAINED) for by in names]
        assert {ranking.by for ranking in found} == {names[1]}
        assert all(ranking.frame.equals(found[0].frame) for ranking in found)


def test_a_setting_is_all_but_data_and_seed(runs, tmp_path):
    other = [tmp_path / str(seed) for seed in (0, 1)]
    for seed, out in enumerate(other):
        karenina.train("blobs", "beta_vae", beta=1, seed=seed, latents=4, steps=150, trace=True, batch=32, out=out)
    alone = rank(runs[:2], "udr", **TRAINED).frame.set_index("run").score
    among = rank([*runs[:2], *other], "udr", **TRAINED).frame.set_index("run").score
    assert [among[str(run)] for run in runs[:2]] == pytest.approx([alone[str(run)] for run in runs[:2]])


def test_udr_of_runs_is_udr_of_their_codes(runs):
    data = karenina.load("blobs")
    images, _ = inputs(data, 300)
    opened = [karenina.open(run) for run in runs]
    codes = [run.encode(images)[0] for run in opened]
    settings = [run.config.parameters["beta"] for run in opened]
    direct = karenina.udr(codes, [run.kl(images) for run in opened], settings, kl_threshold=1e-3)
    ranking = rank(runs, "udr", **TRAINED).frame.set_index("run").score
    assert [ranking[str(run)] for run in runs] == pytest.approx(direct.scores, rel=1e-6)


def test_similarity_matrices_are_drawn(runs, tmp_path):
    plot_pairs(rank(runs, "udr_spearman", **TRAINED), tmp_path / "pairs.png")
    assert (tmp_path / "pairs.png").stat().st_size > 5000
    with pytest.raises(ValueError, match="no similarity matrices"):
        plot_pairs(rank(runs, "elbo", rows=300), tmp_path / "none.png")


def test_the_command_prints_the_threshold(runs):
    words = ["rank", *map(str, runs), "--by", "udr-spearman", "--rows", "300", "--kl-threshold", "0.001"]
    found = CliRunner().invoke(app, words, catch_exceptions=False)
    assert found.exit_code == 0
    assert "active: latents with a KL above 0.001 nats" in found.output
    assert "informative" not in found.output  # the glossary's word is active
    assert found.output.splitlines()[0].split()[-1] == "active"


def test_mistakes(runs, tmp_path):
    with pytest.raises(ValueError, match="cannot rank by 'luck'; known: udr"):
        rank(runs, "luck")
    with pytest.warns(UserWarning, match="is the same run as"):
        assert len(rank([*runs, runs[0]], "elbo", rows=50).frame) == 4
    other = np.random.default_rng(0).integers(0, 255, size=(50, 1, 16, 16), dtype=np.uint8)
    karenina.train(other, "vae", latents=4, steps=2, out=tmp_path / "other")
    with pytest.raises(ValueError, match="rank runs of one data set"):
        rank([*runs, tmp_path / "other"], "elbo")
    plain = tmp_path / "plain"
    karenina.train("blobs", "vae", latents=4, steps=2, out=plain)
    with pytest.raises(ValueError, match="has no trace"):
        rank([*runs, plain], "dynamics", rows=50)
    with pytest.raises(ValueError, match="give it by --data"):
        rank([tmp_path / "other"], "elbo")
    own = karenina.data.TableDataSet("own", (), np.zeros((50, 0)), (1, 16, 16), other.__getitem__, source="array")
    assert len(rank([tmp_path / "other"], "elbo", rows=50, data=own).frame) == 1
    with pytest.raises(ValueError, match="no runs"):
        rank([])


def test_evaluation_encodes_the_grid_and_scores_it(runs):
    run = karenina.open(runs[2])
    found = evaluate(run, metrics=["mig", "z_max_variance"], rows=400)
    assert found.codes.shape == (400, 4)
    assert found.kl == pytest.approx(run.kl(inputs(karenina.load("blobs"), 400)[0]), rel=1e-5)
    direct = karenina.metrics.mig(found.codes, found.factors)
    assert found.table["mig"].value == direct.value
    # 400 rows of 3,072 combinations hardly ever agree on three factors: only the whole grid gives this a value.
    assert np.isfinite(found.table["z_max_variance"].per_factor).all()
    assert found.label_free["elbo"] == pytest.approx(
        -found.label_free["reconstruction"] - found.label_free["kl"], rel=1e-6
    )
    table = karenina.score(run, metrics=["mig"])
    assert {row.metric for row in table.rows} >= {"mig", "elbo", "total_correlation_sampled", "informative_latents"}
    json.loads(table.to_json())
    with pytest.raises(ValueError, match="draws its own images"):
        karenina.score(run, np.zeros((5, 2)))


def test_predictors_of_locatello_are_tested_on_other_images(runs):
    run = karenina.open(runs[2])
    found = evaluate(run, metrics=["sap", "mig"], protocol="locatello", rows=400)
    images, factors = inputs(karenina.load("blobs"), 200, 1)
    given = {"standardise": False, "c": 0.01, "continuous": False}
    direct = karenina.metrics.sap(found.codes, found.factors, test=(run.encode(images)[0], factors), **given)
    assert found.codes.shape == (400, 4)
    assert found.table["sap"].value == direct.value
    assert found.table["sap"].value != karenina.metrics.sap(found.codes, found.factors, **given).value


def test_traversals_move_one_latent(runs, tmp_path):
    run = karenina.open(runs[2])
    images = karenina.load("blobs").sample(100, 0)[0]
    walk = run.traverse(images, steps=5)
    assert walk.images.shape == (4, 5, 1, 16, 16)
    assert (np.diff(walk.kl) <= 0).all()
    codes = np.repeat(run.encode(images[:1])[0], 5, axis=0)
    codes[:, walk.order[0]] = [-2, -1, 0, 1, 2]
    assert np.allclose(walk.images[0], run.decode(codes), atol=1e-6)
    for name in ("t.png", "t.gif"):
        walk.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    save_reconstructions(run, images[:4], tmp_path / "r.png")
    posterior = traverse(run, images, steps=5, span="posterior")
    assert (abs(posterior.values) <= abs(run.encode(images)[0]).max() + 1e-6).all()
    for arguments, message in [
        ({"span": "x"}, "prior or posterior"),
        ({"steps": 1}, "at least 2"),
        ({"around": 100}, "100 images"),
    ]:
        with pytest.raises(ValueError, match=message):
            traverse(run, images, **arguments)


def test_jacobian_is_the_derivative_of_the_decoder(runs):
    import torch

    run = karenina.open(runs[0])
    codes = np.random.default_rng(0).normal(size=(3, 4))
    found = decoder_jacobian(run, codes)
    assert found.shape == (3, 256, 4)
    network = run._network
    for code, jacobian in zip(codes, found):
        exact = torch.autograd.functional.jacobian(
            lambda z: network.decode(z[None]).reshape(-1), torch.tensor(code, dtype=torch.float32)
        )
        assert np.allclose(jacobian, exact.numpy(), atol=1e-3)
    with pytest.raises(ValueError, match=r"expected \(n, 4\)"):
        decoder_jacobian(run, codes[:, :2])


def test_tasks_go_into_the_table(runs):
    found = evaluate(karenina.open(runs[2]), metrics=["mig"], rows=300, tasks=True)
    names = {row.metric for row in found.table.rows}
    assert {"downstream_boosted_100", "downstream_logistic_efficiency", "fairness_mean"} <= names
    assert found.table["fairness"].intervened
    assert 0 < float(found.table["fairness"]) < 1
    one = karenina.score(found.codes, found.factors[:, :1], metrics="mig", tasks=True)
    fairness = next(row for row in one.rows if row.metric == "fairness")
    assert "needs two factors" in fairness.note


def test_a_row_is_one_line_of_what_differs(runs, tmp_path, monkeypatch):
    other = tmp_path / "with a name that is longer than a terminal has room for, as names of runs often are"
    karenina.train("blobs", "dip_vae_i", seed=0, latents=4, steps=30, trace=True, out=other)
    monkeypatch.setattr("karenina.cli.score.console", lambda: plain_console(width=80))

    def lines(*paths):
        words = ["rank", *map(str, paths), "--by", "elbo", "--rows", "50"]
        found = CliRunner().invoke(app, words, catch_exceptions=False)
        assert found.exit_code == 0
        rows = found.output.splitlines()[: len(paths) + 1]
        assert [row.split()[0] for row in rows] == ["rank", *map(str, range(1, len(paths) + 1))]
        assert other in paths or max(map(len, rows)) <= 80  # names are whole, to be copied
        return rows, found.output

    rows, text = lines(*runs)
    assert rows[0].split() == ["rank", "run", "setting", "seed", "score", "active"]
    assert sorted(row.split()[1:3] for row in rows[1:]) == [
        [f"beta{beta}-{seed}", f"beta={beta}.0"] for beta in (1, 16) for seed in (0, 1)
    ]
    assert "all: beta_vae, 150 steps, mlp, 4 latents, batch=64" in text
    assert f"runs in {runs[0].parent}\n" in text
    rows, _ = lines(*runs[:2])
    assert rows[0].split() == ["rank", "run", "seed", "score", "active"]
    rows, _ = lines(*runs[:2], other)
    assert any(other.name in row for row in rows)


@pytest.mark.parametrize("given", ["module", "frame", "nothing", "number"])
def test_what_is_no_run_is_said_in_one_line(runs, given, tmp_path):
    run = karenina.open(runs[0])
    wrong = {"module": run.module, "frame": pd.DataFrame({"a": [1]}), "nothing": None, "number": 3}[given]
    kind = type(wrong).__name__
    expected = f"is of type {kind}, expected a run or the path of its directory"
    for call in (
        lambda: rank([run, wrong]),
        lambda: karenina.compare(wrong, run, tmp_path),
        lambda: karenina.compare(run, wrong, tmp_path),
        lambda: karenina.evaluate(wrong),
        lambda: karenina.report([wrong], tmp_path),
        lambda: encode(wrong, "blobs", tmp_path / "codes.csv"),
        lambda: export(wrong, tmp_path / "exported"),
    ):
        with pytest.raises(ValueError, match=expected):
            call()
    if given != "frame":  # whose columns are a list of paths
        with pytest.raises(ValueError, match=expected):
            rank(wrong)
    assert rank(run, "elbo", rows=20).runs == (run,)
    with pytest.raises(ValueError, match="codes is of type Autoencoder, expected a run"):
        karenina.score(run.module)


def test_rank_and_the_report_choose_the_same_run_and_say_the_same_of_it(runs, tmp_path):
    from karenina.pages.choice import choices
    from karenina.pages.contents import read

    ranking = rank(runs)
    page = choices(read(runs))[0]
    assert ranking.best.path.name in (page.best, Path(page.best).name)
    assert ranking.choice.judge("").level == page.level


def test_one_run_is_not_compared(runs):
    with pytest.raises(ValueError, match="give at least 2; got 1"):
        rank(runs[:1], rows=300)
