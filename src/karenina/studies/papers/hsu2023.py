"""The main comparison of Hsu et al. (2023): quantised latents."""

from karenina.studies.papers.outputs import PaperTable
from karenina.studies.papers.scores import medians, scores
from karenina.studies.papers.study import Study

NOTE = "Medians over seeds, of the setting whose median is highest."


def table_main(study: Study) -> PaperTable:
    return PaperTable(medians(scores(study)), ("data", "method"), ("score",), note=NOTE)
