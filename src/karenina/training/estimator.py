"""The training loop behind scikit-learn's interface."""

import inspect
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from karenina._settings import SETTINGS, with_settings
from karenina._words import hint
from karenina.training.run import Run
from karenina.training.trainer import train


class DisentanglingVAE(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Disentangled codes as a scikit-learn transformer.

    X is (n, c, h, w), (n, h, w) or flattened images (n, features), uint8 or floats in [0, 1]. `transform` gives the
    mean codes (n, latents), `inverse_transform` images in [0, 1] of the shape of X, `score` the mean ELBO (higher is
    better).

    Parameters
    ----------
    method, latents, steps, batch, network, learning_rate, init, decoder, reconstruction_weight : see `karenina.train`
    parameters : dict, optional
        Parameters of the method, such as {"beta": 6}.
    image_shape : (c, h, w), optional
        Of flattened images; by default each is an image of height 1.
    random_state : int, the seed

    Attributes
    ----------
    run_ : Run, the trained model

    Examples
    --------
    >>> X = np.random.default_rng(0).random((20, 8, 8))
    >>> model = DisentanglingVAE("beta_tcvae", latents=3, parameters={"beta": 6}, steps=2).fit(X)
    >>> model.transform(X).shape
    (20, 3)
    """

    @with_settings(name for name in SETTINGS if name not in ("trace", "precision"))
    def __init__(
        self,
        method: str = "beta_vae",
        *,
        parameters: dict[str, Any] | None = None,
        image_shape: tuple[int, int, int] | None = None,
        random_state: int = 0,
        **settings: Any,
    ):
        self.method = method
        self.parameters = parameters
        self.image_shape = image_shape
        self.random_state = random_state
        known = inspect.signature(type(self).__init__).parameters
        for name in settings:
            if name not in known:
                raise TypeError(f"DisentanglingVAE has no argument {name!r}; {hint(name, list(known)[1:-1])}")
        for name in known.keys() & SETTINGS.keys():
            setattr(self, name, settings.get(name, SETTINGS[name].default))

    run_: Run

    def fit(self, X: ArrayLike, y: Any = None) -> "DisentanglingVAE":
        shape = np.shape(X)
        if len(shape) not in (2, 3, 4):
            raise ValueError(f"X has shape {shape}, expected (n, c, h, w), (n, h, w) or (n, features)")
        self.row_shape_ = shape[1:]
        self.n_features_in_ = int(np.prod(shape[1:]))
        settings = {name: value for name, value in self.get_params(deep=False).items() if name in SETTINGS}
        self.run_ = train(self._images(X), self.method, seed=self.random_state, **settings, **(self.parameters or {}))
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self)
        return self.run_.encode(self._images(X))[0]

    def inverse_transform(self, Z: ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self)
        images = self.run_.decode(Z)
        return images.reshape(len(images), *self.row_shape_)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        check_is_fitted(self)
        return self.run_.evaluate(self._images(X))["elbo"]

    @property
    def _n_features_out(self) -> int:
        return int(self.latents)  # type: ignore[attr-defined]

    def _images(self, X: ArrayLike) -> NDArray[Any]:
        rows = np.asarray(X)
        if rows.shape[1:] != self.row_shape_:
            raise ValueError(
                f"X has shape {rows.shape}, expected (n, {', '.join(map(str, self.row_shape_))}) as in fit"
            )
        if self.image_shape is not None:
            if np.prod(self.image_shape) != self.n_features_in_:
                raise ValueError(f"rows of {self.n_features_in_} values are not images of shape {self.image_shape}")
            return rows.reshape(-1, *self.image_shape)
        missing = (1,) * (4 - rows.ndim)  # A channel is missing, and for rows of features a height.
        return rows.reshape(len(rows), *missing, *rows.shape[1:])
