"""What updates are given: batches and noise for many models at once, pairs of images, a few images that have labels.

Each model draws from its own generator, exactly as it would alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from karenina.data import DataSet, FactorGrid, TableDataSet
from karenina.data.dataset import FactorRows
from karenina.data.sampling import BiasedGrid, BiasedTable, Pairs

if TYPE_CHECKING:
    from karenina.training.methods import Config

# Images of a data set with no more bytes than this are kept on the device, as floats if those fit, too.
_MOST_BYTES = 1 << 29
_ROWS = 4096  # So many images are rendered at a time.
_AHEAD = 16  # Steps drawn at once: a call for each would take longer than the drawing.
_NORMALS = 16  # Normal numbers are drawn by torch in blocks of so many.
_LABELS = 20_190_503  # It keeps the draw of labels apart from all others of a seed.


class Batches:
    """Images (k, batch, c, h, w) for k models, in [0, 1].

    Parameters
    ----------
    data : the data set.
    batch : images per model.
    device : where the images should be. A data set that fits is moved there once, and batches are gathered there.
    rngs : a generator for each model.
    expected : images that will be drawn, see `keeps`.
    """

    def __init__(
        self,
        data: DataSet,
        batch: int,
        device: torch.device,
        rngs: Sequence[np.random.Generator],
        expected: float = float("inf"),
    ):
        self.data, self.batch, self.device, self.rngs = data, batch, device, list(rngs)
        pixels = int(np.prod(data.image_shape))
        self.table: Tensor | None = None
        self._drawn: NDArray[np.int64] | None = None  # (steps, k, batch)
        self._used, self._before = 0, [rng.bit_generator.state for rng in self.rngs]
        if keeps(data, expected):
            floats = 4 * len(data) * pixels <= _MOST_BYTES
            parts = []
            for start in range(0, len(data), _ROWS):
                images = data.at(np.arange(start, min(start + _ROWS, len(data))))
                whole = images.dtype == np.uint8 and not floats
                x = torch.from_numpy(images).to(device) if whole else to_tensor(images, device)
                parts.append(x.permute(0, 2, 3, 1).flatten(1))  # Networks flatten images with the channels last.
            self.table = torch.cat(parts)

    def draw(self) -> Tensor:
        """Draw one batch for each generator: (k, batch, c, h, w), in memory with the channels last."""
        if self.table is None:
            x = to_tensor(np.concatenate([self.data.sample(self.batch, rng)[0] for rng in self.rngs]), self.device)
            return x.unflatten(0, (len(self.rngs), self.batch))
        if self._drawn is None or self._used == len(self._drawn):
            self._before = [rng.bit_generator.state for rng in self.rngs]
            self._drawn, self._used = np.stack([self._rows(rng, _AHEAD) for rng in self.rngs], 1), 0
        self._used += 1
        return self.gather(self._drawn[self._used - 1])

    def gather(self, index: NDArray[np.int64]) -> Tensor:
        """Return images (k, n, c, h, w) of the data set that is on the device, by their numbers (k, n)."""
        assert self.table is not None
        x = self.table.index_select(0, torch.from_numpy(index.reshape(-1)).to(self.device))
        x = x / 255 if x.dtype == torch.uint8 else x
        c, h, w = self.data.image_shape
        return x.view(*index.shape, h, w, c).permute(0, 1, 4, 2, 3)

    def settle(self) -> None:
        """Reset the generators to where they would be had nothing been drawn ahead."""
        if self._drawn is not None:
            for rng, before in zip(self.rngs, self._before):
                rng.bit_generator.state = before
                self._rows(rng, self._used)
        self._drawn, self._used = None, 0

    def keep(self, indices: Sequence[int]) -> None:
        """Draw for these models only."""
        self.settle()
        self.rngs = [self.rngs[i] for i in indices]

    def _rows(self, rng: np.random.Generator, steps: int) -> NDArray[np.int64]:
        """Draw the rows (steps, batch) that `data.sample` would draw."""
        return self.data.draw_index(steps * self.batch, rng).reshape(steps, self.batch)


def keeps(data: DataSet, expected: float) -> bool:
    """Return whether all images are made once: if they fit, and as many as half of them will be drawn."""
    return _numbered(data) and len(data) * int(np.prod(data.image_shape)) <= _MOST_BYTES and len(data) <= 2 * expected


def _numbered(data: DataSet) -> bool:
    """Return whether `sample` draws images by their numbers, which can be drawn ahead; a subclass of the user's may
    not."""
    if type(data).sample not in (DataSet.sample, TableDataSet.sample):
        return False
    if isinstance(data, TableDataSet):
        return type(data).draw_index in (TableDataSet.draw_index, BiasedTable.draw_index)
    known = (FactorGrid.sample, BiasedGrid.sample, FactorRows.sample)
    return not data.stochastic and type(data.factors).sample in known


class PairBatches(Batches):
    """Pairs for k models: images (k, 2 batch, c, h, w), and which factors changed, (k, batch, factors)."""

    def __init__(self, pairs: Pairs, *arguments: Any):
        super().__init__(pairs.data, *arguments)
        self.pairs = pairs

    def draw(self) -> Any:
        changed: list[Any]
        if self.table is not None:
            found = [self.pairs.index(self.batch, rng) for rng in self.rngs]
            changed = [which for _, _, which in found]
            x = self.gather(np.stack([np.concatenate(one[:2]) for one in found]))
        else:
            drawn = [self.pairs.sample(self.batch, rng) for rng in self.rngs]
            changed = [which for _, which in drawn]
            x = to_tensor(np.concatenate([images for images, _ in drawn]), self.device)
            x = x.unflatten(0, (len(self.rngs), 2 * self.batch))
        known = None if changed[0] is None else torch.from_numpy(np.stack(changed)).to(self.device)
        return x, known


class Noise:
    """Standard normal numbers (k, *shape) for k models.

    Parameters
    ----------
    generators : one for each model, on the device.
    ahead : whether nothing but this draws from them. Then several steps are drawn at once, where that gives the same.
    """

    def __init__(self, generators: Sequence[torch.Generator], shape: tuple[int, ...], *, ahead: bool):
        self.generators, self.shape = list(generators), shape
        self.device = self.generators[0].device
        whole = self.device.type == "cpu" and int(np.prod(shape)) % _NORMALS == 0
        self.ahead = _AHEAD if ahead and whole else 1
        self._drawn: Tensor | None = None  # (k, steps, *shape)
        self._used, self._before = 0, [one.get_state() for one in self.generators]

    def draw(self) -> Tensor:
        if self._drawn is None or self._used == self.ahead:
            if self.ahead > 1:
                self._before = [one.get_state() for one in self.generators]
            self._drawn, self._used = self._draw(self.ahead), 0
        self._used += 1
        return self._drawn[:, self._used - 1]

    def settle(self) -> None:
        """Reset the generators to where they would be had nothing been drawn ahead."""
        if self._drawn is not None and self._used < self.ahead:
            for one, before in zip(self.generators, self._before):
                one.set_state(before)
            self._draw(self._used)
        self._drawn, self._used = None, 0

    def _draw(self, steps: int) -> Tensor:
        drawn = torch.empty((len(self.generators), steps, *self.shape), device=self.device)
        for part, one in zip(drawn, self.generators):
            torch.randn(part.shape, generator=one, device=self.device, out=part)
        return drawn


def labelled_images(data: DataSet, count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the images (count, c, h, w) of which a run with this seed and supervised=count knows the factors (count,
    k)."""
    return data.sample(count, np.random.default_rng([seed, _LABELS]))


