"""The clustering study: does a better representation make an agent learn faster? Its phases, as functions of a folder.

1. `attention`: a MONet divides scenes of sprites into slots; its attention is then frozen. `gate` says how well.
2. `exploration`: transitions of random clicks inside masks, and the objects that the attention cuts out.
3. `components`: VAEs of one shape on those objects, several strengths beta, several seeds: the representations.
4. `transitions`: for each, a model of what a click does to a slot.
5. `agents`: for each, several reward predictors learn the task; counted are environment steps to 90 % success.
6. `measures`: UDR_S, dynamics score, MIG and DCI of each representation on images of single sprites.

Every phase writes its result by atomic rename, returns what is there when it was done before, and resumes after a kill.
In a study whose models have MONets of their own (`Plan.own`) each is a study in the folder models/, of which 3 is part
of 1; only 6 looks at all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from karenina._files import read_json
from karenina.models.cobra import TransitionModels
from karenina.models.monet import Attention, ComponentVAE, MONet, cut_out, to_patches
from karenina.studies.clustering.files import adopt, write_json
from karenina.studies.clustering.plan import Plan
from karenina.studies.clustering.slots import Floats, as_bytes, encode, foreground_ari, joined, same_slots
from karenina.tasks.clustering import TrueTransition, random_actions, random_sprites, render
from karenina.tasks.clustering.sprites import render_with_masks
from karenina.training.checkpoint import FORMAT, read_tensors, write_tensors
from karenina.training.clustering import train_components, train_monet, train_transitions

Say = Callable[[str], None]


WATCHED = 200  # single sprites on which traces are recorded


def quiet(line: str) -> None:
    pass


@dataclass(frozen=True)
class Study:
    """A plan and its folder; `say` gets a line of progress now and then."""

    plan: Plan
    folder: Path
    say: Say = quiet
    checkpoint_every: float = 60.0

    def __post_init__(self) -> None:
        adopt(self.folder, self.plan)

    @cached_property
    def parts(self) -> "list[Study] | None":
        """The studies of the models, where each has a MONet of its own and there are several."""
        if not self.plan.own or len(self.plan.strengths) == 1:
            return None
        return [self.part(model) for model in range(len(self.plan.strengths))]

    def part(self, model: int) -> "Study":
        """The study of one model that has a MONet of its own."""
        return Study(self.plan.only(model), self.folder / "models" / str(model), self.say, self.checkpoint_every)

    def run(self) -> list[dict[str, Any]]:
        """All phases, one after the other; the rows of `measures`."""
        for part in self.parts or [self]:
            part.learn()
        return self.measures()

    def learn(self) -> None:
        """All phases but the last."""
        if self.plan.masks == "monet":
            self.say(f"gate: {self.gate()}")
        _ = self.transitions
        for seed in range(self.plan.seeds):
            self.agents(seed)

    def _progress(self, phase: str) -> Callable[[int, int, dict[str, float]], None]:
        def show(step: int, steps: int, row: dict[str, float]) -> None:
            self.say(f"{phase} {step}/{steps} " + " ".join(f"{name} {value:.4g}" for name, value in row.items()))

        return show

    def _options(self, phase: str) -> dict[str, Any]:
        return {"progress": self._progress(phase), "checkpoint_every": self.checkpoint_every}

    # 1. Attention

    def _scenes(self, n: int, rng: np.random.Generator) -> Floats:
        """Scenes with 1 to `sprites` sprites of any hue; the others are out of sight."""
        scenes = random_sprites(["any"] * self.plan.sprites, rng, scenes=n, scale=self.plan.scale)
        hidden = np.arange(self.plan.sprites) >= rng.integers(1, self.plan.sprites + 1, size=n)[:, None]
        scenes[hidden, :2] = -1
        return scenes

    @cached_property
    def _monet(self) -> tuple[MONet, Tensor | None]:
        """The MONet; if it is the vision model itself, also its trace (epochs, 1, samples, units)."""
        plan = self.plan
        network, _, traces = train_monet(
            self.folder / "monet.safetensors",
            lambda n, rng: render(self._scenes(n, rng), plan.side),
            seed=plan.model_seeds[0] if plan.own else plan.seed,
            beta=plan.betas[0] if plan.own else 0.5,
            trace=self._activations if plan.own else None,
            side=plan.side,
            slots=plan.slots,
            latents=plan.latents,
            steps=plan.monet_steps,
            batch=plan.monet_batch,
            widths=plan.widths,
            units=plan.units,
            **self._options("monet"),
        )
        return network, traces

    @property
    def attention(self) -> Attention:
        return self._monet[0].attention

    def _activations(self, network: MONet) -> Tensor:
        """What the decoder's first layer (1, samples, units) does on single sprites, at present."""
        with torch.no_grad():
            objects = self.singles(WATCHED, seed=4, attention=network.attention)[0]
            return network.vae.first_activations(network.vae.encode(objects[None])[0]).half()

    def _masks(self, images: NDArray[np.uint8], true: Floats, attention: Attention | None = None) -> Tensor:
        """Masks of all slots (n, slots, side, side)."""
        if self.plan.masks == "oracle":
            return torch.from_numpy(true)
        attention = attention or self.attention
        x = torch.from_numpy(images).float() / 255
        with torch.no_grad():
            return torch.cat([attention(part).exp() for part in x.split(64)])

    def look(self, scenes: Floats, attention: Attention | None = None) -> tuple[NDArray[np.uint8], Tensor]:
        """Images (n, 3, side, side) of scenes and the masks of the slots that hold objects (n, slots - 1, side, side):
        the slot with the largest part of the frame is the background, which has nothing to move."""
        images, true = render_with_masks(scenes, self.plan.side)
        masks = self._masks(images, true, attention)
        kept = masks.sum((2, 3)).argsort(1)[:, :-1].sort(1).values
        return images, masks[torch.arange(len(masks))[:, None], kept]

    def gate(self, scenes: int = 500) -> dict[str, float]:
        """Adjusted Rand index of masks and true masks on pixels of sprites, mean over scenes with 2 to 4 sprites; and
        the share of scenes where it is above 0.9."""
        path = self.folder / "gate.json"
        if self.parts:
            gates = [part.gate(scenes) for part in self.parts]
            return {name: float(np.mean([one[name] for one in gates])) for name in gates[0]}
        if not path.exists():
            drawn = self._scenes(4 * scenes, np.random.default_rng([self.plan.seed, 1]))
            drawn = drawn[(drawn[:, 1, 0] > 0)][:scenes]
            images, true = render_with_masks(drawn, self.plan.side)
            found = foreground_ari(true, self._masks(images, true).numpy())
            write_json(path, {"ari": float(np.mean(found)), "above_0.9": float(np.mean(np.array(found) > 0.9))})
        return read_json(path)

    # 2. Exploration

    def exploration(self) -> dict[str, Tensor]:
        """images (frames, 3, side, side) and masks (frames, objects, side, side) uint8, and for every transition its
        action, the frames before and after, and which slot after is which before (`order`)."""
        path = self.folder / "exploration.safetensors"
        if not path.exists():
            plan = self.plan
            rng = np.random.default_rng([plan.seed, 2])
            scenes = random_sprites(["any"] * plan.sprites, rng, scenes=plan.episodes, scale=plan.scale)
            frames, actions, orders = [self.look(scenes)], [], []
            for t in range(plan.episode):
                self.say(f"exploration {t}/{plan.episode}")
                images, masks = frames[-1]
                action = np.concatenate([random_actions(mask, 1, rng) for mask in masks.numpy()])
                scenes = TrueTransition().predict(scenes, action[:, None])[:, 0]
                frames.append(self.look(scenes))
                actions.append(action)
                orders.append(same_slots(images, masks.numpy(), frames[-1][0], frames[-1][1].numpy()))
            before = torch.arange(plan.episodes * plan.episode)
            tensors = {
                "images": torch.from_numpy(np.concatenate([images for images, _ in frames])),
                "masks": torch.cat([(masks * 255).round().to(torch.uint8) for _, masks in frames]),
                "actions": torch.from_numpy(np.concatenate(actions)).float(),
                "before": before,
                "after": before + plan.episodes,  # frames are in order of time
                "order": torch.from_numpy(np.concatenate(orders)),
            }
            write_tensors(path, tensors, {"format": FORMAT})
        return read_tensors(path)[0]

    @cached_property
    def _objects(self) -> Tensor:
        """Patches (frames * objects, cells, 64) uint8 of all that the attention cut out."""
        found = self.exploration()
        parts = zip(found["images"].split(1000), found["masks"].split(1000))
        return torch.cat([as_bytes(self.cut(images.numpy(), masks.float() / 255)) for images, masks in parts])

    def cut(self, images: NDArray[np.uint8], masks: Tensor) -> Tensor:
        """Patches (n * slots, cells, 64)."""
        x = to_patches(torch.from_numpy(images).float() / 255)[:, None]
        return cut_out(x, to_patches(masks[:, :, None])).flatten(0, 1)

    # 3. Components

    @cached_property
    def components(self) -> tuple[ComponentVAE, Tensor]:
        """The stacked VAEs, and their traces (epochs, models, samples, units)."""
        parts = [self.components_of(beta) for beta in self.plan.betas]
        return joined([vae for vae, _ in parts]), torch.cat([traces for _, traces in parts], 1)

    def components_of(self, beta: float) -> tuple[ComponentVAE, Tensor]:
        """Those of the models of one beta, which are trained together."""
        plan = self.plan
        if plan.own:
            network, traces = self._monet
            assert traces is not None
            return network.vae, traces
        models = plan.models_of(beta)
        watched, _ = self.singles(WATCHED, seed=4)
        return train_components(
            self._file("components", beta),
            lambda rows: self._objects[torch.from_numpy(rows)].float().div_(255),
            plan.episodes * (plan.episode + 1) * plan.objects,
            watched,
            seeds=[plan.model_seeds[i] for i in models],
            betas=[beta] * len(models),
            side=plan.side,
            latents=plan.latents,
            steps=plan.component_steps,
            units=plan.units,
            **self._options(f"components of beta {beta:g}"),
        )

    def _file(self, phase: str, beta: float) -> Path:
        return self.folder / phase / f"beta_{beta!r}.safetensors"

    def singles(self, n: int, seed: int, attention: Attention | None = None) -> tuple[Tensor, NDArray[np.int64]]:
        """Patches (n, cells, 64) of the slot that shows the only sprite, and its factors (n, 5) on a grid: x, y, shape,
        hue, saturation."""
        rng = np.random.default_rng([self.plan.seed, seed])
        sizes = (10, 10, 3, 10, 5)
        factors = rng.integers(sizes, size=(n, len(sizes)))
        scenes = np.zeros((n, 1, 7))
        at = factors / (np.array(sizes) - 1)
        scenes[:, 0, :2] = 0.1 + 0.8 * at[:, :2]
        scenes[:, 0, 2] = factors[:, 2]
        scenes[:, 0, 3:] = np.stack([np.full(n, self.plan.scale), at[:, 3] * 0.9, 0.3 + 0.7 * at[:, 4], np.ones(n)], 1)
        true = torch.from_numpy(render_with_masks(scenes, self.plan.side)[1][:, 1])
        images, masks = self.look(scenes, attention)
        slot = (masks * true[:, None]).sum((2, 3)).argmax(1)
        return self.cut(images, masks[torch.arange(n), slot][:, None]), factors

    # 4. Transitions

    @cached_property
    def scaling(self) -> tuple[Tensor, Tensor]:
        """What is subtracted from codes (models, 1, latents) and what they are then divided by (models, 1, 1)."""
        centre, scale = zip(*[self.scaling_of(beta) for beta in self.plan.betas])
        return torch.cat(centre), torch.cat(scale)

    def scaling_of(self, beta: float) -> tuple[Tensor, Tensor]:
        """One divisor for all latents of a model, since a latent that is nearly constant should stay so."""
        path = self._file("scaling", beta)
        if not path.exists():
            mean, _ = encode(self.components_of(beta)[0], self._objects)
            centre = mean.mean(1, keepdim=True)
            scale = (mean - centre).square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-6)
            write_tensors(path, {"centre": centre, "scale": scale}, {"format": FORMAT})
        stored = read_tensors(path)[0]
        return stored["centre"], stored["scale"]

    def _transition_rows(self, beta: float) -> tuple[Tensor, Tensor, Tensor]:
        """Codes (models, n, latents) of slots, the actions (n, 4), and the codes of the same slots after them."""
        centre, scale = self.scaling_of(beta)
        found = self.exploration()
        mean, _ = encode(self.components_of(beta)[0], self._objects)
        codes = ((mean - centre) / scale).unflatten(1, (-1, self.plan.objects))
        order = found["order"][None, :, :, None].expand(len(codes), -1, -1, self.plan.latents)
        after = codes[:, found["after"]].gather(2, order)
        actions = found["actions"].repeat_interleave(self.plan.objects, 0)
        return codes[:, found["before"]].flatten(1, 2), actions, after.flatten(1, 2)

    @cached_property
    def transitions(self) -> TransitionModels:
        return joined([self.transitions_of(beta) for beta in self.plan.betas])

    def transitions_of(self, beta: float) -> TransitionModels:
        return train_transitions(
            self._file("transitions", beta),
            lambda: self._transition_rows(beta),
            latents=self.plan.latents,
            seeds=[self.plan.model_seeds[i] for i in self.plan.models_of(beta)],
            steps=self.plan.transition_steps,
            **self._options(f"transitions of beta {beta:g}"),
        )

    # 5. Agents

    def agents(self, seed: int) -> dict[str, Any]:
        """What the agents of the vision models of one seed did, one model per beta, all stepped together: steps and
        censored (models, initialisations)."""
        from karenina.studies.clustering.agents import teach

        plan, path = self.plan, self._agents_file(seed)
        if not path.exists():
            models = list(range(seed, len(plan.strengths), plan.seeds))
            names = [(model, i) for model in models for i in range(plan.initialisations)]
            found, _ = teach(self, names)
            shape = (len(models), plan.initialisations)
            result = {
                "models": models,
                "steps": found.steps.reshape(shape).tolist(),
                "censored": found.censored.reshape(shape).tolist(),
                "episodes": [rows.tolist() for rows in found.episodes],
            }
            write_json(path, result)
            self.say(f"agents of models {models}: mean steps {found.steps.reshape(shape).mean(1).tolist()}")
        return read_json(path)

    def _agents_file(self, seed: int) -> Path:
        return self.folder / "agents" / f"{seed}.json"

    # 6. Measures

    def seen(self) -> tuple[Floats, Floats, NDArray[np.int64], Floats]:
        """What the models make of images of single sprites: means and log-variances (models, n, latents), the factors
        (n, 5), and the traces (models, epochs, samples, units)."""
        if self.parts:
            found = [part.seen() for part in self.parts]
            mean, logvar, traces = (np.concatenate([one[j] for one in found]) for j in (0, 1, 3))
            return mean, logvar, found[0][2], traces
        objects, factors = self.singles(self.plan.singles, seed=3)
        mean, logvar = (values.double().numpy() for values in encode(self.components[0], objects))
        return mean, logvar, factors, self.components[1].float().transpose(0, 1).numpy()

    def done_agents(self) -> dict[int, tuple[list[int], list[bool]]]:
        """Model -> steps and censored of its agents, for those that are done."""
        if self.parts:
            return {i: done for i, part in enumerate(self.parts) for done in part.done_agents().values()}
        return {
            model: (steps, censored)
            for seed in range(self.plan.seeds)
            if self._agents_file(seed).exists()
            for found in [self.agents(seed)]
            for model, steps, censored in zip(found["models"], found["steps"], found["censored"])
        }

    def measures(self) -> list[dict[str, Any]]:
        """One row per vision model: its strength and seed, mean steps, censored agents, and scores.

        Only of seeds whose agents are done; the rows are kept when that is all of them.
        """
        from karenina.studies.clustering.results import complete, score_models

        path = self.folder / "results.json"
        if path.exists() and complete(known := read_json(path)):
            return list(known)
        found = score_models(self.plan, *self.seen(), self.done_agents())
        if len(found) == len(self.plan.strengths):
            write_json(path, found)
        return found
