"""The main job in small: train a sweep, choose a model without labels, check the choice with labels, show it all."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from karenina.pages.choice import choices
from karenina.pages.contents import read_study
from karenina.pages.page import write

# Blobs are 16x16 images whose factors differ in how much they change the picture, so that VAEs separate them in 6,000
# steps. There are 3,072 of them: 3,000 rows pick the same model as 10,000 and are scored in half the time.
PLAN = """
name = "beta-VAE on blobs"
data = "blobs"
seeds = 3
steps = 6000
latents = 8

[methods.beta_vae]
beta = [0.25, 1, 8, 16]

[evaluation]
metrics = ["mig", "mig_sup", "modularity", "sap", "dci_lasso", "dci_forest", "z_diff", "z_min_variance", "irs"]
rows = 3000

[selection]
udr = ["udr_lasso", "udr_lasso_a2a", "udr_spearman"]
"""


def demo(out: str | os.PathLike[str], workers: int = 2, *, say: Callable[[str], None] = print) -> Path:
    """Run the demo into a folder and tell what happens, with the numbers of this run. Gives the path of the page.

    A second call finds the models trained, and only makes the page again.
    """
    from karenina.studies.execution.runner import run
    from karenina.studies.plan.parsing import parse

    started = time.perf_counter()
    plan = parse(PLAN)
    folder = Path(out)
    betas = ", ".join(f"{value:g}" for value in dict(plan.methods[0][1])["beta"])  # type: ignore[union-attr]
    say(f"1. Train {len(plan.points)} models on blobs: beta_vae with beta {betas}, {len(plan.seeds)} seeds each.")
    status = run(plan, folder / "study", workers=workers)
    if status.failed:
        say(f"   {len(status.failed)} of them failed; `karenina study status {folder / 'study'}` says why.")
    trained = time.perf_counter()
    contents = read_study(folder / "study")
    choice = choices(contents)[0]
    say(f"   {len(status.done)} models are trained and scored ({trained - started:.0f} s).")
    say("2. Choose without labels: models that learnt the same from different seeds are probably right (UDR).")
    for setting, part in contents.about.groupby("setting_label", sort=False):
        places = contents.about.index.get_indexer(part.index)
        values = contents.score(contents.ranked_by or "")[places]
        say(f"   {setting:22s} UDR {' '.join(f'{value:.2f}' for value in values)}   median {np.nanmedian(values):.2f}")
    say(f"   {choice.headline}")
    say("3. Check with the labels, which the choice did not see.")
    say(f"   {choice.labels}")
    say(f"   How sure? {choice.sure}")
    say("4. Make the page.")
    page = write(contents, folder / "report")
    say(f"   {page.resolve()} ({time.perf_counter() - started:.0f} s in all). Open it and move the latents.")
    return page
