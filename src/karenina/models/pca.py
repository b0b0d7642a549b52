"""PCA, the baseline of Eastwood & Williams (2018), as an autoencoder with one linear layer each way."""

import numpy as np
import torch
from numpy.typing import NDArray

from karenina.models.networks import Autoencoder, build


def fit_pca(images: NDArray[np.float32], latents: int, seed: int) -> Autoencoder:
    """Return the "linear" network with the maximum-likelihood weights of probabilistic PCA, for images (n, c, h, w) in
    [0, 1].

    Tipping & Bishop (1999): with eigenvalues l_j, eigenvectors u_j and noise s^2 (mean of the remaining eigenvalues),
    q(z_j|x) = N(sqrt(l_j - s^2) / l_j u_j'(x - mean), s^2 / l_j) and E[x|z] = sum_j sqrt(l_j - s^2) u_j z_j + mean.
    The codes are those of PCA up to scale, and the exact posterior gives them a finite KL.
    """
    from sklearn.decomposition import PCA  # takes as long to import as torch

    n, *shape = images.shape
    pixels = images.transpose(0, 2, 3, 1).reshape(n, -1)  # the order of networks.Flatten
    if latents > min(pixels.shape):
        raise ValueError(
            f"pca of {n} images of {pixels.shape[1]} values has at most {min(pixels.shape)} latents, not {latents}"
        )
    pca = PCA(latents, random_state=seed % 2**32).fit(pixels)  # A larger seed is refused by scikit-learn.
    # Floors keep constant data and full-rank fits finite. A direction in which nothing varies is all noise: KL 0.
    variance = np.maximum(pca.explained_variance_.astype(np.float64), 1e-10)
    noise = np.clip(pca.noise_variance_, 1e-3 * variance, variance)
    noise = np.where(variance > max(1e-10, 1e-6 * variance[0]), noise, variance)
    scale = np.sqrt(variance - noise)
    encode = (scale / variance)[:, None] * pca.components_
    weights = {
        "head.0.weight": np.concatenate([encode, np.zeros_like(encode)]),
        "head.0.bias": np.concatenate([-encode @ pca.mean_, np.log(noise / variance)]),
        "decoder.0.weight": (scale[:, None] * pca.components_).T,
        "decoder.0.bias": pca.mean_,
    }
    model = build("linear", (shape[0], shape[1], shape[2]), latents)
    model.load_state_dict({key: torch.tensor(value, dtype=torch.float32) for key, value in weights.items()})
    return model
