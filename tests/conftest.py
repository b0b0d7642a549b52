import contextlib
import io
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `planted`, the representations that tests share

# One thread, before numpy is loaded: results must not depend on it, and small problems are faster with one.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("KARENINA_DATA", None)


def pytest_collection_modifyitems(config, items):
    """Mark the tests of slow.txt, which `make test` leaves out; a line that names no test is an error."""
    root = Path(__file__).parent
    lines = [line for line in (root / "slow.txt").read_text().splitlines() if not line.startswith("#")]
    left = set(lines)
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if found := {name, name.partition("[")[0]} & set(lines):
            item.add_marker("slow")
            left -= found
    if left and config.args == [str(root)] and not config.option.keyword:
        raise pytest.UsageError(f"tests/slow.txt names tests that are not there: {', '.join(sorted(left))}")


@pytest.fixture(scope="session", autouse=True)
def print_dpi():
    """Figures are drawn with few pixels, which takes half the time; this is how many they have for users."""
    from karenina.drawing import figure

    before, figure.DPI = figure.DPI, 60
    return before


@pytest.fixture(scope="session")
def command():
    """The command line without the second that a process of its own takes to import: command("data", "list")."""
    from karenina.cli import main

    def run(*words, cwd="."):
        with (
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
            mock.patch.object(sys, "argv", ["karenina", *map(str, words)]),
            mock.patch.object(warnings, "showwarning"),
            mock.patch.dict(os.environ),
        ):
            try:
                main()
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    return run


class InThisProcess:
    """What a study's pool of workers does, without the processes, each of which imports torch."""

    def __init__(self, folder, plan, *others):
        self.folder, self.plan = folder, plan

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, tasks, tick):
        from karenina.studies.worker import perform

        for task in tasks:
            for one in (task, *((point,) for point in task if len(task) > 1)):
                yield perform(str(self.folder.path), one, self.plan.evaluation, 60)


@pytest.fixture(scope="session")
def no_workers():
    """A context in which studies run in this process. Tests of the pool itself do not use it."""
    return lambda: mock.patch("karenina.studies.runner._pool", InThisProcess)


@pytest.fixture
def in_this_process(no_workers):
    with no_workers():
        yield


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    selenium = pytest.importorskip("selenium", reason="selenium is not installed")
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        pytest.skip("there is no chromium with its chromedriver")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    assert selenium
    options = ChromeOptions()
    options.binary_location = paths[0]
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    for flag in [*flags.split(), "disable-component-update", "disable-sync", "window-size=1280,900"]:
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        driver = Chrome(options=options, service=Service(paths[1]))
    driver.set_script_timeout(20)
    yield driver
    driver.quit()


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
    from karenina.studies.plan import parse

    return parse(SMOKE)


@pytest.fixture(scope="session")
def finished(smoke, tmp_path_factory):
    """The study run model by model in this process: what every other way of running it must give."""
    from karenina.studies.runner import run
    from karenina.studies.study import Study
    from karenina.studies.worker import execute

    path = tmp_path_factory.mktemp("study") / "reference"
    Study(path).adopt(smoke)
    for point in smoke.points:
        assert execute(str(path), point, smoke.evaluation, 60).status == "done"
    run(smoke, path, quiet=True)
    return path
