"""Models of a study that are trained as one: which go together, and what a worker does with them.

A population is only trained here; its models are then scored one by one, like all others, by whichever worker is free.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina._files import atomic, read_json
from karenina.studies.execution.folder import Claim, Folder, claim
from karenina.studies.plan.plan import Plan, Point

if TYPE_CHECKING:
    from karenina.training import PopulationProgress

# A model to bring to its scores, or several to train as one.
Task = Point | tuple[Point, ...]
# So many small models are nearly as fast as more (benchmarks/population.py), and leave work for other processes.
_MODELS = 16


def populations(plan: Plan) -> list[tuple[Point, ...]]:
    """The points of a plan that are worth training as one, two or more each.

    They depend on nothing but the plan, so that results do not depend on who trains them, or when.
    """
    if plan.population == 1:
        return []
    found: dict[Any, list[Point]] = {}
    for point in plan.points:
        shape = (point.data, point.network, point.latents, point.steps, _beside(point))
        found.setdefault(shape, []).append(point)
    packed = []
    for points in found.values():
        most = int(plan.population) if plan.population != "auto" else min(_MODELS, -(-len(points) // 2))
        if most < 2 or len(points) < 2 or not _stackable(points[0], plan.population == "auto"):
            continue
        parts = -(-len(points) // most)
        bounds = [len(points) * i // parts for i in range(parts + 1)]
        packed += [tuple(points[a:b]) for a, b in pairwise(bounds) if b - a > 1]
    return packed


def _beside(point: Point) -> Any:
    """Methods that train a module beside the network, or from pairs or labels, go with their like; all others mix."""
    from karenina.training.learners import VAELearner
    from karenina.training.methods import find_for

    method = find_for(point.method, dict(point.parameters))
    names = {*method.parameters, *(name for one in method.beside for name in one.defaults())}
    alike = not names and method.learner is VAELearner
    return None if alike else (point.method, tuple(p for p in point.parameters if p[0] in names))


def _stackable(point: Point, automatic: bool) -> bool:
    from karenina.evaluation.data import load_cached
    from karenina.training.many import worth_stacking
    from karenina.training.single import pick_device

    try:
        member = _member(point, load_cached(point.data))
    except (ValueError, OSError):  # what is wrong with it is said when it is trained
        return False
    return member.stackable and (not automatic or worth_stacking(member, pick_device("auto")))


def _member(point: Point, data: Any) -> Any:
    from karenina.training.config import make_config
    from karenina.training.methods import find_for
    from karenina.training.stacked_learner import Member

    parameters = dict(point.parameters)
    settings = {name: value for name, value in point.arguments.items() if name not in parameters}
    return Member(make_config(data, point.method, parameters, settings), find_for(point.method, parameters))


def train_population(study: str, points: Sequence[Point], checkpoint_seconds: float) -> None:
    """Train those of the points that are not finished and that no other process has; failures are recorded.

    Whatever else goes wrong will go wrong again, and be recorded, when each is trained by itself.
    """
    from karenina.evaluation.data import load_cached
    from karenina.training.loop import TrainingDiverged
    from karenina.training.many import train_members
    from karenina.training.population import Options
    from karenina.training.single import pick_device

    folder = Folder(study)
    with ExitStack() as stack:
        mine: list[Point] = []
        held: list[Claim] = []
        for point in points:
            if folder.failure(point.hash).exists():
                continue
            taken = stack.enter_context(claim(folder.path, point.hash))
            if taken is not None:
                mine.append(point)
                held.append(taken)

        def progress(at: "PopulationProgress") -> None:
            for one in held:
                one.progress(at.step, at.steps)

        if not mine:
            return
        data = load_cached(points[0].data)
        members = [_member(point, data) for point in mine]
        free = [[name for name, value in point.arguments.items() if value == "auto"] for point in mine]
        options = Options(pick_device("auto"), max(len(mine), 2), checkpoint_seconds, progress)
        where = folder.path / "populations"
        where.mkdir(exist_ok=True)
        paths = [folder.run(point.hash) for point in mine]
        new = [point.hash for point in mine if not folder.trained(point.hash)]
        started = time.perf_counter()
        for point, result in zip(mine, train_members(data, members, paths, options, where, free)):
            if isinstance(result, TrainingDiverged):
                folder.fail(point.hash, f"TrainingDiverged: {result}", fresh=True)
        share = (time.perf_counter() - started) / max(len(new), 1)
        for name in new:
            with atomic(_share(folder, name)) as part:
                part.write_text(repr(share), encoding="utf-8")


def take_share(folder: Folder, name: str) -> float:
    """The model's share of the seconds in which its population was trained, if it was and they are not taken yet."""
    try:
        return float(read_json(_share(folder, name)))
    except (OSError, TypeError, ValueError):  # trained by itself
        return 0.0
    finally:
        _share(folder, name).unlink(missing_ok=True)


def _share(folder: Folder, name: str) -> Path:
    return folder.path / "populations" / f"{name}.seconds"
