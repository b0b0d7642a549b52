from types import SimpleNamespace

import numpy as np
import pandas as pd

from karenina.pages.contents import EncodedImages
from karenina.pages.figures import _apart, _factors, _hintons
from karenina.pages.model import _importance


def test_continuous_factors_are_drawn_where_they_are_and_labels_near_where_they_are():
    rng = np.random.default_rng(0)
    factors = np.column_stack([rng.random(300), rng.integers(4, size=300), 10.0 * rng.integers(3, size=300)])
    names, continuous = ("red", "shape", "angle"), (True, False, False)
    inputs = EncodedImages(np.zeros((300, 1, 4, 4), np.uint8), factors, names, continuous)
    contents = SimpleNamespace(
        codes=lambda name: (factors + 0.01 * rng.normal(size=factors.shape), np.ones(3)),
        about=pd.DataFrame({"label": ["a"]}, index=["a"]),
        kl_threshold=0.05,
    )
    chart, text = _factors(contents, "a", inputs)
    red, shape, angle = (np.array(panel.series[0].x) for panel in chart.panels)
    assert np.array_equal(red, factors[:, 0])
    assert "red: latent 0" in text
    for shown, column, step in ((shape, 1, 1), (angle, 2, 10)):
        moved = np.abs(shown - factors[:, column])
        assert 0.1 * step < moved.max() <= 0.15 * step
    assert _apart(np.full(3, 5.0), rng).tolist() == [5, 5, 5]


def test_an_inactive_latent_is_never_the_best_predictor():
    """It is the factor itself, in the small: bins and trees would prefer it."""
    rng = np.random.default_rng(0)
    factors = rng.integers(4, size=(400, 2))
    codes = np.column_stack([factors + 0.3 * rng.normal(size=(400, 2)), 1e-3 * factors[:, 0]])
    inputs = EncodedImages(np.zeros((400, 1, 4, 4), np.uint8), factors, ("x", "y"), (False, False))
    contents = SimpleNamespace(
        codes=lambda name: (codes, np.array([2.0, 1.0, 0.001])),
        about=pd.DataFrame({"label": ["a"]}, index=["a"]),
        kl_threshold=0.05,
        ranked_by=None,
    )
    assert "x: latent 0" in _factors(contents, "a", inputs)[1]
    heat = _hintons(contents, ["a"], inputs)[0].panels[0]
    assert heat.columns[heat.off[0]] == "2"
    assert np.isnan(heat.values[:, heat.off[0]]).all()
    importance = _importance(codes, inputs, np.array([True, True, False]))
    assert [row[2] for row in importance["matrix"]] == [None, None]
