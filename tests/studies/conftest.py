import pytest

from karenina.studies.execution.folder import Folder
from karenina.studies.execution.runner import run
from karenina.studies.execution.worker import execute
from karenina.studies.plan.parsing import parse

SMOKE = """
name = "tiny"
data = "blobs"
seeds = 2
latents = 3
network = "mlp"
steps = 40
checkpoint_seconds = 0.05
[methods.beta_vae]
beta = [1, 16]
[methods.beta_tcvae]
beta = [1, 16]
[evaluation]
metrics = ["mig", "sap"]
rows = 200
[selection]
udr = ["udr_spearman", "udr_spearman_a2a"]
spearman_rows = 200
kl_threshold = 0.0001
"""


@pytest.fixture(scope="session")
def smoke():
    return parse(SMOKE)


@pytest.fixture(scope="session")
def finished(smoke, tmp_path_factory):
    """The study run model by model in this process: what every other way of running it must give."""
    path = tmp_path_factory.mktemp("study") / "reference"
    Folder(path).adopt(smoke)
    for point in smoke.points:
        assert execute(str(path), point, smoke.evaluation, 60).status == "done"
    run(smoke, path, quiet=True)
    return path
