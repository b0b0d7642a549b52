"""Sizes of the clustering study."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Plan:
    """Sizes of a clustering study. masks: "monet", or "oracle" for the true ones, when a MONet is not to be had."""

    seed: int = 0
    masks: Literal["monet", "oracle"] = "monet"
    side: int = 32
    scale: float = 0.2  # of the sprites: as many pixels at side 32 as 0.13 has at about 49
    sprites: int = 4
    latents: int = 8
    monet_steps: int = 20_000
    betas: tuple[float, ...] = (0.01, 0.1, 1.0)
    seeds: int = 10
    episodes: int = 2_000
    episode: int = 10
    component_steps: int = 3_000
    transition_steps: int = 3_000
    initialisations: int = 5
    cap: int = 3_000
    window: int = 20
    updates: int = 4  # of the reward predictors, per environment step
    batch: int = 32  # of remembered steps, in each
    singles: int = 2_000

    def __post_init__(self) -> None:
        if self.masks not in ("monet", "oracle"):
            raise ValueError(f'masks must be "monet" or "oracle", got {self.masks!r}')
        for name, value in asdict(self).items():
            if name not in ("seed", "masks", "scale", "betas", "sprites") and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.sprites != 4:
            raise ValueError(f"the task has 4 sprites, two of each hue; got {self.sprites}")
        if not self.betas or min(self.betas) < 0:
            raise ValueError(f"betas must be at least one number from 0 on, got {self.betas}")

    @property
    def slots(self) -> int:
        return self.sprites + 1

    @property
    def objects(self) -> int:
        """Slots less the background's."""
        return self.sprites

    @property
    def strengths(self) -> list[float]:
        """The beta of each vision model."""
        return [beta for beta in self.betas for _ in range(self.seeds)]

    @property
    def model_seeds(self) -> list[int]:
        return [10_000 * self.seed + i for i in range(len(self.strengths))]


SCALES = {
    "smoke": Plan(
        monet_steps=20, betas=(0.01, 1.0), seeds=3, episodes=40, episode=4, component_steps=40, transition_steps=40,
        initialisations=2, cap=60, window=2, singles=200,
    ),
    "laptop": Plan(),
}  # fmt: skip


def plan_for(scale: str, **changes: Any) -> Plan:
    if scale not in SCALES:
        raise ValueError(f"no scale {scale!r}; known: {', '.join(SCALES)}")
    return replace(SCALES[scale], **changes)
