"""What the agents of the clustering study see and expect, and how slots are told apart."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from karenina.models.cobra import TransitionModels
from karenina.models.monet import ComponentVAE
from karenina.tasks.clustering import Slots

Floats = NDArray[np.floating[Any]]
Images = NDArray[np.uint8]
Stack = TypeVar("Stack", bound=nn.Module)


class SlotVision:
    """What agents of some vision models see; agents of one model are neighbours.

    look: scenes -> images, masks. cut: these -> patches. Codes are (mean - centre) / scale, which have the model first.
    """

    def __init__(
        self,
        look: Callable[[Floats], tuple[Images, Tensor]],
        cut: Callable[[Images, Tensor], Tensor],
        vae: ComponentVAE,
        centre: Tensor,
        scale: Tensor,
    ):
        self.look, self.cut, self.vae, self.centre, self.scale = look, cut, vae, centre, scale

    def keep(self, models: list[int]) -> None:
        """Go on with these vision models alone."""
        self.vae, self.centre, self.scale = part_of(self.vae, models), self.centre[models], self.scale[models]

    @torch.no_grad()
    def see(self, scenes: Floats) -> Slots:
        images, masks = self.look(scenes)
        mean, _ = self.vae.encode(self.cut(images, masks).unflatten(0, (len(self.scale), -1)))
        codes = (mean - self.centre) / self.scale
        return Slots(codes.reshape(len(scenes), masks.shape[1], -1).numpy(), masks.numpy())


class SlotTransition:
    """What agents of some vision models expect."""

    def __init__(self, model: TransitionModels):
        self.model = model

    def keep(self, models: list[int]) -> None:
        """Go on with the models of these vision models alone."""
        self.model = part_of(self.model, models)

    @torch.no_grad()
    def predict(self, codes: Floats, actions: Floats) -> Floats:
        n, slots, latents = codes.shape
        a = actions.shape[1]
        z = torch.from_numpy(codes)[:, None].expand(n, a, slots, latents)
        act = torch.from_numpy(actions).float()[:, :, None].expand(n, a, slots, 4)
        models = self.model.models
        after = self.model(z.reshape(models, -1, latents), act.reshape(models, -1, 4))
        return after.reshape(n, a, slots, latents).numpy()


def part_of(stack: Stack, models: list[int]) -> Stack:
    """A stack of some of the networks."""
    part = copy.deepcopy(stack)
    for parameter in part.parameters():
        parameter.data = parameter.data[models]
    return part


def joined(stacks: Sequence[Stack]) -> Stack:
    """One stack of the networks of all, in order."""
    whole = copy.deepcopy(stacks[0])
    parameters = zip(whole.parameters(), *(stack.parameters() for stack in stacks), strict=True)
    for parameter, *parts in parameters:
        parameter.data = torch.cat([part.data for part in parts])
    return whole


def encode(vae: ComponentVAE, objects: Tensor, size: int = 500) -> tuple[Tensor, Tensor]:
    """Means and log-variances (models, n, latents) of patches (n, cells, 64), which may be uint8."""
    parts = [part.float() / 255 if part.dtype == torch.uint8 else part for part in objects.split(size)]
    models = len(vae.first.weight)
    with torch.no_grad():
        found = [vae.encode(part.expand(models, *part.shape)) for part in parts]
    return torch.cat([mean for mean, _ in found], 1), torch.cat([logvar for _, logvar in found], 1)


def as_bytes(x: Tensor) -> Tensor:
    return (x * 255).round().to(torch.uint8)


def same_slots(images: NDArray[np.uint8], masks: Floats, images_after: NDArray[np.uint8], masks_after: Floats) -> Any:
    """Which slot after a step each slot before it became (n, slots): the one nearest in place, colour and size, each
    slot being taken once."""
    features = [_summary(images, masks), _summary(images_after, masks_after)]
    cost = ((features[0][:, :, None] - features[1][:, None]) ** 2).sum(-1)
    return np.array([linear_sum_assignment(one)[1] for one in cost]).reshape(len(cost), -1)


def _summary(images: NDArray[np.uint8], masks: Floats) -> Floats:
    """Centre, colour and root of the area of each slot: (n, slots, 6)."""
    at = (np.arange(masks.shape[-1]) + 0.5) / masks.shape[-1]
    mass = masks.sum((2, 3))[..., None] + 1e-3
    place = [np.einsum("nkyx,x->nk", masks, at), np.einsum("nkyx,y->nk", masks, at)]
    colour = np.einsum("nkyx,ncyx->nkc", masks, images / 255.0, optimize=True)
    return np.concatenate([np.stack(place, -1) / mass, colour / mass, np.sqrt(mass) / masks.shape[-1]], axis=2)


def foreground_ari(true: Floats, masks: Floats) -> list[float]:
    """Adjusted Rand index per scene, on the pixels that are mostly of a sprite; true (n, 1 + sprites, ...), masks
    (n, slots, ...)."""
    from sklearn.metrics import adjusted_rand_score

    owners, found = true.argmax(1), masks.argmax(1)
    return [float(adjusted_rand_score(a[a > 0], b[a > 0])) for a, b in zip(owners, found)]
