"""The phases of the clustering study: vision models, transition models, agents."""

import copy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from karenina._files import read_json
from karenina.metrics import score
from karenina.numerics.gaussian import kl_per_latent
from karenina.papers.duan2020.clustering.agent import (
    Floats,
    Learning,
    OracleVision,
    Reward,
    RewardLearners,
    Slots,
    Transition,
    TransitionModels,
    TrueReward,
    TrueTransition,
    Vision,
    learn,
    random_actions,
    search,
    success_rate,
)
from karenina.papers.duan2020.clustering.monet import (
    Attention,
    ComponentVAE,
    MONet,
    cut_out,
    to_patches,
    train_components,
    train_monet,
    train_transitions,
)
from karenina.papers.duan2020.clustering.plan import SCORES, ClusteringPlan, adopt, write_json
from karenina.papers.duan2020.clustering.world import Environment, animation, random_sprites, render, render_with_masks
from karenina.selection import dynamics, udr
from karenina.training.run import FORMAT, read_tensors, write_tensors

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
        """Keep these vision models alone."""
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
        """Keep the models of these vision models alone."""
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
    """Return a stack of some of the networks."""
    part = copy.deepcopy(stack)
    for parameter in part.parameters():
        parameter.data = parameter.data[models]
    return part


def joined(stacks: Sequence[Stack]) -> Stack:
    """Return one stack of the networks of all, in order."""
    whole = copy.deepcopy(stacks[0])
    parameters = zip(whole.parameters(), *(stack.parameters() for stack in stacks), strict=True)
    for parameter, *parts in parameters:
        parameter.data = torch.cat([part.data for part in parts])
    return whole


def encode(vae: ComponentVAE, objects: Tensor, size: int = 500) -> tuple[Tensor, Tensor]:
    """Return means and log-variances (models, n, latents) of patches (n, cells, 64), which may be uint8."""
    parts = [part.float() / 255 if part.dtype == torch.uint8 else part for part in objects.split(size)]
    models = len(vae.first.weight)
    with torch.no_grad():
        found = [vae.encode(part.expand(models, *part.shape)) for part in parts]
    return torch.cat([mean for mean, _ in found], 1), torch.cat([logvar for _, logvar in found], 1)


def same_slots(images: NDArray[np.uint8], masks: Floats, images_after: NDArray[np.uint8], masks_after: Floats) -> Any:
    """Return which slot after a step each slot before it became (n, slots): the one nearest in place, colour and size,
    each slot being taken once."""
    features = [_summary(images, masks), _summary(images_after, masks_after)]
    cost = ((features[0][:, :, None] - features[1][:, None]) ** 2).sum(-1)
    return np.array([linear_sum_assignment(one)[1] for one in cost]).reshape(len(cost), -1)


def _summary(images: NDArray[np.uint8], masks: Floats) -> Floats:
    """Return centre, colour and root of the area of each slot: (n, slots, 6)."""
    at = (np.arange(masks.shape[-1]) + 0.5) / masks.shape[-1]
    mass = masks.sum((2, 3))[..., None] + 1e-3
    place = [np.einsum("nkyx,x->nk", masks, at), np.einsum("nkyx,y->nk", masks, at)]
    colour = np.einsum("nkyx,ncyx->nkc", masks, images / 255.0, optimize=True)
    return np.concatenate([np.stack(place, -1) / mass, colour / mass, np.sqrt(mass) / masks.shape[-1]], axis=2)


def foreground_ari(true: Floats, masks: Floats) -> list[float]:
    """Return the adjusted Rand index per scene, on the pixels that are mostly of a sprite; true (n, 1 + sprites, ...),
    masks (n, slots, ...)."""
    from sklearn.metrics import adjusted_rand_score

    owners, found = true.argmax(1), masks.argmax(1)
    return [float(adjusted_rand_score(a[a > 0], b[a > 0])) for a, b in zip(owners, found)]


