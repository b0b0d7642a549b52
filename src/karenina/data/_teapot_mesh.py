"""The Utah teapot: Martin Newell's control points (1975) and the triangles made from them.

The pot is 32 bicubic Bezier patches. The body and the lid are solids of revolution, so a profile stands for each; the
handle and the spout are mirror images in the plane y = 0, so one half of each cross section stands for both. The z axis
points up, the spout along +x and the handle along -x; the numbers are the ones in general use, 1.3 times
lower than Newell's own.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Rings (radius, tangent, height): an arc of 90 degrees has the control points (r, 0), (r, t), (t, r), (0, r). Every
# third ring lies on the surface, where one patch ends and the next begins. Rim, two bands of the wall, bottom:
_BODY = (
    (1.4, 0.784, 2.4),
    (1.3375, 0.749, 2.53125),
    (1.4375, 0.805, 2.53125),
    (1.5, 0.84, 2.4),
    (1.75, 0.98, 1.875),
    (2.0, 1.12, 1.35),
    (2.0, 1.12, 0.9),
    (2.0, 1.12, 0.45),
    (1.5, 0.84, 0.225),
    (1.5, 0.84, 0.15),
    (1.5, 0.84, 0.075),
    (1.425, 0.798, 0.0),
    (0.0, 0.0, 0.0),
)
# The knob and the lid.
_LID = (
    (0.0, 0.0, 3.15),
    (0.8, 0.45, 3.15),
    (0.0, 0.0, 2.85),
    (0.2, 0.112, 2.7),
    (0.4, 0.224, 2.55),
    (1.3, 0.728, 2.55),
    (1.3, 0.728, 2.4),
)
# Cross sections (x, z, x', z', y): half of one has the control points (x, 0, z), (x, y, z), (x', y, z'), (x', 0, z').
_HANDLE = (
    (-1.6, 2.025, -1.5, 2.25, 0.3),
    (-2.3, 2.025, -2.5, 2.25, 0.3),
    (-2.7, 2.025, -3.0, 2.25, 0.3),
    (-2.7, 1.8, -3.0, 1.8, 0.3),
    (-2.7, 1.575, -3.0, 1.35, 0.3),
    (-2.5, 1.125, -2.65, 0.9375, 0.3),
    (-2.0, 0.9, -1.9, 0.6, 0.3),
)
_SPOUT = (
    (1.7, 1.425, 1.7, 0.6, 0.66),
    (2.6, 1.425, 3.1, 0.825, 0.66),
    (2.3, 2.1, 2.4, 2.025, 0.25),
    (2.7, 2.4, 3.3, 2.4, 0.25),
    (2.8, 2.475, 3.525, 2.49375, 0.25),
    (2.9, 2.475, 3.45, 2.5125, 0.15),
    (2.8, 2.4, 3.2, 2.4, 0.15),
)


@dataclass(frozen=True)
class Mesh:
    """Triangles (t, 3), anticlockwise seen from outside, over vertices (v, 3) with the surface's own normals (v, 3).

    The pot is closed. Lids of no thickness in the mouth of the spout and in the slit around the lid stand for its dark
    inside, which no light reaches: their normals are 0.
    """

    vertices: NDArray[np.float64]
    normals: NDArray[np.float64]
    triangles: NDArray[np.int64]


def _revolved(profile: tuple[tuple[float, float, float], ...]) -> NDArray[np.float64]:
    """The control points (4, rings, 4, 3) of four quarter turns."""
    r, t, z = np.array(profile).T
    zero = np.zeros_like(r)
    along, across = np.stack([r, r, t, zero], 1), np.stack([zero, t, r, r], 1)
    height = np.repeat(z[:, None], 4, axis=1)
    quarters = ((along, across), (-across, along), (-along, -across), (across, -along))
    return np.stack([np.stack([x, y, height], 2) for x, y in quarters])


def _mirrored(sections: tuple[tuple[float, float, float, float, float], ...]) -> NDArray[np.float64]:
    """The control points (2, sections, 4, 3) of both halves."""
    x, z, x_end, z_end, y = np.array(sections).T
    zero = np.zeros_like(y)
    columns = ((x, zero, z), (x, y, z), (x_end, y, z_end), (x_end, zero, z_end))
    half = np.stack([np.stack(column, 1) for column in columns], 1)
    # With its columns reversed the mirror image, too, has its normals on the outside.
    return np.stack([half, half[:, ::-1] * [1, -1, 1]])


# Each part with the number of squares that its patches are cut into, down the chain and across. The triangles stay
# within 0.025 units of the surface, a quarter of a pixel at 64 x 64.
_PARTS = (
    (_revolved(_BODY), (3, 6, 6, 4), 8),
    (_revolved(_LID), (6, 5), 8),
    (_mirrored(_HANDLE), (6, 6), 6),
    (_mirrored(_SPOUT), (8, 4), 8),
)


def control_points() -> NDArray[np.float64]:
    """The 32 patches (32, 4, 4, 3): 16 of the body, 8 of the lid, 4 of the handle, 4 of the spout."""
    chains = [chain for chains, _, _ in _PARTS for chain in chains]
    return np.stack([chain[i : i + 4] for chain in chains for i in range(0, len(chain) - 1, 3)])


def _basis(t: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The cubic Bernstein polynomials at t (n,) and their derivatives, (n, 4) each."""
    s = 1 - t
    values = np.stack([s**3, 3 * t * s**2, 3 * t**2 * s, t**3], axis=1)
    return values, np.stack([-3 * s**2, 3 * s * (s - 2 * t), 3 * t * (2 * s - t), 3 * t**2], axis=1)


