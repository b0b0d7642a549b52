"""The clustering study, at sizes where nothing is learned: its phases, kills, and bad input."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score

from karenina.papers.duan2020.clustering import study
from karenina.papers.duan2020.clustering.agent import TrueTransition, random_actions
from karenina.papers.duan2020.clustering.monet import train_transitions
from karenina.papers.duan2020.clustering.plan import ClusteringPlan, plan_for
from karenina.papers.duan2020.clustering.results import correlations, verdict
from karenina.papers.duan2020.clustering.study import ClusteringStudy, foreground_ari, part_of, same_slots
from karenina.papers.duan2020.clustering.world import random_sprites, render_with_masks
from karenina.training.run import read_tensors

TINY = ClusteringPlan(
    side=16, scale=0.3, monet_steps=6, betas=(0.0, 0.01), seeds=2, episodes=6, episode=2, component_steps=35,
    transition_steps=5, initialisations=2, cap=12, window=2, singles=300, units=16,
)  # fmt: skip
SPRITES, SCENES = 20, 20  # of the traces and of the gate: ten times fewer than a study has


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "WATCHED", SPRITES)
        patch.setattr(ClusteringStudy.gate, "__defaults__", (SCENES,))
        yield


@pytest.fixture(scope="module")
def finished(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    lines = []
    return folder, ClusteringStudy(TINY, folder, say=lines.append).run(), lines


def contents(folder):
    """All results of a study, as arrays and numbers."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    found = {}
    for name in names:
        if name.endswith("json"):
            found[name] = json.loads((folder / name).read_text())
        else:
            found[name] = {key: value.tolist() for key, value in read_tensors(folder / name)[0].items()}
    return found


def test_one_row_per_model_and_constant_effort_is_censored(finished):
    folder, rows, _ = finished
    assert [(row["beta"], row["seed"]) for row in rows] == [(0.0, 0), (0.0, 1), (0.01, 0), (0.01, 1)]
    for row in rows:
        assert (row["steps"], row["censored"]) == (12.0, 2)  # an untrained agent does not get there in 12 steps
        # A model whose partner has no informative latent has no UDR: which those are differs from machine to machine.
        assert all(np.isfinite(value).all() for name, value in row.items() if name != "udr_spearman")
        assert row["udr_spearman"] is None or 0 <= row["udr_spearman"] <= 1
    assert not list(folder.rglob("*.checkpoint"))
    assert -0.5 <= json.loads((folder / "gate.json").read_text())["ari"] <= 1


def test_what_is_done_is_not_done_again(finished):
    folder, rows, _ = finished
    lines = []
    assert ClusteringStudy(TINY, folder, say=lines.append).run() == rows
    assert not [line for line in lines if "/" in line]


def test_rows_before_the_last_seed_is_done(finished, tmp_path):
    folder, rows, _ = finished
    copied = shutil.copytree(folder, tmp_path / "part")
    (copied / "results.json").unlink()
    (copied / "agents" / "1.json").unlink()
    part = ClusteringStudy(TINY, copied).measures()
    assert part == [row for row in rows if row["seed"] == 0]
    assert not (copied / "results.json").exists()


KILLED = f"""
import os, signal, sys
import torch
torch.set_num_threads(1)
from pathlib import Path
from karenina.papers.duan2020.clustering.plan import ClusteringPlan
from karenina.papers.duan2020.clustering import study
from karenina.papers.duan2020.clustering.study import ClusteringStudy

study.WATCHED, ClusteringStudy.gate.__defaults__ = {SPRITES}, ({SCENES},)
folder, plan, *moments = sys.argv[1:]
for moment in moments:  # forked before torch has done any work, so that only one import is paid for
    if (process := os.fork()) == 0:
        def say(line):
            if line.startswith(moment):
                os.kill(os.getpid(), signal.SIGKILL)

        ClusteringStudy(ClusteringPlan(**eval(plan)), Path(folder), say=say, checkpoint_every=0.0).run()
        os._exit(0)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL, moment
"""


def test_killed_in_every_phase_it_ends_the_same(finished, tmp_path):
    folder, rows, lines = finished
    moments = ["monet 4/", "exploration 1/", "components of beta 0 20/", "components of beta 0.01 20/"]
    moments += ["transitions of beta 0.01 3/", "agents of models [0"]
    for moment in moments:
        assert any(line.startswith(moment) for line in lines), moment
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, repr(vars(TINY)), *moments], check=False)
    assert killed.returncode == 0
    assert ClusteringStudy(TINY, tmp_path).run() == rows
    assert contents(tmp_path) == contents(folder)


