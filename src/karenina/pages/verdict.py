"""Whether the best of some models is worth picking: does it draw, does it use latents, do seeds agree beyond chance?"""

import numpy as np

from karenina.pages.contents import Contents

IMAGES = 256
LEAST_EXPLAINED = 0.05  # of the variance of pixels: below, a model draws the mean image, whatever it is given
DRAWS = 400


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


def chance(latents: int) -> float:
    """The mean UDR (Duan et al. 2020, equation 2) of two models that share so many latents up to a random rotation.

    >>> chance(1)
    1.0
    >>> 0.1 < chance(10) < chance(3) < 0.5
    True
    """
    turned = np.abs(np.linalg.qr(np.random.default_rng(0).normal(size=(DRAWS, latents, latents)))[0])
    found = [(turned.max(axis=axis) ** 2 / turned.sum(axis=axis)).mean() for axis in (1, 2)]
    return float(np.clip(np.mean(found), 0, 1))


def why_not(contents: Contents, run: str, active: int, udr: float) -> str:
    """Why a run is not worth picking; "" where it is."""
    if active == 0:
        return f"no latent is active (none has a KL above {contents.kl_threshold:g} nats)"
    share = explained(contents, run)
    if share < LEAST_EXPLAINED:
        part = f"explain {100 * share:.0f} % of the variance of the pixels" if share > 0.005 else "explain nothing"
        return f"its reconstructions are no better than the mean image: they {part}"
    if active > 1 and udr <= chance(active):
        return (
            f"its seeds agree no more than chance: UDR {udr:.2f}, where random rotations of {active} latents have "
            f"{chance(active):.2f} on average"
        )
    return ""
