"""The clustering study: does a better representation make an agent learn faster? Its phases, as functions of a folder.

1. `attention`: a MONet divides scenes of sprites into slots; its attention is then frozen. `gate` says how well.
2. `exploration`: transitions of random clicks inside masks, and the objects that the attention cuts out.
3. `components`: VAEs of one shape on those objects, several strengths beta, several seeds: the representations.
4. `transitions`: for each, a model of what a click does to a slot.
5. `agents`: for each, several reward predictors learn the task; counted are environment steps to 90 % success.
6. `measures`: UDR_S, dynamics score, MIG and DCI of each representation on images of single sprites.

Every phase writes its result by atomic rename, returns what is there when it was done before, and resumes after a kill.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from karenina._files import atomic
from karenina.models.cobra import RewardLearners, TransitionModels
from karenina.models.monet import Attention, ComponentVAE, cut_out, to_patches
from karenina.studies.clustering.plan import Plan, plan_for
from karenina.studies.clustering.slots import Floats, SlotTransition, SlotVision, foreground_ari, part_of, same_slots
from karenina.tasks.clustering import Environment, TrueTransition, learn, random_actions, random_sprites, render
from karenina.tasks.clustering.sprites import render_with_masks
from karenina.training.checkpoint import FORMAT, read_tensors, write_tensors
from karenina.training.clustering import train_components, train_monet, train_transitions

Say = Callable[[str], None]

__all__ = ["Plan", "Study", "plan_for"]


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
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "plan.json"
        wanted = json.loads(json.dumps(asdict(self.plan)))
        if not path.exists():
            write_json(path, wanted)
        elif (found := json.loads(path.read_text())) != wanted:
            odd = [name for name in wanted if found.get(name) != wanted[name]]
            raise ValueError(f"{path} is of another plan ({', '.join(odd)} differ): choose another folder")

    def run(self) -> list[dict[str, Any]]:
        """All phases; the rows of `measures`."""
        if self.plan.masks == "monet":
            self.say(f"gate: {self.gate()}")
        _ = self.transitions
        for seed in range(self.plan.seeds):
            self.agents(seed)
        return self.measures()

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
    def attention(self) -> Attention:
        plan = self.plan
        network, _ = train_monet(
            self.folder / "monet.safetensors",
            lambda n, rng: render(self._scenes(n, rng), plan.side),
            seed=plan.seed,
            side=plan.side,
            slots=plan.slots,
            latents=plan.latents,
            steps=plan.monet_steps,
            **self._options("monet"),
        )
        return network.attention

    def _masks(self, images: NDArray[np.uint8], true: Floats) -> Tensor:
        """Masks of all slots (n, slots, side, side)."""
        if self.plan.masks == "oracle":
            return torch.from_numpy(true)
        attention = self.attention
        x = torch.from_numpy(images).float() / 255
        with torch.no_grad():
            return torch.cat([attention(part).exp() for part in x.split(64)])

    def look(self, scenes: Floats) -> tuple[NDArray[np.uint8], Tensor]:
        """Images (n, 3, side, side) of scenes and the masks of the slots that hold objects (n, slots - 1, side, side):
        the slot with the largest part of the frame is the background, which has nothing to move."""
        images, true = render_with_masks(scenes, self.plan.side)
        masks = self._masks(images, true)
        kept = masks.sum((2, 3)).argsort(1)[:, :-1].sort(1).values
        return images, masks[torch.arange(len(masks))[:, None], kept]

    def gate(self, scenes: int = 500) -> dict[str, float]:
        """Adjusted Rand index of masks and true masks on pixels of sprites, mean over scenes with 2 to 4 sprites; and
        the share of scenes where it is above 0.9."""
        path = self.folder / "gate.json"
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
        plan, path = self.plan, self.folder / "components.safetensors"
        watched, _ = self.singles(200, seed=4)
        return train_components(
            path,
            lambda rows: self._objects[torch.from_numpy(rows)].float().div_(255),
            plan.episodes * (plan.episode + 1) * plan.objects,
            watched,
            seeds=plan.model_seeds,
            betas=plan.strengths,
            side=plan.side,
            latents=plan.latents,
            steps=plan.component_steps,
            **self._options("components"),
        )

    def singles(self, n: int, seed: int) -> tuple[Tensor, NDArray[np.int64]]:
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
        images, masks = self.look(scenes)
        slot = (masks * true[:, None]).sum((2, 3)).argmax(1)
        return self.cut(images, masks[torch.arange(n), slot][:, None]), factors

    # 4. Transitions

    def encode(self, objects: Tensor, size: int = 500) -> tuple[Tensor, Tensor]:
        """Means and log-variances (models, n, latents) of patches (n, cells, 64), which may be uint8."""
        vae, _ = self.components
        parts = [part.float() / 255 if part.dtype == torch.uint8 else part for part in objects.split(size)]
        with torch.no_grad():
            found = [vae.encode(part.expand(len(self.plan.strengths), *part.shape)) for part in parts]
        return torch.cat([mean for mean, _ in found], 1), torch.cat([logvar for _, logvar in found], 1)

    @cached_property
    def scaling(self) -> tuple[Tensor, Tensor]:
        """What is subtracted from codes (models, 1, latents) and what they are then divided by (models, 1, 1): one
        number for all latents of a model, since a latent that is nearly constant should stay so."""
        path = self.folder / "scaling.safetensors"
        if not path.exists():
            mean, _ = self.encode(self._objects)
            centre = mean.mean(1, keepdim=True)
            scale = (mean - centre).square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-6)
            write_tensors(path, {"centre": centre, "scale": scale}, {"format": FORMAT})
        stored = read_tensors(path)[0]
        return stored["centre"], stored["scale"]

    def _transition_rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Codes (models, n, latents) of slots, the actions (n, 4), and the codes of the same slots after them."""
        centre, scale = self.scaling
        found = self.exploration()
        codes = ((self.encode(self._objects)[0] - centre) / scale).unflatten(1, (-1, self.plan.objects))
        order = found["order"][None, :, :, None].expand(len(codes), -1, -1, self.plan.latents)
        after = codes[:, found["after"]].gather(2, order)
        actions = found["actions"].repeat_interleave(self.plan.objects, 0)
        return codes[:, found["before"]].flatten(1, 2), actions, after.flatten(1, 2)

    @cached_property
    def transitions(self) -> TransitionModels:
        return train_transitions(
            self.folder / "transitions.safetensors",
            self._transition_rows,
            latents=self.plan.latents,
            seeds=self.plan.model_seeds,
            steps=self.plan.transition_steps,
            **self._options("transitions"),
        )

    # 5. Agents

    def agents(self, seed: int) -> dict[str, Any]:
        """What the agents of the vision models of one seed did, one model per beta, all stepped together: steps and
        censored (models, initialisations)."""
        plan, path = self.plan, self._agents_file(seed)
        if not path.exists():
            models = list(range(seed, len(plan.strengths), plan.seeds))
            names = [(plan.seed, model, i) for model in models for i in range(plan.initialisations)]
            seeds = [int(np.random.default_rng([*name, 1]).integers(2**31)) for name in names]
            centre, scale = self.scaling
            vae = part_of(self.components[0], models)
            found = learn(
                [Environment(np.random.default_rng([*name, 0]), scale=plan.scale) for name in names],
                SlotVision(self.look, self.cut, vae, centre[models], scale[models]),
                SlotTransition(part_of(self.transitions, models)),
                RewardLearners(seeds, plan.latents),
                [np.random.default_rng([*name, 2]) for name in names],
                cap=plan.cap,
                window=plan.window,
                updates=plan.updates,
                batch=plan.batch,
            )
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

    def measures(self) -> list[dict[str, Any]]:
        """One row per vision model: its strength and seed, mean steps, censored agents, and scores.

        Only of seeds whose agents are done; the rows are kept when that is all of them.
        """
        from karenina.metrics import score
        from karenina.selection import dynamics, udr

        path = self.folder / "results.json"
        if path.exists():
            return read_json(path)
        plan = self.plan
        objects, factors = self.singles(plan.singles, seed=3)
        mean, logvar = self.encode(objects)
        kl = 0.5 * (mean**2 + logvar.exp() - logvar - 1).mean(1)
        codes = mean.double().numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of half-dead latents and models without partners
            ranking = udr(codes, kl.double().numpy(), plan.strengths, similarity="spearman")
        traces = self.components[1].float().transpose(0, 1).numpy()
        stable = dynamics(list(traces), plan.strengths)
        # The score is of a setting; a model's part in it is its mean distance to the other seeds.
        distance = {b: pairs.sum(1) / max(len(pairs) - 1, 1) for b, pairs in zip(stable.groups, stable.pairwise)}
        of_setting = dict(zip(stable.groups, stable.scores))
        agents = {
            model: (steps, censored)
            for seed in range(plan.seeds)
            if self._agents_file(seed).exists()
            for found in [self.agents(seed)]
            for model, steps, censored in zip(found["models"], found["steps"], found["censored"])
        }
        rows = []
        for i in sorted(agents):
            beta = plan.strengths[i]
            table = score(codes[i], factors, metrics=["mig", "dci_boosted"], seed=0)
            steps, censored = agents[i]
            rows.append(
                {
                    "model": i,
                    "beta": beta,
                    "seed": i % plan.seeds,
                    "steps": float(np.mean(steps)),
                    "censored": int(np.sum(censored)),
                    "udr_spearman": None if np.isnan(ranking.scores[i]) else float(ranking.scores[i]),
                    "informative": int(ranking.informative[i]),
                    "dynamics": -float(distance[beta][i % plan.seeds]),
                    "dynamics_of_beta": float(of_setting[beta]),
                    "mig": float(table["mig"].value),
                    "dci": float(table["dci_boosted"].value),
                }
            )
        if len(rows) == len(plan.strengths):
            write_json(path, rows)
        return rows


def as_bytes(x: Tensor) -> Tensor:
    return (x * 255).round().to(torch.uint8)


def write_json(path: Path, value: Any) -> None:
    with atomic(path) as part:
        part.write_text(json.dumps(value, indent=1))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())
