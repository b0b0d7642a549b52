"""The main comparison of Träuble et al. (2021): correlated factors."""

import math

from karenina.data.naming import split_name
from karenina.studies.papers.outputs import PaperTable
from karenina.studies.papers.scores import medians, scores
from karenina.studies.papers.study import Study
from karenina.studies.results.table import NotEnough

NOTE = (
    "Medians over seeds, of the setting whose median is highest. Scores are those on uniform factors, whatever the "
    "training's. sigma: of the correlation, inf for none."
)


def table_main(study: Study) -> PaperTable:
    found = scores(study)
    options = [split_name(name) for name in found["data"]]
    sigma = [float(given.get("sigma", 0.2)) if given.get("correlate") else math.inf for _, given in options]
    if all(math.isinf(value) for value in sigma):
        raise NotEnough('needs correlated data such as "blobs:correlate=x+y,sigma=0.2", then `karenina study run`')
    found = found.assign(set=[name for name, _ in options], sigma=sigma)
    frame = medians(found, ("set", "sigma", "method"))
    frame = frame.sort_values(["set", "sigma"], kind="stable", ascending=[True, False])
    return PaperTable(frame, ("set", "sigma", "method"), ("score",), note=NOTE)
