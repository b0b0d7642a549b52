"""What a representation is good for: prediction, fairness, zero-shot inference, label noise, shifts.

>>> import numpy as np
>>> from karenina.tasks import fairness
>>> v = np.random.default_rng(0).integers(3, size=(900, 2))
>>> float(fairness(v.astype(float), v)) < 0.03
True
"""

from karenina.tasks._downstream import Downstream, downstream
from karenina.tasks._fairness import Fairness, fairness, total_variation
from karenina.tasks._label_noise import Robustness, label_noise, robustness
from karenina.tasks._shift import Shift, shift
from karenina.tasks._zero_shot import ZeroShot, zero_shot

__all__ = [
    "Downstream",
    "Fairness",
    "Robustness",
    "Shift",
    "ZeroShot",
    "downstream",
    "fairness",
    "label_noise",
    "robustness",
    "shift",
    "total_variation",
    "zero_shot",
]