CANDIDATES = 64
AGENTS = 20


class Agents(NamedTuple):
    """What agents see, what they expect of an action, and which reward they predict."""

    vision: SlotVision
    transition: SlotTransition
    reward: RewardLearners


def teach(study: "ClusteringStudy", names: list[tuple[int, int]]) -> tuple[Learning, Agents]:
    """Train agents, named by (model, initialisation); those of a model are neighbours and equally many."""
    plan = study.plan
    models = list(dict.fromkeys(model for model, _ in names))
    drawn = [(plan.seed, plan.first + model, i) for model, i in names]
    seeds = [int(np.random.default_rng([*name, 1]).integers(2**31)) for name in drawn]
    centre, scale = study.scaling

    def show(step: int, learning: int) -> None:
        if step % 100 == 0:
            study.say(f"agents {step}/{plan.cap} of models {models}: {learning} still learning")

    agents = Agents(
        SlotVision(study.look, study.cut, part_of(study.components[0], models), centre[models], scale[models]),
        SlotTransition(part_of(study.transitions, models)),
        RewardLearners(seeds, plan.latents),
    )
    found = learn(
        [Environment(np.random.default_rng([*name, 0]), scale=plan.scale) for name in drawn],
        *agents,
        [np.random.default_rng([*name, 2]) for name in drawn],
        cap=plan.cap,
        window=plan.window,
        updates=plan.updates,
        batch=plan.batch,
        group=len(names) // len(models),
        progress=show,
    )
    return found, agents


def play(study: "ClusteringStudy", name: str, vision: Vision, transition: Transition, reward: Reward) -> dict[str, Any]:
    """Play one episode without exploration, as episodes/NAME.gif; return how it went."""
    environment = Environment(np.random.default_rng([study.plan.seed, 7]), scale=study.plan.scale)
    rng = np.random.default_rng([study.plan.seed, 8])
    step = environment.reset()
    scenes, clicked = [step.observation], []
    while not step.last():
        slots = vision.see(step.observation[None])
        actions = random_actions(slots.masks[0], CANDIDATES, rng)
        action = actions[search(slots.codes, actions[None], transition, reward)[0]]
        step = environment.step(action)
        scenes.append(step.observation)
        clicked.append(action)
    animation(study.folder / "episodes" / f"{name}.gif", scenes, clicked)
    return {"name": name, "length": len(clicked), "success": bool(step.discount == 0)}


