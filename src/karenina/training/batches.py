"""Batches for many models at once: each model draws from its own generator, exactly as it would alone."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from karenina.data import DataSet, FactorGrid, TableDataSet
from karenina.training.loop import to_tensor

# Images of a data set with no more bytes than this are kept on the device, as floats if those fit, too.
_MOST_BYTES = 1 << 29
_ROWS = 4096  # rendered at a time


class Batches:
    """Images (k, batch, c, h, w) for k models, in [0, 1].

    Parameters
    ----------
    data : the data set.
    batch : images per model.
    device : where the images should be. A data set that fits is moved there once, and batches are gathered there.
    expected : images that will be drawn; a data set is worth moving if they are as many as half of it.
    """

    def __init__(self, data: DataSet, batch: int, device: torch.device, expected: float = float("inf")):
        self.data, self.batch, self.device = data, batch, device
        pixels = int(np.prod(data.image_shape))
        numbered = isinstance(data, TableDataSet) or (isinstance(data.factors, FactorGrid) and not data.stochastic)
        self.table: Tensor | None = None
        if numbered and len(data) * pixels <= _MOST_BYTES and len(data) <= 2 * expected:
            floats = 4 * len(data) * pixels <= _MOST_BYTES
            parts = []
            for start in range(0, len(data), _ROWS):
                images = data.at(np.arange(start, min(start + _ROWS, len(data))))
                whole = images.dtype == np.uint8 and not floats
                parts.append(torch.from_numpy(images).to(device) if whole else to_tensor(images, device).contiguous())
            self.table = torch.cat(parts)

    def draw(self, rngs: Sequence[np.random.Generator]) -> Tensor:
        """One batch per generator: (k, batch, c, h, w)."""
        if self.table is not None:
            index = torch.from_numpy(np.concatenate([self._index(rng) for rng in rngs])).to(self.device)
            x = self.table.index_select(0, index)
            x = x.float().div_(255) if x.dtype == torch.uint8 else x
        else:
            x = to_tensor(np.concatenate([self.data.sample(self.batch, rng)[0] for rng in rngs]), self.device)
        return x.unflatten(0, (len(rngs), self.batch))

    def _index(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """The rows that `data.sample` would draw."""
        if isinstance(self.data, TableDataSet):
            return self.data.draw_index(self.batch, rng)
        assert isinstance(self.data.factors, FactorGrid)
        return self.data.factors.index_of_checked(self.data.factors.sample(self.batch, rng))
