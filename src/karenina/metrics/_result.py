"""What a metric returns: a number, and the parts it was made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Result:
    """`float(result)` is the headline value. Arrays that a metric does not have are None.

    Attributes
    ----------
    value : the headline
    per_factor : (k,), in the order given; NaN for a constant factor
    per_code : (d,); NaN for a code that does not count
    matrix : (k, d), how much each code tells of each factor (information, importance, accuracy, R2)
    details : anything else, by name
    """

    value: float
    per_factor: NDArray[np.float64] | None = None
    per_code: NDArray[np.float64] | None = None
    matrix: NDArray[np.float64] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return float(self.value)
