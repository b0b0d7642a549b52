"""Karenina trains representations meant to be disentangled, measures whether they are, and chooses the best of many.

>>> import karenina
>>> data = karenina.load("blobs")
>>> data.factor_names
('background', 'x', 'y', 'radius')
"""

from typing import TYPE_CHECKING, Any

from karenina._plugins import need
from karenina._version import __version__

if TYPE_CHECKING:
    from karenina import audit as audit
    from karenina import data as data
    from karenina import evaluation as evaluation
    from karenina import metrics as metrics
    from karenina import models as models
    from karenina import pages as pages
    from karenina import selection as selection
    from karenina import studies as studies
    from karenina import tasks as tasks
    from karenina import theory as theory
    from karenina import training as training
    from karenina.data import load
    from karenina.evaluation.ranking import rank
    from karenina.evaluation.scoring import evaluate, score
    from karenina.fitting.answer import pick
    from karenina.fitting.core import fit
    from karenina.pages.compare import compare
    from karenina.pages.page import report
    from karenina.selection import dynamics, udr
    from karenina.studies.published import baselines
    from karenina.studies.study import results
    from karenina.training.estimator import DisentanglingVAE
    from karenina.training.methods import Method
    from karenina.training.run import open
    from karenina.training.trainer import train, train_many

# Where each public name lives. Loaded on first use, so that `import karenina` is instant and the
# metrics never pull in torch.
_HOMES = {
    "DisentanglingVAE": "karenina.training",
    "Method": "karenina.training.methods",
    "baselines": "karenina.studies.published",
    "compare": "karenina.pages.compare",
    "dynamics": "karenina.selection",
    "evaluate": "karenina.evaluation.scoring",
    "fit": "karenina.fitting.core",
    "load": "karenina.data",
    "open": "karenina.training",
    "pick": "karenina.fitting.answer",
    "rank": "karenina.evaluation.ranking",
    "report": "karenina.pages.page",
    "results": "karenina.studies.study",
    "score": "karenina.evaluation.scoring",
    "train": "karenina.training",
    "train_many": "karenina.training",
    "udr": "karenina.selection",
}
_MODULES: tuple[str, ...] = ("audit", "data", "evaluation", "fitting", "metrics", "models", "pages")
_MODULES += ("selection", "studies", "tasks", "theory", "training")

__all__ = [
    "DisentanglingVAE",
    "Method",
    "__version__",
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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(need(_HOMES[name]), name)
    if name in _MODULES:
        return need(f"karenina.{name}")
    raise AttributeError(f"module 'karenina' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
