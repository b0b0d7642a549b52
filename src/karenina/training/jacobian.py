"""The decoder's Jacobian: how the picture moves when a latent does."""

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from karenina.numerics.checks import as_array

if TYPE_CHECKING:
    from karenina.training.run import Run

STEP = 1e-4  # in float64 the error of a central difference is about 1e-8 of the decoder's curvature


@torch.inference_mode()
def decoder_jacobian(run: "Run", codes: ArrayLike) -> NDArray[np.float64]:
    """d decoder(z) / d z at codes (n, L): (n, pixels, L), of the decoder's output before the last non-linearity.

    By central differences on a float64 copy of the network, so that it works for any decoder.
    """
    z = as_array(codes).astype(np.float64, copy=False)
    if z.ndim != 2 or z.shape[1] != run.latents:
        raise ValueError(f"codes have shape {z.shape}, expected (n, {run.latents})")
    network = copy.deepcopy(run.module).double().cpu()
    columns = []
    for latent in range(run.latents):
        step = np.zeros(run.latents)
        step[latent] = STEP
        ahead, behind = (network.decode(torch.from_numpy(z + sign * step)) for sign in (1, -1))
        columns.append(((ahead - behind) / (2 * STEP)).reshape(len(z), -1))
    return torch.stack(columns, dim=-1).numpy()
