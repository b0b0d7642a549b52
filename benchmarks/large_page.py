"""A page of 5,000 models from one run: its size (under 25 MB), how long it takes to make and to open (under 3 s).

Scores are planted, every model has the pictures, the decoder and the history of the given run: the page is as large as
one of 5,000 trained models. `python benchmarks/large_page.py RUN [MODELS] [OUT]`
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from report import opening
from timing import cpu_seconds

from karenina.evaluation.scoring import data_of, evaluate
from karenina.pages.contents import Contents, EncodedImages, _compared
from karenina.pages.page import write
from karenina.studies.plan import Selection
from karenina.studies.study import table_of_runs
from karenina.training import open as open_run


def contents_of(path: Path, models: int, seeds: int = 50) -> Contents:
    run = open_run(path)
    data = data_of(run)
    found = evaluate(run, data, metrics=["mig", "modularity", "sap", "dci_lasso", "z_min_variance", "irs"])
    rng = np.random.default_rng(0)
    names = [f"run{i}" for i in range(models)]
    rows = [tuple(row) for row in found.rows()]

    def shaken() -> list[tuple[object, ...]]:
        noise = rng.normal(0, 0.1, len(rows))
        return [(*row[:4], None if row[4] is None else row[4] + e, row[5]) for row, e in zip(rows, noise)]

    scores = {name: shaken() for name in names}
    frame = table_of_runs(dict.fromkeys(names, run.config), scores)
    place = frame["run"].str.removeprefix("run").astype(int)
    frame["seed"] = place % seeds
    frame["strength"] = 1.0 + place // seeds
    frame["parameters"] = "beta=" + frame["strength"].map("{:g}".format)
    frame["setting"] = frame["parameters"]
    some, pairs = _compared(frame[place < 100], lambda name: (found.codes, found.kl), Selection(udr=("udr_spearman",)))
    udr = some[some["metric"] == "udr_spearman"].iloc[:1]
    every = frame.drop_duplicates("run").assign(
        **{c: udr[c].iloc[0] for c in ("metric", "family", "property", "factor")}
    )
    every["value"] = rng.uniform(0.3, 0.9, len(every))
    import pandas as pd

    return Contents(
        f"{models} models",
        pd.concat([frame, every], ignore_index=True),
        dict.fromkeys(names, path),
        pairs,
        lambda name: (found.codes, found.kl),
        lambda name: EncodedImages.of(data),
        versions=("udr_spearman",),
    )


def main() -> None:
    path, models = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    with tempfile.TemporaryDirectory() as folder:
        out = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(folder)
        contents = contents_of(path, models)
        used, page = cpu_seconds(write, contents, out, figures=False)
        print(f"{models} models: {used:.0f} s of CPU, {page.stat().st_size / 1e6:.1f} MB, {opening(page)}")


if __name__ == "__main__":
    main()
