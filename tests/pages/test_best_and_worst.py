from types import SimpleNamespace

import numpy as np
import pandas as pd

from karenina.pages.best_and_worst import _apart, _factors
from karenina.pages.contents import Inputs


def test_continuous_factors_are_drawn_where_they_are_and_labels_near_where_they_are():
    rng = np.random.default_rng(0)
    factors = np.column_stack([rng.random(300), rng.integers(4, size=300), 10.0 * rng.integers(3, size=300)])
    names, continuous = ("red", "shape", "angle"), (True, False, False)
    inputs = Inputs(np.zeros((300, 1, 4, 4), np.uint8), factors, names, continuous)
    contents = SimpleNamespace(
        codes=lambda name: (factors + 0.01 * rng.normal(size=factors.shape), np.ones(3)),
        about=pd.DataFrame({"label": ["a"]}, index=["a"]),
    )
    figure, _ = _factors(contents, "a", inputs)
    red, shape, angle = (axis.lines[0].get_xdata() for axis in figure.axes)
    assert np.array_equal(red, factors[:, 0])
    for shown, column, step in ((shape, 1, 1), (angle, 2, 10)):
        moved = np.abs(shown - factors[:, column])
        assert 0.1 * step < moved.max() <= 0.15 * step
    assert _apart(np.full(3, 5.0), rng).tolist() == [5, 5, 5]
