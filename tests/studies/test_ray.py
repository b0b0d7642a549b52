"""The same study on a real Ray cluster of two nodes, one of which is lost on the way."""

import importlib.util
import os
import socket
import subprocess
import sys
import time

import pytest

from karenina.studies.runner import run
from karenina.studies.study import Study

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `ray`")

# In a process of its own: Ray starts threads and changes settings that other tests should not meet.
CLUSTER = """
import sys, threading, time
from pathlib import Path
from ray.cluster_utils import Cluster
from karenina.studies.study import Study
from karenina.studies.plan import read
from karenina.studies.runner import run

plan, out = read(Path(sys.argv[1]), check=False), Path(sys.argv[2])
options = {"include_dashboard": False, "node_ip_address": "127.0.0.1", "include_log_monitor": False, "no_monitor": True}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **options})
lost = cluster.add_node(num_cpus=1, **options)

def lose_a_node():
    while len(Study(out).names("scores")) < 2:
        time.sleep(0.05)
    cluster.remove_node(lost, allow_graceful=False)
    print("a node was lost", flush=True)

thread = threading.Thread(target=lose_a_node)
thread.start()
status = run(plan, out, ray=cluster.address)
thread.join()
print(len(status.done), "done", len(status.failed), "failed")
cluster.shutdown()
"""


@needs_ray
def test_a_cluster_that_loses_a_node_gives_the_same_results(smoke, finished, tmp_path):
    (tmp_path / "study.toml").write_text(smoke.to_toml())
    words = [sys.executable, "-c", CLUSTER, str(tmp_path / "study.toml"), str(tmp_path / "study")]
    # Otherwise Ray replaces 127.0.0.1 by the machine's address in a network, at which the cluster does not listen.
    settings = {**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=settings)
    assert ran.returncode == 0, ran.stderr
    assert "a node was lost" in ran.stdout
    assert "8 done 0 failed" in ran.stdout
    assert (tmp_path / "study" / "results.parquet").read_bytes() == (finished / "results.parquet").read_bytes()


@needs_ray
@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "nowhere.invalid:6379"])
def test_an_address_that_does_not_answer_is_an_error_in_seconds(smoke, tmp_path, address):
    start = time.monotonic()
    with pytest.raises(ValueError, match="no Ray cluster answers at"):
        run(smoke, tmp_path / "study", ray=address, quiet=True)
    assert time.monotonic() - start < 30


@needs_ray
def test_something_else_that_answers_is_no_cluster(smoke, tmp_path, monkeypatch):
    monkeypatch.setattr("karenina.studies.runner._SECONDS_TO_JOIN", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(ValueError, match="no Ray cluster"):
        run(smoke, tmp_path / "study", ray=f"127.0.0.1:{server.getsockname()[1]}", quiet=True)


@needs_ray
def test_an_address_that_is_none(smoke, tmp_path):
    with pytest.raises(ValueError, match="a Ray address is local, auto, HOST:PORT"):
        run(smoke, tmp_path / "study", ray="somewhere", quiet=True)


def test_without_ray_it_says_what_to_install(smoke, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'karenina\[ray\]'"):
        run(smoke, tmp_path / "study", ray="local", quiet=True)
    assert Study(tmp_path / "study").status().waiting == 8
