from pathlib import Path

import numpy as np
import pytest

PLAN = """
name = "small <b>study</b> & more"
data = "{data}"
seeds = {seeds}
steps = 40
latents = 5
trace = true
[methods.beta_vae]
beta = [1, 8]
[evaluation]
metrics = ["mig", "modularity", "sap"]
rows = 400
[selection]
udr = ["udr_lasso"]
kl_threshold = 0.0001
"""


def _make_study(out, data="blobs", seeds=2, leave=0):
    """A study in this process, without the pool; the last `leave` models are left undone."""
    from karenina.studies.compare import compare_models
    from karenina.studies.plan import parse
    from karenina.studies.study import Study
    from karenina.studies.worker import execute

    plan = parse(PLAN.format(data=data, seeds=seeds))
    folder = Study(out)
    folder.adopt(plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karenina.training.loop.TRACE_IMAGES", 20)  # the dynamics score of 200 takes seconds
        for point in plan.points[: len(plan.points) - leave]:
            found = execute(str(out), point, plan.evaluation, 60.0)
            assert found.status == "done", found.reason
    if not leave:
        compare_models(folder, plan)
        folder.write_results(plan)
    return Path(out)


@pytest.fixture(scope="session")
def make_study():
    return _make_study


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    return _make_study(tmp_path_factory.mktemp("report") / "study")


@pytest.fixture(scope="session")
def page(study):
    from karenina.pages.page import report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karenina.pages.choice.RESAMPLES", 20)
        return report(study, study.parent / "page")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Each page compares two models on resampled rows; test_better.py tests the numbers, with all resamples."""
    monkeypatch.setattr("karenina.pages.choice.RESAMPLES", 20)


@pytest.fixture(scope="session")
def unlabelled(tmp_path_factory):
    """Some images of blobs, without their factors."""
    import karenina

    images, _ = karenina.load("blobs").sample(600, np.random.default_rng(0))
    path = tmp_path_factory.mktemp("data") / "own.npz"
    np.savez(path, images=images)
    return path
