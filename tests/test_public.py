"""The public names of the design, and what they give."""

import ast
import importlib
import pkgutil
import types
from pathlib import Path

import pytest

import karenina

PUBLIC = [
    "DisentanglingVAE",
    "Method",
    "baselines",
    "compare",
    "dynamics",
    "evaluate",
    "fit",
    "load",
    "open",
    "pick",
    "rank",
    "report",
    "results",
    "score",
    "train",
    "train_many",
    "udr",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    settings = {"latents": 2, "steps": 30, "network": "linear"}
    return [karenina.train("blobs", "beta_vae", seed=seed, out=out / str(seed), **settings) for seed in (0, 1)]


def test_every_public_name_is_there_and_is_no_module():
    assert set(PUBLIC) == set(karenina.__all__) - {"__version__"}
    for name in PUBLIC:
        assert callable(getattr(karenina, name)), name
        assert not isinstance(getattr(karenina, name), types.ModuleType), name


PACKAGES = (
    "audit",
    "cli",
    "data",
    "evaluation",
    "fitting",
    "metrics",
    "models",
    "pages",
    "selection",
    "tasks",
    "training",
)


@pytest.mark.parametrize("package", ["karenina", *(f"karenina.{name}" for name in PACKAGES)])
def test_no_function_hides_a_module_of_its_name(package):
    parent = importlib.import_module(package)
    for module in pkgutil.iter_modules(parent.__path__):
        found = importlib.import_module(f"{package}.{module.name}")
        assert getattr(parent, module.name) is found, module.name


def test_nor_in_the_packages_of_studies():
    for module in pkgutil.walk_packages(karenina.studies.__path__, "karenina.studies."):
        found = importlib.import_module(module.name)
        parent, _, name = module.name.rpartition(".")
        assert getattr(importlib.import_module(parent), name) is found, module.name


def test_the_best_of_a_ranking_is_a_run(runs):
    ranking = karenina.rank(runs, by="udr", rows=200, kl_threshold=1e-9)
    assert ranking.best in runs
    assert str(ranking.best.path) == ranking.frame.run[0]
    nothing = karenina.rank(runs, by="orthogonality", rows=200, kl_threshold=1e9)
    with pytest.raises(ValueError, match="no run has a score by orthogonality"):
        _ = nothing.best


def test_pages_of_runs_and_of_their_directories(runs, tmp_path):
    options = {"metrics": ["mig"], "figures": False}
    page = karenina.report(runs, tmp_path / "a", **options)
    same = karenina.report([run.path for run in runs], tmp_path / "b", **options)
    assert page == tmp_path / "a" / "index.html"
    assert page.read_bytes() == same.read_bytes()
    two = karenina.compare(*runs, tmp_path / "c"), karenina.compare(runs[0].path, runs[1].path, tmp_path / "d")
    assert two[0].read_bytes() == two[1].read_bytes()
    homeless = karenina.train("blobs", latents=2, steps=1)
    with pytest.raises(ValueError, match="without out="):
        karenina.report(homeless)


def test_score_takes_codes_and_factors_or_a_run(runs):
    found = karenina.evaluate(runs[0], metrics=["mig"])
    of_run, of_arrays = karenina.score(runs[0], metrics=["mig"]), karenina.score(found.codes, found.factors, ["mig"])
    assert of_run["mig"].value == of_arrays["mig"].value == found.table["mig"].value


@pytest.mark.parametrize("call", [karenina.score, karenina.report, karenina.compare, karenina.rank])
def test_every_command_on_runs_refuses_other_data_with_the_same_words(runs, call, tmp_path):
    given = {
        karenina.score: (runs[0],),
        karenina.report: (runs[0], tmp_path),
        karenina.compare: (*runs, tmp_path),
        karenina.rank: (runs,),
    }[call]
    with pytest.raises(
        ValueError, match="the run was trained on blobs with images of 1x16x16, not on dsprites with im"
    ):
        call(*given, data="dsprites")


def test_every_module_that_is_imported_exists():
    """Also inside functions, and in processes of their own, where a test may not come along."""
    root = Path(karenina.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("karenina."):
                module = root.joinpath(*node.module.split(".")[1:])
                assert module.with_suffix(".py").exists() or (module / "__init__.py").exists(), (path, node.module)
