"""A few labels beside any objective: Locatello et al. (2020), "Disentangling factors of variation using few labels"."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from karenina.models.objectives import Batch, Objective, Terms, whole_floats


def cross_entropy(codes: Tensor, factors: Tensor) -> Tensor:
    """Of the first k codes, as logits, with factors (n, k) in [0, 1]; summed over factors, mean over images."""
    logits = codes[:, : factors.shape[1]]
    return functional.binary_cross_entropy_with_logits(logits, factors, reduction="sum") / len(codes)


def squared_error(codes: Tensor, factors: Tensor) -> Tensor:
    """Of the first k codes, brought to [0, 1] by a sigmoid."""
    return (codes[:, : factors.shape[1]].sigmoid() - factors).square().sum() / len(codes)


def covariance(codes: Tensor, factors: Tensor) -> Tensor:
    """Squares of the covariances of every code with every factor but its own: code j may tell of factor j alone."""
    centred = codes - codes.mean(0), factors - factors.mean(0)
    with whole_floats(codes):
        found = centred[0].T @ centred[1] / len(codes)
    own = torch.eye(*found.shape, dtype=torch.bool, device=found.device)
    return found.masked_fill(own, 0.0).square().sum()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": cross_entropy,
    "squared_error": squared_error,
    "covariance": covariance,
}
# What an objective with labels takes besides its own arguments, and the defaults.
ARGUMENTS: dict[str, Any] = {"supervised_loss": "cross_entropy", "supervised_weight": 100.0}


def supervised(objective: Objective) -> Objective:
    """The objective with a term for the images that have labels: their mean codes should be their factors.

    As in the paper: objective + gamma_sup R(codes, factors), with `supervised_weight` for gamma_sup and one of
    LOSSES for R. The result has the arguments of the objective and these two.
    """

    def with_labels(batch: Batch, **parameters: Any) -> Terms:
        assert batch.labelled is not None
        assert batch.labels is not None
        loss, weight = (parameters.pop(name) for name in ARGUMENTS)
        found = LOSSES[loss](batch.labelled, batch.labels)
        return {**objective(batch, **parameters), "supervised": weight * found}

    own = inspect.signature(objective)
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=v) for name, v in ARGUMENTS.items()]
    with_labels.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    with_labels.without_labels = objective  # type: ignore[attr-defined]
    return with_labels


def unsupervised(objective: Objective | None) -> Objective | None:
    """The objective to which `supervised` added a term; one without labels is itself."""
    return getattr(objective, "without_labels", objective)