def _patch(control: NDArray, down: int, across: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The points and normals (down + 1, across + 1, 3) of a patch (4, 4, 3)."""
    u, v = np.linspace(0, 1, down + 1), np.linspace(0, 1, across + 1)
    points = np.einsum("ui,vj,ijx->uvx", _basis(u)[0], _basis(v)[0], control)
    # At a pole (top of the knob, middle of the bottom) a patch has no normal: take it from just beside.
    (bu, du), (bv, dv) = _basis(np.clip(u, 1e-4, 1 - 1e-4)), _basis(np.clip(v, 1e-4, 1 - 1e-4))
    normals = np.cross(np.einsum("ui,vj,ijx->uvx", du, bv, control), np.einsum("ui,vj,ijx->uvx", bu, dv, control))
    return points, normals / np.linalg.norm(normals, axis=2, keepdims=True)


def teapot_mesh() -> Mesh:
    """The triangles of the pot."""
    sheets: list[tuple[NDArray, NDArray]] = []
    last: list[NDArray] = []  # the edge where each chain of patches ends
    for chains, down, across in _PARTS:
        for chain in chains:
            sheets += [_patch(chain[3 * i : 3 * i + 4], n, across) for i, n in enumerate(down)]
            last.append(sheets[-1][0][-1])
    first = [sheets[4 * quarter][0][0] for quarter in range(4)]  # the inner edge of the rim
    slit = [np.stack(edges) for edges in zip(last[4:8], first)]
    mouth = [np.stack([last[10], last[11][::-1]])]
    sheets += [(edges, np.zeros_like(edges)) for edges in slit + mouth]

    triangles, start = [], 0
    for points, _ in sheets:
        corner = start + np.arange(points[..., 0].size).reshape(points.shape[:2])
        a, b, c, d = corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:]
        triangles += [np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)]
        start += corner.size
    vertices = np.concatenate([points.reshape(-1, 3) for points, _ in sheets])
    normals = np.concatenate([normals.reshape(-1, 3) for _, normals in sheets])
    flat = np.concatenate(triangles)
    p, q, r = (vertices[flat[:, i]] for i in range(3))
    solid = np.linalg.norm(np.cross(q - p, r - p), axis=1) > 1e-9  # at a pole half of the triangles are lines
    return Mesh(vertices, normals, flat[solid])