def test_a_damaged_checkpoint_costs_time_only(tmp_path):
    def data():
        rng = torch.Generator().manual_seed(0)
        return torch.randn(2, 50, 3, generator=rng), torch.rand(50, 4, generator=rng), torch.zeros(2, 50, 3)

    def trained(name):
        return train_transitions(tmp_path / name, data, latents=3, seeds=[0, 1], steps=4).state_dict()

    (tmp_path / "b.checkpoint").write_bytes(b"half a file")
    one, two = trained("a.safetensors"), trained("b.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in one)
    with pytest.raises(ValueError, match="choose another folder"):
        train_transitions(tmp_path / "a.safetensors", data, latents=3, seeds=[0, 1], steps=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masks": "none"}, 'masks must be "monet" or "oracle"'),
        ({"sprites": 0}, "4 sprites"),
        ({"betas": ()}, "betas must be different numbers"),
        ({"betas": (-1.0,)}, "betas must be different numbers from 0 on"),
        ({"betas": (1.0, 1.0)}, "betas must be different numbers"),
        ({"own": True, "masks": "oracle"}, "masks must be"),
        ({"cap": 0}, "cap must be at least 1, got 0"),
        ({"seeds": 0}, "seeds must be at least 1"),
    ],
)
def test_bad_plans_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(TINY, **changes)


def test_a_folder_keeps_its_plan(finished):
    folder, *_ = finished
    with pytest.raises(ValueError, match=r"another plan \(cap differ\)"):
        ClusteringStudy(replace(TINY, cap=13), folder)
    with pytest.raises(ValueError, match="no scale 'huge'; known: smoke, laptop, paper"):
        plan_for("huge")
    assert plan_for("laptop", seed=3).seed == 3
    assert len(plan_for("laptop").strengths) == 30


def test_rand_index_is_of_foreground_pixels():
    rng = np.random.default_rng(0)
    true = render_with_masks(random_sprites(["any"] * 3, rng, scenes=4, scale=0.3), 16)[1]
    assert foreground_ari(true, true[:, [2, 0, 3, 1]]) == [1.0] * 4
    noise = rng.random(true.shape)
    owners = true.argmax(1)
    for i, value in enumerate(foreground_ari(true, noise)):
        inside = owners[i] > 0
        assert value == pytest.approx(adjusted_rand_score(owners[i][inside], noise[i].argmax(0)[inside]))


def test_slots_are_followed_through_a_step_and_a_change_of_order():
    rng = np.random.default_rng(0)
    scenes = random_sprites(["any"] * 4, rng, scenes=60, scale=0.2)
    images, masks = render_with_masks(scenes, 32)
    actions = np.stack([random_actions(mask, 1, rng) for mask in masks])
    after = render_with_masks(TrueTransition().predict(scenes, actions)[:, 0], 32)
    shuffle = np.array([3, 0, 4, 1, 2])
    found = same_slots(images, masks, after[0], after[1][:, shuffle])
    assert (shuffle[found] == np.arange(5)).mean() > 0.98


def test_part_of_a_stack_is_those_networks(finished):
    folder, *_ = finished
    vae, _ = ClusteringStudy(TINY, folder).components
    part = part_of(vae, [3, 1])
    x = torch.rand(1, 5, 16, 64)
    whole = vae.encode(x.expand(4, -1, -1, -1))[0]
    torch.testing.assert_close(part.encode(x.expand(2, -1, -1, -1))[0], whole[[3, 1]])
    assert len(vae.first.weight) == 4


def rows_of(score, steps, betas):
    rows = [{"beta": b, "steps": s, "udr_spearman": u} for u, s, b in zip(score, steps, betas)]
    return [row | {"seed": sum(other["beta"] == row["beta"] for other in rows[:i])} for i, row in enumerate(rows)]


def test_correlations_are_scipys_and_beta_alone_does_not_explain_within():
    rng = np.random.default_rng(0)
    betas = np.repeat([0.01, 0.1, 1.0], 10)
    effect = np.repeat([0.0, 5.0, 10.0], 10)
    score, steps = effect + rng.normal(size=30), 1000 - 50 * effect + rng.normal(size=30)
    (found,) = correlations(rows_of(score, steps, betas), ["udr_spearman"])
    assert found.rho == pytest.approx(spearmanr(score, steps)[0])
    assert found.per_beta == pytest.approx(
        {b: spearmanr(score[betas == b], steps[betas == b])[0] for b in np.unique(betas)}
    )
    assert found.within == pytest.approx(np.mean(list(found.per_beta.values())))
    assert found.verdict == "agrees"
    assert verdict(found.within_interval) == "cannot tell"
    assert found.interval[0] <= found.rho <= found.interval[1]


def test_intervals_within_a_beta_cover():
    """Of normal pairs with correlation .5, Spearman tends to 6/pi asin(1/4)."""
    rng = np.random.default_rng(0)
    betas, truth = np.repeat([0.01, 0.1, 1.0], 8), 6 / np.pi * np.arcsin(0.25)
    covered = []
    for _ in range(30):
        score = rng.normal(size=24)
        rows = rows_of(score, 0.5 * score + 0.75**0.5 * rng.normal(size=24), betas)
        (found,) = correlations(rows, ["udr_spearman"])
        covered.append(found.within_interval[0] <= truth <= found.within_interval[1])
    assert sum(covered) >= 26


def test_correlations_with_nothing_to_see():
    (found,) = correlations(rows_of([0.1, 0.2, None, 0.4], [3000.0] * 4, [1.0] * 4), ["udr_spearman"])
    assert np.isnan(found.rho)
    assert np.isnan(found.interval).all()
    assert found.verdict == "cannot tell"
    assert verdict((0.1, 0.5)) == "disagrees"
