import numpy as np

import karenina


def test_blobs_follow_the_recipe():
    data = karenina.load("blobs")
    assert data.factor_sizes == (8, 8, 8, 6)
    assert len(data) == 3072
    rng = np.random.default_rng(0)
    images, rows = data.sample(20, rng)
    for image, (b, x, y, r) in zip(images, rows):
        for i, j in [(0, 0), (8, 8), (7, 3), (9, 12)]:
            px, py = (j + 0.5) / 16 * 2 - 1, (i + 0.5) / 16 * 2 - 1
            distance = np.hypot(px - 1.3 * (x / 7 - 0.5), py - 0.4 * (y / 7 - 0.5))
            o = 1 / (1 + np.exp(-12 * (0.2 + 0.2 * r / 5 - distance)))
            assert abs(image[0, i, j] - 255 * (o + (1 - o) * (0.1 + 0.3 * b / 7))) <= 0.5


def test_sampling_images_and_at_agree():
    data = karenina.load("blobs")
    images, rows = data.sample(10, 3)
    assert (images == data.images(rows)).all()
    assert (images == data.at(data.factors.index(rows))).all()
    assert (images == data.sample(10, np.random.default_rng(3))[0]).all()
    assert images.dtype == np.uint8
    assert images.shape == (10, *data.image_shape)