def episodes(study: "ClusteringStudy", rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write animations of episodes and their list, episodes.json. Agents train again, as nothing of them is kept."""
    plan = study.plan
    found = [play(study, "oracle", OracleVision(plan.side), TrueTransition(), TrueReward())]
    ranked = sorted(rows, key=lambda row: (row["steps"], row["model"]))
    for name, row in (("fewest_steps", ranked[0]), ("most_steps", ranked[-1])):
        model = row["model"]
        study.say(f"episodes: an agent of model {model} learns")
        learning, agents = teach(study.part(model), [(0, 0)]) if plan.own else teach(study, [(model, 0)])
        about = {"model": model, "beta": row["beta"], "seed": row["seed"], "mean_steps": row["steps"]}
        about |= {"steps": int(learning.steps[0]), "censored": bool(learning.censored[0])}
        found.append(play(study, name, *agents) | about)
    write_json(study.folder / "episodes.json", found)
    return found


class FactorLearners(RewardLearners):
    """Reward predictors on the true position and hue of each sprite, at about unit variance."""

    def features(self, codes: Floats) -> Floats:
        return np.concatenate([4 * codes[..., :2] - 2, 6 * codes[..., 4:5] - 2.7], axis=-1).astype(np.float32)

    def predict(self, codes: Floats) -> Floats:
        return super().predict(self.features(codes))

    def learn(self, codes: Floats, rewards: Floats) -> None:
        super().learn(self.features(codes), rewards)


def references(plan: ClusteringPlan) -> dict[str, Any]:
    """Return the success rates of a random agent and of one that knows everything, steps of one that knows positions
    and hues but must learn the reward, and the speed of the environment."""
    episodes = min(400, plan.cap)
    rngs = [np.random.default_rng([plan.seed, 5, i]) for i in range(AGENTS)]
    vision, transition, reward = OracleVision(plan.side), TrueTransition(), TrueReward()

    def environments() -> list[Environment]:
        return [Environment(np.random.default_rng([plan.seed, 6, i]), scale=plan.scale) for i in range(AGENTS)]

    def random(scenes: Floats) -> Floats:
        masks = vision.see(scenes).masks
        return np.stack([random_actions(masks[i], 1, rngs[i])[0] for i in range(AGENTS)])

    def best(scenes: Floats) -> Floats:
        slots = vision.see(scenes)
        actions = np.stack([random_actions(slots.masks[i], CANDIDATES, rngs[i]) for i in range(AGENTS)])
        chosen: Floats = actions[np.arange(AGENTS), search(slots.codes, actions, transition, reward)]
        return chosen

    found: dict[str, Any] = {
        name: dict(zip(("rate", "length"), success_rate(environments(), choose, episodes)))
        for name, choose in {"random": random, "oracle": best}.items()
    }
    predictors = FactorLearners(list(range(AGENTS)), 3)
    learned = learn(environments(), vision, transition, predictors, rngs, cap=plan.cap, window=plan.window)
    environment = Environment(0)
    actions = np.random.default_rng(0).random((5000, 4))
    started = time.process_time()
    for action in actions:
        environment.step(action)
    return found | {
        "learned": {"steps": learned.steps.tolist(), "censored": int(learned.censored.sum())},
        "steps_per_second": len(actions) / (time.process_time() - started),
    }


# Our name of a score with labels -> the metric.
METRICS = {"mig": "mig", "dci": "dci_boosted", "z_diff": "z_diff", "z_min_variance": "z_min_variance"}


def complete(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether rows have all scores: those of an earlier release may lack some."""
    return all({*SCORES, "agents"} <= set(row) for row in rows)


def score_models(
    plan: ClusteringPlan,
    mean: NDArray[np.floating[Any]],
    logvar: NDArray[np.floating[Any]],
    factors: NDArray[np.int64],
    traces: NDArray[np.floating[Any]],
    agents: Mapping[int, tuple[Sequence[int], Sequence[bool]]],
) -> list[dict[str, Any]]:
    """Return a row for each vision model with agents.

    mean, logvar, factors, traces: as `ClusteringStudy.seen` gives them; agents: as its `done_agents` does.
    UDR_S is among models of one beta (Duan et al. 2020, A.8). The dynamics score (Holtz et al. 2022) is of a setting; a
    model's part in it is its mean distance to the other seeds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of half-dead latents and models without partners
        kl = [kl_per_latent(*one) for one in zip(mean, logvar)]
        ranking = udr(mean, kl, plan.strengths, similarity="spearman")
        distance = np.full(len(mean), np.nan)
        if plan.seeds > 1:
            stable = dynamics(list(traces), plan.strengths)
            for beta, pairs in zip(stable.groups, stable.pairwise):
                distance[[strength == beta for strength in plan.strengths]] = pairs.sum(1) / (len(pairs) - 1)
        found = []
        for i in sorted(agents):
            table = score(mean[i], factors, metrics=list(METRICS.values()), seed=0)
            steps, censored = agents[i]
            found.append(
                {
                    "model": i,
                    "beta": plan.strengths[i],
                    "seed": i % plan.seeds,
                    "steps": float(np.mean(steps)),
                    "censored": int(np.sum(censored)),
                    "agents": list(steps),
                    "udr_spearman": _known(ranking.scores[i]),
                    "informative": int(ranking.informative[i]),
                    "dynamics": _known(-distance[i]),
                    **{name: _known(table[metric].value) for name, metric in METRICS.items()},
                }
            )
    return found


def _known(value: float) -> float | None:
    """Return None for NaN, which JSON does not have."""
    return None if np.isnan(value) else float(value)


WATCHED = 200  # single sprites on which traces are recorded


@dataclass(frozen=True)
class ClusteringStudy:
    """A plan and its folder; `say` gets a line of progress now and then."""

    plan: ClusteringPlan
    folder: Path
    say: Callable[[str], None] = lambda line: None
    checkpoint_every: float = 60.0

    def __post_init__(self) -> None:
        adopt(self.folder, self.plan)

    @cached_property
    def parts(self) -> "list[ClusteringStudy] | None":
        """Return the studies of the models, where each has a MONet of its own and there are several."""
        if not self.plan.own or len(self.plan.strengths) == 1:
            return None
        return [self.part(model) for model in range(len(self.plan.strengths))]

    def part(self, model: int) -> "ClusteringStudy":
        """Return the study of one model that has a MONet of its own."""
        return ClusteringStudy(
            self.plan.only(model), self.folder / "models" / str(model), self.say, self.checkpoint_every
        )

    def run(self) -> list[dict[str, Any]]:
        """Run all phases, one after the other; return the rows of `measures`."""
        for part in self.parts or [self]:
            part.learn()
        return self.measures()

    def learn(self) -> None:
        """Run all phases but the last."""
        if self.plan.masks == "monet":
            self.say(f"gate: {self.gate()}")
        _ = self.transitions
        for seed in range(self.plan.seeds):
            self.agents(seed)

    def _options(self, phase: str) -> dict[str, Any]:
        def show(step: int, steps: int, row: dict[str, float]) -> None:
            self.say(f"{phase} {step}/{steps} " + " ".join(f"{name} {value:.4g}" for name, value in row.items()))

        return {"progress": show, "checkpoint_every": self.checkpoint_every}

    # 1. Attention

    def _scenes(self, n: int, rng: np.random.Generator) -> Floats:
        """Return scenes with 1 to `sprites` sprites of any hue; the others are out of sight."""
        scenes = random_sprites(["any"] * self.plan.sprites, rng, scenes=n, scale=self.plan.scale)
        hidden = np.arange(self.plan.sprites) >= rng.integers(1, self.plan.sprites + 1, size=n)[:, None]
        scenes[hidden, :2] = -1
        return scenes

    @cached_property
    def _monet(self) -> tuple[MONet, Tensor | None]:
        """Return the MONet; if it is the vision model itself, also its trace (epochs, 1, samples, units)."""
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
        """Return what the decoder's first layer (1, samples, units) does on single sprites, at present."""
        with torch.no_grad():
            objects = self.singles(WATCHED, seed=4, attention=network.attention)[0]
            return network.vae.first_activations(network.vae.encode(objects[None])[0]).half()

    def _masks(self, images: NDArray[np.uint8], true: Floats, attention: Attention | None = None) -> Tensor:
        """Return masks of all slots (n, slots, side, side)."""
        if self.plan.masks == "oracle":
            return torch.from_numpy(true)
        attention = attention or self.attention
        x = torch.from_numpy(images).float() / 255
        with torch.no_grad():
            return torch.cat([attention(part).exp() for part in x.split(64)])

    def look(self, scenes: Floats, attention: Attention | None = None) -> tuple[NDArray[np.uint8], Tensor]:
        """Return images (n, 3, side, side) of scenes and the masks of the slots that hold objects (n, slots - 1, side,
        side): the slot with the largest part of the frame is the background, which has nothing to move."""
        images, true = render_with_masks(scenes, self.plan.side)
        masks = self._masks(images, true, attention)
        kept = masks.sum((2, 3)).argsort(1)[:, :-1].sort(1).values
        return images, masks[torch.arange(len(masks))[:, None], kept]

    def gate(self, scenes: int = 500) -> dict[str, float]:
        """Return the adjusted Rand index of masks and true masks on pixels of sprites, mean over scenes with 2 to 4
        sprites; and the share of scenes where it is above 0.9."""
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
        """Return images (frames, 3, side, side) and masks (frames, objects, side, side) uint8, and for every transition
        its action, the frames before and after, and which slot after is which before (`order`)."""
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
        """Return patches (frames * objects, cells, 64) uint8 of all that the attention cut out."""
        found = self.exploration()
        parts = zip(found["images"].split(1000), found["masks"].split(1000))
        cut = (self.cut(images.numpy(), masks.float() / 255) for images, masks in parts)
        return torch.cat([(objects * 255).round().to(torch.uint8) for objects in cut])

    def cut(self, images: NDArray[np.uint8], masks: Tensor) -> Tensor:
        """Return patches (n * slots, cells, 64)."""
        x = to_patches(torch.from_numpy(images).float() / 255)[:, None]
        return cut_out(x, to_patches(masks[:, :, None])).flatten(0, 1)

    # 3. Components

    @cached_property
    def components(self) -> tuple[ComponentVAE, Tensor]:
        """Return the stacked VAEs, and their traces (epochs, models, samples, units)."""
        parts = [self.components_of(beta) for beta in self.plan.betas]
        return joined([vae for vae, _ in parts]), torch.cat([traces for _, traces in parts], 1)

    def components_of(self, beta: float) -> tuple[ComponentVAE, Tensor]:
        """Return those of the models of one beta, which are trained together."""
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
        """Return patches (n, cells, 64) of the slot that shows the only sprite, and its factors (n, 5) on a grid: x, y,
        shape, hue, saturation."""
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
        """Return what is subtracted from codes (models, 1, latents) and what they are then divided by (models, 1,
        1)."""
        centre, scale = zip(*[self.scaling_of(beta) for beta in self.plan.betas])
        return torch.cat(centre), torch.cat(scale)

    def scaling_of(self, beta: float) -> tuple[Tensor, Tensor]:
        """Return centre and divisor of codes: one divisor for all latents of a model, since a latent that is nearly
        constant should stay so."""
        path = self._file("scaling", beta)
        if not path.exists():
            mean, _ = encode(self.components_of(beta)[0], self._objects)
            centre = mean.mean(1, keepdim=True)
            scale = (mean - centre).square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-6)
            write_tensors(path, {"centre": centre, "scale": scale}, {"format": FORMAT})
        stored = read_tensors(path)[0]
        return stored["centre"], stored["scale"]

    def _transition_rows(self, beta: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return codes (models, n, latents) of slots, the actions (n, 4), and the codes of the same slots after
        them."""
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
        """Return what the agents of the vision models of one seed did, one model per beta, all stepped together: steps
        and censored (models, initialisations)."""

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
        """Return what the models make of images of single sprites: means and log-variances (models, n, latents), the
        factors (n, 5), and the traces (models, epochs, samples, units)."""
        if self.parts:
            found = [part.seen() for part in self.parts]
            mean, logvar, traces = (np.concatenate([one[j] for one in found]) for j in (0, 1, 3))
            return mean, logvar, found[0][2], traces
        objects, factors = self.singles(self.plan.singles, seed=3)
        mean, logvar = (values.double().numpy() for values in encode(self.components[0], objects))
        return mean, logvar, factors, self.components[1].float().transpose(0, 1).numpy()

    def done_agents(self) -> dict[int, tuple[list[int], list[bool]]]:
        """Return model -> steps and censored of its agents, for those that are done."""
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
        """Return one row per vision model: its strength and seed, mean steps, censored agents, and scores.

        Only of seeds whose agents are done; the rows are kept when that is all of them.
        """
        path = self.folder / "results.json"
        if path.exists() and complete(known := read_json(path)):
            return list(known)
        found = score_models(self.plan, *self.seen(), self.done_agents())
        if len(found) == len(self.plan.strengths):
            write_json(path, found)
        return found
