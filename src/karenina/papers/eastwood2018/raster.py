"""A camera, a light and a z-buffer: pictures of a triangle mesh from all around, compiled.

The compiled functions share one file, because numba's cache only notices changes in the file of the function called.
"""

from math import ceil, cos, floor, sin, sqrt

import numpy as np
from numpy.typing import NDArray

from karenina.numerics.compile import njit

# A pixel is the mean of its samples. They lie on a square lattice, turned so that the pixel grid fits into it: one
# pixel to the right is A steps along it and B steps back across. No two samples of a pixel share a row or a column, so
# an upright or level edge passes them one by one; on a plain 4 x 4 lattice it passes 4 at once, and the picture jumps.
A, B = 3, 2
COUNT = A * A + B * B
# The samples of a pixel, in steps from the one in its centre. COUNT is odd, so none is on the border.
STEPS = np.array(
    [
        (across, along)
        for across in range(-A, A + 1)
        for along in range(-A, A + 1)
        if 2 * abs(A * along - B * across) < COUNT and 2 * abs(B * along + A * across) < COUNT
    ]
)
MARGIN = int(STEPS.max())

# The camera's distance, and the width of the picture at that distance, in units of the mesh.
DISTANCE = 12.0
WIDTH = 7.25

# The light comes from the viewer's upper left. The shares below sum to 1, so that no colour is ever cut off.
LIGHT = np.array([-0.48, -0.60, 0.64])
AMBIENT, SKY, DIFFUSE, SPECULAR = 0.26, 0.08, 0.48, 0.18


_compiled = njit(nogil=True, error_model="numpy")
_compiled_once = njit(cache=True, nogil=True, error_model="numpy")  # kept on disk


@_compiled
def project(
    vertices: NDArray,
    normals: NDArray,
    azimuth: float,
    elevation: float,
    size: int,
    points: NDArray,
    values: NDArray,
) -> None:
    """Compute where the vertices (v, 3) are in one view, and how light they are.

    Fills points (v, 3) with pixel column, pixel row and 1 / distance (which is linear on the picture, unlike the
    distance), and values (v, 2) with the light that takes the object's colour and the white highlight.
    """
    ca, sa, ce, se = cos(azimuth), sin(azimuth), cos(elevation), sin(elevation)
    # Half way between the directions to the light and to the viewer, who is far enough away to be in one direction.
    hx, hy, hz = LIGHT[0], LIGHT[1] - ce, LIGHT[2] + se
    length = sqrt(hx * hx + hy * hy + hz * hz)
    hx, hy, hz = hx / length, hy / length, hz / length
    focal = size * DISTANCE / WIDTH
    for i in range(len(vertices)):
        x, y, z = vertices[i]
        x, y = ca * x + sa * y, ca * y - sa * x
        scale = 1 / (DISTANCE + ce * y - se * z)
        points[i, 0] = size / 2 + focal * scale * x
        points[i, 1] = size / 2 - focal * scale * (se * y + ce * z)
        points[i, 2] = scale
        x, y, z = normals[i]
        x, y = ca * x + sa * y, ca * y - sa * x
        lit = max(0.0, LIGHT[0] * x + LIGHT[1] * y + LIGHT[2] * z)
        shine = max(0.0, hx * x + hy * y + hz * z) if lit > 0 else 0.0
        shine *= shine  # to the power of 16 by squaring
        shine *= shine
        shine *= shine
        shine *= shine
        values[i, 0] = AMBIENT + SKY * z + DIFFUSE * lit
        values[i, 1] = SPECULAR * shine


