"""Tiles, files, processes and Ray give the numbers of the plain run."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from karenina.selection import Workers, alike, udr
from karenina.selection._inputs import RawFile
from karenina.selection._udr import plan, tile_size


def models(count=9, n=60, latents=3, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, latents))
    return [factors @ (np.eye(latents) + 0.3 * rng.normal(size=(latents, latents))) for _ in range(count)]


def pairs_of(tiles):
    found = []
    for tile in tiles:
        cols = tile.rows if tile.cols is None else tile.cols
        wanted = np.ones((len(tile.rows), len(cols)), bool) if tile.wanted is None else tile.wanted.copy()
        if tile.cols is None:
            np.fill_diagonal(wanted, False)
        found += [(tile.rows[a], cols[b]) for a, b in zip(*np.nonzero(wanted))]
        if tile.cols is not None:
            back = np.ones_like(wanted.T) if tile.back is None else tile.back
            found += [(cols[a], tile.rows[b]) for a, b in zip(*np.nonzero(back))]
    return found


@pytest.mark.parametrize("size", [2, 3, 4, 100])
def test_a_plan_has_every_pair_once(size):
    pools = [np.arange(7), np.array([8, 10, 11])]
    found = pairs_of(plan(pools, None, np.random.default_rng(0), size))
    expected = {(i, j) for pool in pools for i in pool for j in pool if i != j}
    assert len(found) == len(expected)
    assert set(found) == expected


@pytest.mark.parametrize("count", [20, 603])
def test_sampled_partners_are_as_many_as_asked_and_spread_evenly(count):
    seen = np.zeros((count, count))
    for seed in range(30):
        tiles = plan([np.arange(count)], 5, np.random.default_rng(seed), 4)
        found = np.array(pairs_of(tiles))
        assert (np.bincount(found[:, 0], minlength=count) == 5).all()
        assert len({tuple(pair) for pair in found}) == len(found)
        assert (found[:, 0] != found[:, 1]).all()
        seen[tuple(found.T)] += 1
    as_source = seen.sum(axis=0)
    assert 100 < as_source.min() <= as_source.mean() == 150 <= as_source.max() < 220


@pytest.mark.parametrize("options", [{}, {"preset": "dlib"}, {"similarity": "spearman"}, {"partners": 3}])
def test_result_does_not_depend_on_the_cut(monkeypatch, options):
    codes, kl = models(), np.ones((9, 3))
    whole = udr(codes, kl, **options)
    monkeypatch.setitem(vars(sys.modules["karenina.selection._udr"]), "tile_size", lambda n, latents: 2)
    cut = udr(codes, kl, **options)
    np.testing.assert_allclose(cut.pairwise, whole.pairwise, atol=1e-10)
    np.testing.assert_allclose(cut.scores, whole.scores, atol=1e-10)


def test_sampled_scores_are_a_subset_of_all():
    codes, kl = models(), np.ones((9, 3))
    some, everything = udr(codes, kl, partners=3), udr(codes, kl)
    compared = ~np.isnan(some.pairwise)
    assert (compared.sum(axis=1) == 3).all()
    np.testing.assert_allclose(some.pairwise[compared], everything.pairwise[compared], atol=1e-12)
    assert (np.diff(udr(codes, kl, partners=100).start) == 8).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_store_on_disk_is_read_model_by_model(tmp_path, monkeypatch, dtype):
    codes, kl = np.array(models(), dtype), np.ones((9, 3))
    np.save(tmp_path / "codes.npy", codes)
    store = np.load(tmp_path / "codes.npy", mmap_mode="r")
    opened = []
    read = RawFile.read
    monkeypatch.setattr(RawFile, "read", lambda self: opened.append(self.offset) or read(self))
    expected = udr(codes, kl)
    assert not opened
    assert udr(store, kl).scores.tobytes() == expected.scores.tobytes()
    assert sorted(set(opened)) == [store.offset + i * codes[0].nbytes for i in range(9)]
    assert udr(list(codes), kl).scores.tobytes() == expected.scores.tobytes()
    part = udr(store[2:6], kl[2:6])
    np.testing.assert_allclose(part.pairwise, expected.pairwise[2:6, 2:6], atol=1e-12)
    for i, z in enumerate(codes):
        np.save(tmp_path / f"{i}.npy", z)
    apart = [np.load(tmp_path / f"{i}.npy", mmap_mode="r") for i in range(9)]
    assert udr(apart, kl).scores.tobytes() == expected.scores.tobytes()


def test_worker_processes_give_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setitem(vars(sys.modules["karenina.selection._udr"]), "tile_size", lambda n, latents: 4)
    codes, kl = models(), np.ones((9, 3))
    calls = []
    alone = udr(codes, kl, n=50)
    workers = Workers(2, progress=lambda done, total: calls.append((done, total)))
    shared = udr(codes, kl, n=50, workers=workers)
    assert shared.pairwise.tobytes() == alone.pairwise.tobytes()
    assert shared.interval.tobytes() == alone.interval.tobytes()
    assert calls == [(k, 6) for k in range(1, 7)]


# In a process of its own: Ray starts threads and changes settings that other tests should not meet.
CLUSTER = """
import sys
import numpy as np
import ray
from ray.cluster_utils import Cluster
from karenina.selection import Workers, alike, udr

codes, kl = np.load(sys.argv[1]), np.ones((9, 3))
options = {"include_dashboard": False, "node_ip_address": "127.0.0.1", "num_cpus": 1}
options |= {"include_log_monitor": False, "no_monitor": True}
cluster = Cluster(initialize_head=True, head_node_args=options)
workers = Workers(ray=cluster.address)
ranking, mcc = udr(codes, kl, workers=workers), alike(codes, workers=workers).mcc
assert ray.is_initialized() and ray.get_runtime_context().gcs_address == cluster.address
np.savez(sys.argv[2], scores=ranking.scores, pairwise=ranking.pairwise, mcc=mcc)
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `ray`")
def test_a_ray_cluster_gives_the_same_bytes(tmp_path):
    codes, kl = np.array(models()), np.ones((9, 3))
    np.save(tmp_path / "codes.npy", codes)
    words = [sys.executable, "-c", CLUSTER, tmp_path / "codes.npy", tmp_path / "found.npz"]
    # Otherwise Ray replaces 127.0.0.1 by the machine's address in a network, at which the cluster does not listen.
    settings = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=settings)
    assert ran.returncode == 0, ran.stderr
    with np.load(tmp_path / "found.npz") as found:
        assert found["scores"].tobytes() == udr(codes, kl).scores.tobytes()
        assert found["pairwise"].tobytes() == udr(codes, kl).pairwise.tobytes()
        assert found["mcc"].tobytes() == alike(codes).mcc.tobytes()


def test_missing_ray_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"karenina\[ray\]"):
        udr(models(), np.ones((9, 3)), workers=Workers(ray="auto"))


def test_tiles_fit_their_memory():
    for n, latents in [(100, 5), (10_000, 10), (1_000_000, 50)]:
        size = tile_size(n, latents)
        assert size == 2 or 8 * n * latents * size <= 128 << 20
