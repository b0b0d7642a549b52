"""How long a clustering study would take on this machine, from a few steps of each phase."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from karenina.models.fast import Adam
from karenina.models.monet import ComponentVAE, MONet, object_losses
from karenina.studies.clustering.plan import Plan
from karenina.studies.clustering.study import Study
from karenina.tasks.clustering import random_sprites, render


def estimate(plan: Plan) -> dict[str, float]:
    """Core seconds of the phases that take nearly all of the time; that of the agents at most, for those that learn
    stop early."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    monets = len(plan.strengths) if plan.own else int(plan.masks == "monet")
    found = {}
    if monets:
        network = MONet(0, plan.side, plan.slots, plan.latents, plan.units, plan.widths)
        scenes = random_sprites(["any"] * plan.sprites, rng, scenes=plan.monet_batch, scale=plan.scale)
        images = torch.from_numpy(render(scenes, plan.side)).float() / 255
        noise = torch.randn(plan.monet_batch, plan.slots, plan.latents)
        step = _descent(network, lambda: network.losses(images, noise, 0.5, 0.5)["loss"])
        found["MONets" if plan.own else "MONet"] = monets * plan.monet_steps * _seconds(step)
    if not plan.own:
        vae = ComponentVAE(list(range(plan.seeds)), plan.side, plan.latents, plan.units)
        objects = torch.rand(plan.seeds, 64, (plan.side // 4) ** 2, 64)
        noise, betas = torch.randn(plan.seeds, 64, plan.latents), torch.ones(plan.seeds)
        step = _descent(vae, lambda: object_losses(vae, objects, noise, betas).sum())
        found["component VAEs"] = len(plan.betas) * plan.component_steps * _seconds(step)
    groups = len(plan.strengths) if plan.own else plan.seeds
    found["agents, at most"] = groups * plan.cap * _agents(plan)
    return found


def _descent(network: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
    optimiser = Adam(network.parameters(), 1e-3)

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()

    return step


def _seconds(step: Callable[[], None], times: int = 3) -> float:
    step()
    started = time.process_time()
    for _ in range(times):
        step()
    return (time.process_time() - started) / times


def _agents(plan: Plan) -> float:
    """Seconds of an environment step of the agents that are stepped together."""
    small = replace(
        plan, seeds=1, betas=plan.betas[:1] if plan.own else plan.betas, episodes=2, episode=1, monet_steps=1,
        component_steps=1, transition_steps=1, cap=2,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        study = Study(small, Path(folder) / "study")
        _ = study.components, study.transitions, study.scaling
        found = []
        for cap in (2, 12):
            started = time.process_time()
            longer = Study(replace(small, cap=cap), Path(folder) / f"{cap}")
            longer.__dict__.update({name: study.__dict__[name] for name in ("components", "transitions", "scaling")})
            longer.__dict__.update({"_monet": study.__dict__["_monet"]} if plan.masks == "monet" else {})
            longer.agents(0)
            found.append(time.process_time() - started)
    return max(found[1] - found[0], 0.0) / 10
