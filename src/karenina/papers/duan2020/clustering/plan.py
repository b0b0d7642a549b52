"""Sizes of the clustering study, and the folder that holds one."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from karenina._files import atomic, read_json

# The scores of a vision model, and how pages spell them.
SCORES = {
    "udr_spearman": "UDR_S",
    "dynamics": "dynamics score",
    "mig": "MIG",
    "dci": "DCI disentanglement",
    "z_diff": "BetaVAE score",
    "z_min_variance": "FactorVAE score",
}


@dataclass(frozen=True)
class ClusteringPlan:
    """Sizes of a clustering study.

    masks: "monet", or "oracle" for the true ones, when a MONet is not to be had. own: each vision model is a MONet of
    its own, as in the papers; else they share the attention of one and differ in their component VAEs.
    """

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
    component_steps: int = 5_000
    transition_steps: int = 3_000
    initialisations: int = 5
    cap: int = 3_000
    window: int = 20
    updates: int = 4  # of the reward predictors, per environment step
    batch: int = 32  # of remembered steps, in each
    singles: int = 2_000
    own: bool = False
    monet_batch: int = 16
    widths: tuple[int, ...] = (8, 16, 16)  # of the attention's U-Net
    units: int = 64  # of the component VAEs
    first: int = 0  # the number of the first vision model: not 0 in a part of a study

    def __post_init__(self) -> None:
        if self.masks not in ("monet", "oracle"):
            raise ValueError(f'masks must be "monet" or "oracle", got {self.masks!r}')
        if self.own and self.masks == "oracle":
            raise ValueError('a MONet of its own for each model has its own masks: masks must be "monet"')
        for name, value in asdict(self).items():
            if isinstance(value, int) and name not in ("seed", "sprites", "own", "first") and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.sprites != 4:
            raise ValueError(f"the task has 4 sprites, two of each hue; got {self.sprites}")
        if not self.betas or min(self.betas) < 0 or len(set(self.betas)) < len(self.betas):
            raise ValueError(f"betas must be different numbers from 0 on, at least one, got {self.betas}")

    @property
    def slots(self) -> int:
        return self.sprites + 1

    @property
    def objects(self) -> int:
        """Return the slots less the background's."""
        return self.sprites

    @property
    def strengths(self) -> list[float]:
        """Return the beta of each vision model."""
        return [beta for beta in self.betas for _ in range(self.seeds)]

    @property
    def model_seeds(self) -> list[int]:
        return [10_000 * self.seed + self.first + i for i in range(len(self.strengths))]

    def models_of(self, beta: float) -> list[int]:
        return [i for i, strength in enumerate(self.strengths) if strength == beta]

    def only(self, model: int) -> "ClusteringPlan":
        """Return the plan of one vision model of this one."""
        return replace(self, betas=(self.strengths[model],), seeds=1, first=self.first + model)


# Where the papers are silent (steps, widths, cap) these are MONet's (Burgess et al. 2019) or ours. At laptop scale the
# masks are true ones: a small MONet's stay below the gate, an adjusted Rand index of 0.9 (docs/results/clustering.md).
SCALES = {
    "smoke": ClusteringPlan(
        monet_steps=20, betas=(0.01, 1.0), seeds=3, episodes=40, episode=4, component_steps=40, transition_steps=40,
        initialisations=2, cap=60, window=2, singles=300,
    ),
    "laptop": ClusteringPlan(masks="oracle"),
    "paper": ClusteringPlan(
        own=True, side=64, scale=0.13, latents=16, betas=(0.0, 0.01, 0.1, 1.0), monet_steps=1_000_000, monet_batch=64,
        widths=(32, 32, 64, 64), transition_steps=100_000, episodes=10_000, cap=20_000, window=50, singles=10_000,
    ),
}  # fmt: skip


def plan_for(scale: str, **changes: Any) -> ClusteringPlan:
    if scale not in SCALES:
        raise ValueError(f"no scale {scale!r}; known: {', '.join(SCALES)}")
    return replace(SCALES[scale], **changes)


def plan_of(values: Mapping[str, Any]) -> ClusteringPlan:
    """Return the plan that `asdict` or a file plan.json says; what an older file does not say has its default."""
    known = {field.name for field in fields(ClusteringPlan)}
    odd = sorted(set(values) - known)
    if odd:
        raise ValueError(f"a clustering plan has no {', '.join(odd)}")
    tuples = {name: tuple(values[name]) for name in ("betas", "widths") if name in values}
    return ClusteringPlan(**{**values, **tuples})


def read_plan(folder: Path) -> ClusteringPlan:
    if not (folder / "plan.json").is_file():
        raise ValueError(f"{folder} is not a clustering study: it has no plan.json")
    path = folder / "plan.json"
    try:
        found = read_json(path)
        if not isinstance(found, dict):
            raise ValueError("it is not a table")
        return plan_of(found)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is no plan of a clustering study: {error}") from None


def adopt(folder: Path, plan: ClusteringPlan) -> None:
    """Make this the folder of `plan`; ValueError if it is another's."""
    if (folder / "plan.json").is_file():
        found, wanted = asdict(read_plan(folder)), asdict(plan)
        odd = [name for name in wanted if found[name] != wanted[name]]
        if odd:
            raise ValueError(f"{folder} is of another plan ({', '.join(odd)} differ): choose another folder")
        return
    if folder.exists() and (not folder.is_dir() or any(not entry.name.startswith(".") for entry in folder.iterdir())):
        raise ValueError(f"{folder} is not empty and not a clustering study: choose another folder")
    write_json(folder / "plan.json", asdict(plan))


def write_json(path: Path, value: Any) -> None:
    with atomic(path) as part:
        part.write_text(json.dumps(value, indent=1), encoding="utf-8")
