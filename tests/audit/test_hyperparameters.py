"""Table 2's column on hyperparameters: which numbers a metric is given, and how far they move its score."""

import numpy as np
import pytest

from karenina.audit import hyperparameters
from karenina.audit._hyperparameters import numbers_of, summary
from karenina.audit.experiments import EXPERIMENTS
from karenina.audit.running import settings
from karenina.metrics import mig, z_diff
from karenina.metrics.registry import METRICS


def test_numbers_come_from_the_signature_the_protocol_and_the_model():
    assert set(numbers_of("z_diff", {})) == {"batch", "train", "evaluate", "factor_bins"}
    assert numbers_of("z_min_variance", settings("z_min_variance", "carbonneau"))["threshold"] == 0.02**2
    lasso = numbers_of("dci_lasso", settings("dci_lasso", "carbonneau"))
    assert lasso["model.folds"] == 10
    assert len(lasso["model.alphas"]) == 8
    assert {"model.depths", "model.max_features", "model.folds"} <= set(numbers_of("dci_forest", {"model": "forest"}))
    for name, metric in METRICS.items():
        if not metric.codes_only:
            assert "seed" not in numbers_of(name, {})
            assert 0 not in numbers_of(name, {}).values()


def test_what_is_said_is_what_happens_to_the_score():
    found = hyperparameters(["mig", "z_diff"], rows=600, seed=3).set_index(["metric", "parameter"])
    codes, factors = (part[:, :3] for part in EXPERIMENTS["noise"].make(0.2, 600, 3))
    now = float(mig(codes, factors))
    assert found.loc[("mig", "binning.bins"), "score"] == now
    assert found.loc[("mig", "binning.bins"), "doubled"] == float(mig(codes, factors, bins=40)) - now
    moved = float(z_diff(codes, factors, batch=32, seed=3)) - float(z_diff(codes, factors, seed=3))
    assert found.loc[("z_diff", "batch"), "halved"] == moved
    ((_, count, most, which),) = [line for line in summary(found.reset_index()) if line[0][1] == "mig"]
    assert count == 2  # bins of codes and of factors; neighbours are for another estimator
    moves = found.loc["mig"][["halved", "doubled"]].abs()
    assert most == moves.to_numpy().max() == moves.loc[which].max()


def test_a_number_that_the_metric_does_not_take_is_no_score():
    found = hyperparameters(["irs"], rows=300).set_index("parameter")
    assert np.isnan(found.loc["quantile", "doubled"])
    assert np.isfinite(found.loc["quantile", "halved"])
    with pytest.raises(ValueError, match="no metric 'migg'"):
        hyperparameters(["migg"])
