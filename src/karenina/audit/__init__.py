"""Audit: put any metric, also your own, through experiments whose right answer is known.

`run` measures, `table_1` and `characteristics` tabulate, `write` makes pictures and a page of tables;
`hyperparameters` halves and doubles the numbers that metrics are given.

>>> found = run(["mig"], protocols=["ours"], experiments=["noise"], seeds=1, rows=5000)
>>> str(characteristics(found)["ours", "mig", "compactness"]["calibrated"])
'✓ 0.99 / 0.00'
"""

from karenina._plugins import lazy_modules
from karenina.audit._hyperparameters import hyperparameters
from karenina.audit._rules import Cell, characteristics, rules, table_1
from karenina.audit.experiments import EXPERIMENTS, Experiment
from karenina.audit.pages import markdown, plot, write
from karenina.audit.running import Audit, ScoreKey, read, run

__all__ = [
    "EXPERIMENTS",
    "Audit",
    "Cell",
    "Experiment",
    "ScoreKey",
    "characteristics",
    "hyperparameters",
    "markdown",
    "plot",
    "read",
    "rules",
    "run",
    "table_1",
    "write",
]

__getattr__ = lazy_modules(__name__)
