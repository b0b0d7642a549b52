"""Whatever happens to a file of a study, its commands give the right numbers or say in one line what is wrong."""

import json
import random
import re
import shutil
import warnings

import pytest

import karenina
from karenina.pages import choice
from karenina.pages.page import report
from karenina.studies import analyse, find_plan, parse, run, status
from karenina.studies.study import Study
from karenina.studies.worker import execute

PLAN = """
name = "tiny"
data = "blobs"
seeds = 2
latents = 2
network = "linear"
steps = 5
population = 1
[methods.beta_vae]
beta = [1, 16]
[evaluation]
metrics = ["mig", "sap"]
rows = 60
[selection]
udr = ["udr_lasso", "udr_spearman_a2a"]
kl_threshold = 1e-9
"""
FILES = ("study.toml", "results.parquet", "together.parquet", "pairs.parquet", "timings.parquet", "scores/*.json")
FILES += tuple(f"runs/*/{name}" for name in ("run.json", "model.safetensors", "history.parquet", "codes.npy", "kl.npy"))
FILES += ("scores", "runs", "runs/*")


@pytest.fixture(autouse=True)
def quick(in_this_process, monkeypatch):
    monkeypatch.setattr(choice, "RESAMPLES", 20)  # of each page's comparison, for every damage


def numbers_of_a_page(path):
    text = report(path, figures=False).read_text()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    if not data:
        assert "There is no finished model yet" in text
        return {"models": {"run": []}}
    return {name: data[name] for name in ("models", "scores", "factors", "order", "best")} | {
        "importance": {run: one["importance"] for run, one in data["details"].items()},
        "missing": "What is missing" in text,
    }


def tables(path):
    found = analyse(path, figures=False)
    return {name: table if isinstance(table, str) else table.to_csv() for name, table in found.items()}


def run_again(path):
    found = run(find_plan(path), path, quiet=True)
    return None if found.failed else karenina.results(path).to_csv(index=False)


COMMANDS = {
    "status": lambda path: len(status(path).done),
    "results": lambda path: karenina.results(path).to_csv(index=False),
    "analyse": tables,
    "report": numbers_of_a_page,
    "run": run_again,
}


def fits(name, found, right):
    """Whether what a command gave is right, or what it says is missing."""
    if name == "status":
        return found <= right
    if name == "results":  # of the models that are there
        return set(found.splitlines()) <= set(right.splitlines())
    if name == "analyse":
        return all(table == right[key] or table.startswith("needs ") for key, table in found.items())
    if name == "report":
        if found["models"] != right["models"]:
            return set(found["models"]["run"]) < set(right["models"]["run"])
        pictured = found["importance"].items() <= right["importance"].items()
        other = {"importance", "missing"} | ({"best"} if found["missing"] else set())
        return pictured and all(found[key] == right[key] for key in right if key not in other)
    return found is None or found == right


def damages(file):
    """Name -> a function that damages the file or folder."""
    yield "deleted", lambda: shutil.rmtree(file) if file.is_dir() else file.unlink()
    if file.is_dir():
        return
    content = file.read_bytes()

    def directory():
        file.unlink()
        file.mkdir()

    def flip(seed):
        chance = random.Random(seed)
        changed = bytearray(content)
        changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)

    yield "a directory", directory
    for share in (0, 0.5):
        yield f"cut to {share:.0%}", lambda share=share: file.write_bytes(content[: int(share * len(content))])
    for seed in range(0 if file.name == "study.toml" else 3):
        yield f"bit {seed} flipped", lambda seed=seed: flip(seed)
    if file.suffix == ".json":
        for text in ("[]", "{}", "3", '{"rows": 5}', "null"):
            yield f"JSON {text}", lambda text=text: file.write_text(text)
        about = json.loads(content)
        for key in about if "rows" in about else ():  # of a run's own files, the tests of training have these
            yield f"{key} of another type", lambda key=key: file.write_text(json.dumps({**about, key: [1.5]}))
        if "rows" in about:
            rows = [[*row[:4], 0.123, None] for row in about["rows"]]
            yield "other numbers", lambda: file.write_text(json.dumps({**about, "rows": rows}))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A finished study of four small models, and what its commands give."""
    path = tmp_path_factory.mktemp("damage") / "tiny"
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(choice, "RESAMPLES", 20)
        plan = Study(path).adopt(parse(PLAN))
        for point in plan.points:
            execute(str(path), point, plan.evaluation, 60)
        run(plan, path, quiet=True)
        return path, {name: command(path) for name, command in COMMANDS.items()}


def outcome(command, study):
    """What a command gives and what it says: an error of one line, or warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return command(study), [str(warning.message) for warning in said]
        except (ValueError, OSError) as error:
            return None, [str(error)]


@pytest.mark.parametrize("pattern", FILES)
def test_a_damaged_file_gives_the_right_numbers_or_one_clear_line(tiny, tmp_path, pattern):
    original, right = tiny
    target = sorted(original.glob(pattern))[0].relative_to(original)
    for damage, _ in damages(original / target):
        study = shutil.copytree(original, tmp_path / "study")
        dict(damages(study / target))[damage]()
        for name, command in COMMANDS.items():
            found, said = outcome(command, study)
            what = f"{name} with {target} {damage}: {said}"
            assert all(line.strip() and "\n" not in line for line in said), what
            incomplete = name == "analyse" and any("is not complete" in line for line in said)
            assert (found is None and (said or name == "run")) or incomplete or fits(name, found, right[name]), what
        shutil.rmtree(study)


def test_results_of_another_scoring_are_not_shown(tiny, tmp_path):
    """Killed after all models were scored anew, and before the table was written."""
    path = tmp_path / "study"
    shutil.copytree(tiny[0], path)
    plan = Study(path).adopt(parse(PLAN.replace('"sap"', '"modularity"')))
    for point in plan.points:
        assert execute(str(path), point, plan.evaluation, 60).status == "done"
    metrics = set(karenina.results(path)["metric"])
    assert "modularity" in metrics
    assert "sap" not in metrics
