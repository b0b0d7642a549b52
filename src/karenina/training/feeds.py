"""What an update is given beside plain batches: pairs of images, and a few images that have labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from karenina.data import DataSet
from karenina.data.pairs import Pairs
from karenina.training.batches import Batches
from karenina.training.config import Config
from karenina.training.loop import to_tensor
from karenina.training.methods import Method

_LABELS = 20_190_503  # keeps the draw of labels apart from all others of a seed


def labelled_images(data: DataSet, count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The images (count, c, h, w) of which a run with this seed and supervised=count knows the factors (count, k)."""
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
    def of(cls, data: DataSet, config: Config, device: torch.device) -> "Labels | None":
        count = config.parameters.get("supervised")
        if not count:
            return None
        images, factors = labelled_images(data, count, config.seed)
        batch = min(config.batch, count)
        return cls(to_tensor(images, device), torch.from_numpy(scaled(data, factors)).to(device), config.seed, batch)

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """Images and labels of a step."""
        rows = np.random.default_rng([self.seed, _LABELS, step]).integers(0, len(self.images), self.batch)
        index = torch.from_numpy(rows).to(self.images.device)
        return self.images[index], self.labels[index]


def scaled(data: DataSet, factors: NDArray[Any]) -> NDArray[np.float32]:
    """Factors (n, k) brought to [0, 1] by the range that each has in the data set."""
    box: Any = data.factors
    low, high = (np.zeros(len(box.sizes)), np.array(box.sizes) - 1) if not box.continuous else (box.low, box.high)
    low, high = np.asarray(low, float), np.asarray(high, float)
    return ((factors - low) / np.where(high > low, high - low, 1.0)).astype(np.float32)


def pairs_of(data: DataSet, config: Config, method: Method) -> Pairs | None:
    return None if method.share is None else Pairs(data, config.parameters["k"])


class PairBatches(Batches):
    """Pairs for k models: images (k, 2 batch, c, h, w), and which factors changed, (k, batch, factors)."""

    def __init__(
        self,
        pairs: Pairs,
        batch: int,
        device: torch.device,
        rngs: Sequence[np.random.Generator],
        expected: float = float("inf"),
    ):
        super().__init__(pairs.data, batch, device, rngs, expected)
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
