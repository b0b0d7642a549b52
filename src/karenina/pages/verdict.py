"""Whether the best of some models is worth picking: does it draw, does it use latents, do seeds agree beyond chance?"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from karenina.pages.contents import Contents

IMAGES = 256
LEAST_EXPLAINED = 0.05  # of the variance of pixels: below, a model draws the mean image, whatever it is given
DRAWS = 4000
SURE = 0.95


def explained(contents: Contents, run: str) -> float:
    """1 - the squared error of a run's reconstructions over that of the mean image; NaN where that cannot be had."""
    from karenina.training import open as open_run

    data = str(contents.about.loc[run, "data"])
    try:
        images = contents.inputs(data).images[:IMAGES].astype(np.float64) / 255
        opened = open_run(contents.paths[run])
        codes = np.array(contents.codes(run)[0][: len(images)], dtype=np.float32)
    except (ValueError, OSError):
        return float("nan")
    if images.shape[1:] != tuple(opened.config.image_shape):
        return float("nan")
    error = float(((opened.decode(codes) - images) ** 2).sum())
    spread = float(((images - images.mean(axis=0)) ** 2).sum())
    return 1 - error / spread if spread > 0 else float("nan")


def chance(latents: int, partners: int = 1, models: int = 1) -> float:
    """What the highest UDR of so many models stays below in 95 % of cases when all of them share so many latents, each
    up to a random rotation of its own. partners: with how many each is compared.

    The UDR of two such models (Duan et al. 2020, equation 2) is drawn. The median of P draws lies below their
    q-quantile with the probability I_q((P + 1) / 2, (P + 1) / 2), and the highest of M medians with its M-th power.

    >>> chance(1)
    1.0
    >>> chance(10) < chance(3) < chance(3, models=20), chance(3, partners=9) < chance(3)
    (True, True)
    """
    half = (partners + 1) / 2
    return float(np.quantile(_rotated(latents), betaincinv(half, half, SURE ** (1 / models))))


@cache
def _rotated(latents: int) -> NDArray[np.float64]:
    """The UDR of pairs of models that differ by a random rotation, many times."""
    turned = np.abs(np.linalg.qr(np.random.default_rng(0).normal(size=(DRAWS, latents, latents)))[0])
    found = [(turned.max(axis=axis) ** 2 / turned.sum(axis=axis)).mean(axis=1) for axis in (1, 2)]
    return np.clip(np.mean(found, axis=0), 0, 1)


def why_not(contents: Contents, run: str, active: int, udr: float, models: int) -> str:
    """Why a run is not worth picking as the best of so many models; "" where it is."""
    if active == 0:
        return f"no latent is active (none has a KL above {contents.kl_threshold:g} nats)"
    share = explained(contents, run)
    if share < LEAST_EXPLAINED:
        part = f"explain {100 * share:.0f} % of the variance of the pixels" if share > 0.005 else "explain nothing"
        return f"its reconstructions are no better than the mean image: they {part}"
    if active > 1 and udr <= (limit := chance(active, partners(contents, run), models)):
        return f"its seeds agree no more than chance: UDR {udr:.2f}, where {rotated(active, models)} {limit:.2f} (95 %)"
    return ""


def partners(contents: Contents, run: str) -> int:
    """With how many models a run was compared; 1 where that is not known, which asks most of it."""
    return contents.intervals.get(run, (0.0, 0.0, 0))[2] or 1


def rotated(active: int, models: int) -> str:
    best = f"the best of {models} models" if models > 1 else "a model"
    return f"{best} with {active} latents rotated at random has up to"
