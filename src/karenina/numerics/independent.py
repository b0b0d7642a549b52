"""Independent components: codes turned plane by plane to where no latent is a mixture (Comon 1994)."""

from typing import Any

import numpy as np

from karenina.numerics.arrays import Floats
from karenina.numerics.compile import njit

Array = Any
DEGREES = 1  # of the angles that are tried
LEAST_GAIN = 0.05  # in squared kurtosis; a plane that gains less stays as it is, as planes of Gaussian latents do
SWEEPS = 12  # over all planes; fewer where nothing turns any more
CUT = 4.0  # standard deviations at which codes are cut, since a fourth moment listens to outliers


def independent_components(codes: Floats) -> tuple[Floats, Floats]:
    """Return the independent components (n, L) of codes (n, L), and the map (L, L) that takes centred codes to them.

    Codes are whitened symmetrically, which changes them least, and turned from there to where the sum of the squared
    kurtoses is largest: each component is near the latent in its place. A constant latent gives a component of zeros.
    The components are those of codes cut at 4 standard deviations, the map is that of codes that are not.

    >>> sources = np.random.default_rng(0).uniform(-1, 1, size=(4000, 2))
    >>> turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    >>> found, _ = independent_components(sources @ turn)
    >>> bool(np.abs(np.corrcoef(found.T, sources.T)[:2, 2:]).max(axis=1).min() > 0.99)
    True
    """
    z = np.asarray(codes, float)
    scale = z.std(axis=0)
    z = (z - z.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    values, axes = np.linalg.eigh(z.T @ z / len(z))
    whiten = (axes / np.sqrt(np.maximum(values, 1e-3))) @ axes.T
    white = np.clip(z @ whiten, -CUT, CUT)
    turn = _turn_planes(white, LEAST_GAIN)
    return white, (whiten / np.where(scale > 0, scale, np.inf)[:, None]) @ turn


@njit(cache=True)
def _turn_planes(z: Array, least_gain: float) -> Array:
    """Turn z (n, L) in place, and return the rotation (L, L) that was applied."""
    n, size = z.shape
    whole = np.eye(size)
    half = 90 // DEGREES // 2
    for _ in range(SWEEPS):
        still = True
        for i in range(size):
            for j in range(i):
                m40 = m31 = m22 = m13 = m04 = m20 = m11 = m02 = 0.0
                for r in range(n):
                    x, y = z[r, i], z[r, j]
                    xx, yy, xy = x * x, y * y, x * y
                    m20 += xx
                    m11 += xy
                    m02 += yy
                    m40 += xx * xx
                    m31 += xx * xy
                    m22 += xx * yy
                    m13 += xy * yy
                    m04 += yy * yy
                first = ((m40 / n - 3 * (m20 / n) ** 2) ** 2) + ((m04 / n - 3 * (m02 / n) ** 2) ** 2)
                best, angle = first + least_gain, 0.0
                for k in range(-half, half + 1):
                    t = k * DEGREES * np.pi / 180
                    c, s = np.cos(t), np.sin(t)
                    u2 = (c * c * m20 + 2 * c * s * m11 + s * s * m02) / n
                    v2 = (s * s * m20 - 2 * c * s * m11 + c * c * m02) / n
                    even = 6 * c * c * s * s * m22
                    u4 = (c**4 * m40 + 4 * c**3 * s * m31 + even + 4 * c * s**3 * m13 + s**4 * m04) / n
                    v4 = (s**4 * m40 - 4 * s**3 * c * m31 + even - 4 * s * c**3 * m13 + c**4 * m04) / n
                    value = (u4 - 3 * u2 * u2) ** 2 + (v4 - 3 * v2 * v2) ** 2
                    if value > best:
                        best, angle = value, t
                if angle != 0.0:
                    still = False
                    c, s = np.cos(angle), np.sin(angle)
                    for r in range(n):
                        x, y = z[r, i], z[r, j]
                        z[r, i], z[r, j] = c * x + s * y, c * y - s * x
                    for r in range(size):
                        x, y = whole[r, i], whole[r, j]
                        whole[r, i], whole[r, j] = c * x + s * y, c * y - s * x
        if still:
            break
    return whole