@_compiled
def _fill(points: NDArray, values: NDArray, triangles: NDArray, depth: NDArray, samples: NDArray) -> None:
    """Draw the triangles into depth (rows, columns) and samples (rows, columns, 2), the nearest one on top.

    Both ends of a row are drawn, and an edge is computed alike in the two triangles that share it, so there are no
    cracks between neighbours.
    """
    height, width = depth.shape
    for t in range(len(triangles)):
        a, b, c = triangles[t, 0], triangles[t, 1], triangles[t, 2]
        xa, ya, xb, yb, xc, yc = points[a, 0], points[a, 1], points[b, 0], points[b, 1], points[c, 0], points[c, 1]
        area = (xc - xa) * (yb - ya) - (xb - xa) * (yc - ya)
        if area < 1e-9:  # seen from behind, or edge on
            continue
        x0, y0, x1, y1, x2, y2 = xa, ya, xb, yb, xc, yc
        if y0 > y1:
            x0, y0, x1, y1 = x1, y1, x0, y0
        if y1 > y2:
            x1, y1, x2, y2 = x2, y2, x1, y1
        if y0 > y1:
            x0, y0, x1, y1 = x1, y1, x0, y0
        first, last = max(0, ceil(y0)), min(height - 1, floor(y2))
        if first > last:
            continue
        # Depth and values are linear over the triangle: their slopes along x and y.
        ux, uy = (yb - ya) / area, (xa - xb) / area
        vx, vy = (ya - yc) / area, (xc - xa) / area
        wa, wb, wc = points[a, 2], points[b, 2] - points[a, 2], points[c, 2] - points[a, 2]
        w_x, w_y = wb * vx + wc * ux, wb * vy + wc * uy
        da, db, dc = values[a, 0], values[b, 0] - values[a, 0], values[c, 0] - values[a, 0]
        d_x, d_y = db * vx + dc * ux, db * vy + dc * uy
        sa, sb, sc = values[a, 1], values[b, 1] - values[a, 1], values[c, 1] - values[a, 1]
        s_x, s_y = sb * vx + sc * ux, sb * vy + sc * uy
        long, top, bottom = (x2 - x0) / (y2 - y0), (x1 - x0) / (y1 - y0), (x2 - x1) / (y2 - y1)
        for row in range(first, last + 1):
            left = x0 + (row - y0) * long
            right = x0 + (row - y0) * top if row < y1 else x1 + (row - y1) * bottom
            if left > right:
                left, right = right, left
            down = row - ya
            w, d, s = wa + w_y * down, da + d_y * down, sa + s_y * down
            for column in range(max(0, ceil(left)), min(width - 1, floor(right)) + 1):
                near = w + w_x * (column - xa)
                if near > depth[row, column]:
                    depth[row, column] = near
                    samples[row, column, 0] = d + d_x * (column - xa)
                    samples[row, column, 1] = s + s_x * (column - xa)


@_compiled
def _paint(depth: NDArray, samples: NDArray, box: NDArray, colour: NDArray, image: NDArray) -> None:
    """Write the mean of the samples of each pixel, in colour (3,), into image (3, size, size) on white.

    Nothing was drawn outside the box (left, right, top, bottom).
    """
    size = image.shape[1]
    image[:] = 255
    stride = depth.shape[1]
    near, light = depth.ravel(), samples.reshape(-1, 2)
    steps = STEPS[:, 0] * stride + STEPS[:, 1]
    red, green, blue = 255 / COUNT * colour
    for i in range(box[2], box[3]):
        for j in range(box[0], box[1]):
            centre = (A * i - B * j + B * (size - 1) + MARGIN) * stride + A * j + B * i + MARGIN
            white, shade = 0.0, 0.0
            for step in steps:
                place = np.uint64(centre + step)  # unsigned: not checked for counting from the end
                if near[place] > 0:
                    shade += light[place, 0]
                    white += light[place, 1]
                else:
                    white += 1.0
            white = white * (255 / COUNT) + 0.5
            image[0, i, j] = np.uint8(white + red * shade)
            image[1, i, j] = np.uint8(white + green * shade)
            image[2, i, j] = np.uint8(white + blue * shade)


@_compiled_once
def render(
    vertices: NDArray, normals: NDArray, triangles: NDArray, views: NDArray, colours: NDArray, size: int
) -> NDArray[np.uint8]:
    """Return images (n, 3, size, size) of a closed mesh, from views (n, 2) and in colours (n, 3).

    The mesh is centred at 0 with z up. A view is an azimuth and an elevation.
    """
    points, values, box = np.empty_like(vertices), np.empty((len(vertices), 2)), np.empty(4, np.int64)
    side = (A + B) * size + 2 * MARGIN
    depth, samples = np.empty((side, side), np.float32), np.empty((side, side, 2), np.float32)
    images = np.empty((len(views), 3, size, size), np.uint8)
    for n in range(len(views)):
        project(vertices, normals, views[n, 0], views[n, 1], size, points, values)
        for axis in range(2):
            box[2 * axis] = max(0, floor(points[:, axis].min()))
            box[2 * axis + 1] = min(size, ceil(points[:, axis].max()))
        for i in range(len(points)):  # from pixels to steps in the lattice
            x, y = points[i, 0] - 0.5, points[i, 1] - 0.5
            points[i, 0], points[i, 1] = A * x + B * y + MARGIN, A * y - B * x + B * (size - 1) + MARGIN
        depth[:] = 0
        _fill(points, values, triangles, depth, samples)
        _paint(depth, samples, box, colours[n], images[n])
    return images
