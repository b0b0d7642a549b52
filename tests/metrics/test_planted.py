"""Every metric on planted representations of independent factors."""

from itertools import permutations

import numpy as np
import planted
import pytest

from karenina.metrics import METRICS, Lasso, Trees, dci

FACTORS = planted.labels(2000, (4, 5, 6))
NAMES = [name for name, metric in METRICS.items() if not metric.codes_only]
SMALLER = {"dci_forest": {"model": Trees("forest", depths=(4, 8), folds=3)}, "dci_lasso": {"model": Lasso(folds=3)}}
# Below 1 by definition: what a code has besides its factor's entropy, and linear SVMs on one code of several classes.
NOT_ONE = {"jemmig": 0.55, "sap": 0.35, "explicitness": 0.95, "dci_es": 0.9}
# Scores of noise that are not near 0: chance, and metrics that compare a code with its own best factor.
NOISE = {"z_diff": 0.5, "z_min_variance": 0.5, "z_max_variance": 0.5, "explicitness": 0.6, "irs": 0.5} | dict.fromkeys(
    ("modularity", "modularity_weighted", "dci_lasso", "dci_aligned", "infomec", "dci_es"), 1.0
)
# Scores that fall when every factor has two codes, and when no code stands for a factor.
COMPACT = {"mig", "sap", "jemmig"}
BLIND_TO_ROTATION = {"explicitness", "dci_aligned", "z_diff", "z_min_variance", "z_max_variance", "dci_es", "r2_affine"}
# Independent factors of variance 1, turned by R, correlate with their codes as R_ij says: 1 - mean |R_ij| of the best
# matching is lost (see test_identifiability.py), 0.045 here; half of it at least, since the rows are a sample.
TURN = np.abs(planted.rotation(3))
MATCHED = max(np.mean([TURN[i, j] for i, j in enumerate(order)]) for order in permutations(range(3)))
LOST = dict.fromkeys(("mcc", "mcc_rank"), 0.5 * (1 - MATCHED))


def value(name, codes, factors=FACTORS):
    settings = METRICS[name].ours | SMALLER.get(name, {})
    return float(METRICS[name].function(codes, factors, **settings))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:only .* values of code")  # rotated factors are copies
def test_planted(name):
    perfect = value(name, planted.identity(FACTORS))
    assert NOT_ONE.get(name, 0.97) <= perfect <= 1 + 1e-9
    tolerance = 0.02 if "seed" in METRICS[name].parameters else 1e-9
    assert value(name, planted.permuted(FACTORS)) == pytest.approx(perfect, abs=tolerance)
    assert value(name, planted.constant(FACTORS)) <= {"explicitness": 0.5, "z_diff": 0.36}.get(name, 0)
    assert value(name, planted.noise(FACTORS)) <= NOISE.get(name, 0.12)
    lost = perfect - value(name, planted.duplicated(FACTORS))
    assert lost > 0.25 if name in COMPACT else abs(lost) < 0.05
    lost = perfect - value(name, planted.rotated(FACTORS))
    assert abs(lost) < 0.06 if name in BLIND_TO_ROTATION else lost > LOST.get(name, 0.08)


@pytest.mark.parametrize("part", ["completeness", "informativeness"])
def test_other_parts_of_dci(part):
    codes = {plant.__name__: plant(FACTORS) for plant in (planted.identity, planted.duplicated, planted.noise)}
    found = {name: getattr(dci(z, FACTORS, **SMALLER["dci_forest"]), part) for name, z in codes.items()}
    assert found["identity"] == pytest.approx(1, abs=0.01)
    twice = {"completeness": 1 - np.log(2) / np.log(6), "informativeness": 1.0}[part]
    assert found["duplicated"] == pytest.approx(twice, abs=0.06)
    assert found["noise"] < 0.3
