import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from karenina.data import load
from karenina.training import DisentanglingVAE


def test_in_a_pipeline() -> None:
    """Rows of features, scaled, coded, classified."""
    digits = load_digits()
    vae = DisentanglingVAE("beta_tcvae", latents=8, steps=400, image_shape=(1, 8, 8), parameters={"beta": 2})
    pipeline = make_pipeline(MinMaxScaler(clip=True), vae, LogisticRegression(max_iter=2000))
    pipeline.fit(digits.data[:1200], digits.target[:1200])
    assert pipeline.score(digits.data[1200:], digits.target[1200:]) > 0.5
    codes = pipeline[:-1].transform(digits.data[:5])
    assert codes.shape == (5, 8)
    assert pipeline[1].inverse_transform(codes).shape == (5, 64)
    assert list(pipeline[1].get_feature_names_out())[:2] == ["disentanglingvae0", "disentanglingvae1"]


@pytest.mark.parametrize("shape", [(-1, 1, 16, 16), (-1, 16, 16), (-1, 256)])
def test_shapes_come_back(shape: tuple[int, ...]) -> None:
    x = load("blobs").sample(30, 0)[0].reshape(shape)
    vae = DisentanglingVAE(latents=2, steps=5)
    codes = vae.fit_transform(x)
    assert codes.shape == (30, 2)
    assert vae.inverse_transform(codes).shape == x.shape
    np.testing.assert_array_equal(clone(vae).fit(x).transform(x), codes)


def test_search_over_parameters() -> None:
    x = load("blobs").sample(60, 0)[0]
    search = GridSearchCV(DisentanglingVAE(latents=2), {"steps": [1, 100], "parameters": [{"beta": 2}]}, cv=2)
    assert search.fit(x).best_params_ == {"steps": 100, "parameters": {"beta": 2}}


def test_bad_shapes() -> None:
    x = np.zeros((4, 12), np.uint8)
    with pytest.raises(ValueError, match=r"rows of 12 values are not images of shape \(1, 3, 3\)"):
        DisentanglingVAE(image_shape=(1, 3, 3)).fit(x)
    with pytest.raises(ValueError, match=r"X has shape \(4,\), expected"):
        DisentanglingVAE().fit(x[:, 0])
    vae = DisentanglingVAE(latents=2, steps=1).fit(x)
    with pytest.raises(ValueError, match=r"expected \(n, 12\) as in fit"):
        vae.transform(x[:, :6])
    with pytest.raises(ValueError, match="not fitted"):
        DisentanglingVAE().transform(x)
