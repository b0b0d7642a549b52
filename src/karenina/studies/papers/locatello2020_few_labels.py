"""The main comparison of Locatello et al. (2020), "Disentangling factors of variation using few labels"."""

import re

from karenina.studies.papers.outputs import PaperTable
from karenina.studies.papers.scores import medians, scores
from karenina.studies.papers.study import Study
from karenina.studies.results.table import NotEnough

NOTE = "Medians over seeds, of the setting whose median is highest. labels: images with labels in training; 0 is none."


def table_main(study: Study) -> PaperTable:
    found = scores(study)
    given = found["parameters"].map(labels)
    if given.nunique() < 2:
        raise NotEnough(
            "needs models with and without labels: supervised = [0, 100] of a method in study.toml, "
            "then `karenina study run`"
        )
    frame = medians(found.assign(labels=given), ("data", "method", "labels"))
    return PaperTable(frame, ("data", "method", "labels"), ("score",), note=NOTE)


def labels(parameters: str) -> int:
    """How many images had labels.

    >>> labels("beta=4 supervised=100"), labels("beta=4")
    (100, 0)
    """
    matched = re.search(r"\bsupervised=(\d+)", parameters)
    return int(matched[1]) if matched else 0
