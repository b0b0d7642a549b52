import numpy as np
import pytest

from karenina.tasks import downstream, fairness, label_noise, robustness, zero_shot

V = np.random.default_rng(0).integers(3, size=(60, 2))
Z = V + 0.1
TASKS = {
    "downstream": downstream,
    "fairness": fairness,
    "zero_shot": lambda z, v: zero_shot(z, v, V[:, 0] == 2),
    "label_noise": lambda z, v: label_noise(v),
    "robustness": lambda z, v: robustness(lambda *given: 1.0, [Z] * 3, v),
}


@pytest.mark.parametrize("task", TASKS)
def test_masked_entries_and_integers_beyond_floats_are_refused(task):
    with pytest.raises(ValueError, match="factors .*it is masked"):
        TASKS[task](Z, np.ma.masked_equal(V, 1))
    with pytest.raises(ValueError, match=r"factors .*beyond 2\^53"):
        TASKS[task](Z, 2**53 + V)
    if task not in ("label_noise", "robustness"):
        with pytest.raises(ValueError, match="codes .*it is masked"):
            TASKS[task](np.ma.masked_greater(Z, 2), V)
