"""The main comparison of Locatello et al. (2020), "Weakly-supervised disentanglement without compromises"."""

import pandas as pd

from karenina.studies.papers.outputs import PaperTable
from karenina.studies.papers.scores import medians, scores
from karenina.studies.papers.study import Study

NOTE = (
    "Medians over seeds. best: of the setting whose median is highest, which labels choose. reconstruction: of the "
    "model that reconstructs best of all settings and seeds, which needs no labels; so the paper chooses."
)


def table_main(study: Study) -> PaperTable:
    found = scores(study)
    chosen = medians(found).assign(choice="best")
    label_free = study.frame[study.frame["metric"] == "reconstruction"]
    rows = [chosen]
    if len(label_free):
        lowest = label_free.groupby(["data", "method"], sort=False)["value"].idxmin()
        runs = label_free.loc[lowest, "run"]
        rows.append(found[found["run"].isin(runs)].assign(choice="reconstruction", runs=1))
    columns = ["data", "method", "choice", "parameters", "score", "value", "runs"]
    frame = pd.concat([part[columns] for part in rows], ignore_index=True)
    return PaperTable(frame, ("data", "method", "choice"), ("score",), note=NOTE)
