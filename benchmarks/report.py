"""The page of large studies: CPU seconds to make it, its size, and (with chromium) how long it takes to open.

300 models should take under 60 s and give under 20 MB; 5,000 models should still work. Models are copies of a few short
runs under the names of a large plan, with scores drawn at random: making the page reads them like any others.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from karenina.pages.page import report
from karenina.studies.compare import compare_models
from karenina.studies.plan import parse
from karenina.studies.study import Study
from karenina.studies.worker import execute

PLAN = """
name = "{models} models"
data = "{data}"
seeds = {seeds}
steps = 100
latents = 10
[methods.beta_vae]
beta = [1, 2, 4, 6, 8, 16]
[methods.beta_tcvae]
beta = [1, 2, 4, 6, 8, 10]
[evaluation]
metrics = ["mig", "modularity", "sap", "dci_lasso", "z_min_variance", "irs"]
rows = 1000
[selection]
udr = ["spearman"]
partners = 10
"""


def make_study(out: Path, data: str, seeds: int) -> int:
    plan = parse(PLAN.format(models=12 * seeds, data=data, seeds=seeds))
    folder = Study(out)
    folder.adopt(plan)
    first = plan.points[:2]
    for point in first:
        assert execute(str(out), point, plan.evaluation, 60.0).status == "done"
    rng = np.random.default_rng(0)
    templates = [json.loads(folder.scores_path(point.hash, plan.evaluation.hash).read_text()) for point in first]
    codes = np.load(folder.run_path(first[0].hash) / "codes.npy")
    for i, point in enumerate(plan.points[2:]):
        source = folder.run_path(first[i % 2].hash)
        target = folder.run_path(point.hash)
        target.mkdir()
        for name in ("run.json", "model.safetensors", "history.parquet", "kl.npy"):
            (target / name).hardlink_to(source / name)
        np.save(target / "codes.npy", codes + rng.normal(0, rng.uniform(0, 2), codes.shape).astype(np.float32))
        rows = [
            [*row[:4], None if row[4] is None else row[4] + rng.normal(0, 0.1), row[5]] for row in templates[0]["rows"]
        ]
        scores = {**templates[i % 2], "run": point.hash, "rows": rows}
        folder.scores_path(point.hash, plan.evaluation.hash).write_text(json.dumps(scores))
    compare_models(folder, plan)
    folder.write_results(plan)
    return len(plan.points)


def opening(page: Path) -> str:
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    try:
        from selenium.webdriver import Chrome, ChromeOptions
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        return "selenium is not installed"
    if None in paths:
        return "no chromium"
    options = ChromeOptions()
    options.binary_location = paths[0]
    for flag in ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    with tempfile.TemporaryDirectory() as profile:
        options.add_argument(f"--user-data-dir={profile}")
        driver = Chrome(options=options, service=Service(paths[1]))
        try:
            driver.get(page.resolve().as_uri())
            script = "return [performance.timing.loadEventEnd - performance.timing.navigationStart,"
            found = driver.execute_script(f"{script} document.querySelectorAll('#scatter .point').length]")
        finally:
            driver.quit()
    return f"opens in {found[0] / 1000:.2f} s with {found[1]} points"


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [300]
    for models in sizes:
        for data in ("blobs", "dsprites"):
            with tempfile.TemporaryDirectory() as folder:
                count = make_study(Path(folder) / "study", data, models // 12)
                began, cpu = time.perf_counter(), time.process_time()
                page = report(Path(folder) / "study")
                took, used = time.perf_counter() - began, time.process_time() - cpu
                size = page.stat().st_size / 1e6
                print(
                    f"{data}, {count} models: {used:.0f} s of CPU ({took:.0f} s), {size:.1f} MB, {opening(page)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