@dataclass(frozen=True)
class Labels:
    """Images (m, c, h, w) that have labels (m, k) in [0, 1], of which every step takes some at random.

    Which it takes depends on seed and step alone, so that the other images of a run are those of one without labels.
    """

    images: Tensor
    labels: Tensor
    seed: int
    batch: int

    @classmethod
    def of(cls, data: DataSet, config: "Config", device: torch.device) -> "Labels | None":
        count = config.parameters.get("supervised")
        if not count:
            return None
        images, factors = labelled_images(data, count, config.seed)
        batch = min(config.batch, count)
        return cls(to_tensor(images, device), torch.from_numpy(scaled(data, factors)).to(device), config.seed, batch)

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the images and labels of a step."""
        rows = np.random.default_rng([self.seed, _LABELS, step]).integers(0, len(self.images), self.batch)
        index = torch.from_numpy(rows).to(self.images.device)
        return self.images[index], self.labels[index]


def scaled(data: DataSet, factors: NDArray[Any]) -> NDArray[np.float32]:
    """Return factors (n, k) brought to [0, 1] by the range that each has in the data set."""
    low, high = np.array(data.factors.low, float), np.array(data.factors.high, float)
    return ((factors - low) / np.where(high > low, high - low, 1.0)).astype(np.float32)


def to_tensor(images: NDArray[Any], device: torch.device) -> Tensor:
    """Return images (n, c, h, w), uint8 or floats in [0, 1], as float32 in the layout that convolutions are fast in."""
    if not images.flags.writeable:  # torch has no read-only tensors
        images = images.copy()
    x = torch.from_numpy(np.ascontiguousarray(images)).to(device)
    floats = x.to(torch.float32, memory_format=torch.channels_last)
    return floats.div_(255) if x.dtype == torch.uint8 else floats
