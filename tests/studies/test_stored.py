"""A study that version 0.1 wrote, with the names of that time, still opens and gives the same numbers."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import karenina

STORED = Path(__file__).parent / "stored"


@pytest.fixture
def stored(tmp_path):
    return shutil.copytree(STORED, tmp_path / "stored")


def test_results_are_those_that_were_written(stored):
    written = pq.read_table(STORED / "results.parquet").to_pandas()
    assert karenina.results(stored).equals(written)
    (stored / "results.parquet").unlink()
    assert karenina.results(stored).equals(written)


def test_running_it_again_trains_nothing_and_computes_the_same(stored):
    plan = karenina.studies.find_plan(stored)
    (stored / "results.parquet").unlink()
    (stored / "together.parquet").unlink()
    before = {file.name: file.read_bytes() for file in (stored / "scores").iterdir()}
    status = karenina.studies.run(plan, stored, workers=1, quiet=True)
    assert len(status.done) == 6
    assert {file.name: file.read_bytes() for file in (stored / "scores").iterdir()} == before
    for name in ("results", "together", "pairs"):
        found, written = (pq.read_table(folder / f"{name}.parquet") for folder in (stored, STORED))
        assert found.schema.equals(written.schema)
        since = {b"scoring": plan.evaluation.hash.encode(), b"active": b"0.0001"} if name == "results" else {}
        assert (found.schema.metadata or {}) == (written.schema.metadata or {}) | since
        pd.testing.assert_frame_equal(found.to_pandas(), written.to_pandas(), rtol=0, atol=1e-9)


def test_its_runs_open(stored):
    for folder in sorted((stored / "runs").iterdir()):
        run = karenina.open(folder)
        images, _ = karenina.load("blobs").sample(60, np.random.default_rng([0, 20_190_612]))
        np.testing.assert_allclose(run.encode(images)[0], np.load(folder / "codes.npy"), atol=1e-5)
