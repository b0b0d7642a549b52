"""Run the clustering study in processes, and estimate how long it takes."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from karenina._files import read_json, sweep
from karenina._process import cores, end_workers, exit_code, obey_input, stops_heard
from karenina.models.fast import Adam
from karenina.papers.duan2020.clustering.monet import ComponentVAE, MONet, object_losses
from karenina.papers.duan2020.clustering.plan import ClusteringPlan, adopt, read_plan, write_json
from karenina.papers.duan2020.clustering.study import ClusteringStudy, episodes, references
from karenina.papers.duan2020.clustering.world import random_sprites, render
from karenina.studies.study import claim, read_claim
from karenina.studies.worker import THREADS

Say = Callable[[str], None]
BUSY = 3  # exit code: another process has the task
WRONG = 2  # exit code: it cannot be done, and the last line says why
_CHANCES = 2  # of a task whose process dies
_TICK = 0.5


def stages(plan: ClusteringPlan) -> list[list[str]]:
    """Return the tasks: those of a stage need all before it, and not one another.

    >>> stages(ClusteringPlan(betas=(0.0, 1.0), seeds=2))[1:4]
    [['exploration'], ['beta 0.0', 'beta 1.0'], ['agents 0', 'agents 1']]
    """
    if plan.own:
        work = [["references", *(f"model {i}" for i in range(len(plan.strengths)))]]
    else:
        work = [
            ["references", *(["monet"] if plan.masks == "monet" else [])],
            ["exploration"],
            [f"beta {beta!r}" for beta in plan.betas],
            [f"agents {seed}" for seed in range(plan.seeds)],
        ]
    return [*work, ["measures"], ["episodes"]]


def is_done(folder: Path, task: str) -> bool:
    """Return whether the last file that a task writes is there."""
    kind, _, which = task.partition(" ")
    last = {
        "references": "references.json",
        "monet": "gate.json",
        "exploration": "exploration.safetensors",
        "beta": f"transitions/beta_{which}.safetensors",
        "agents": f"agents/{which}.json",
        "model": f"models/{which}/agents/0.json",
        "measures": "results.json",
        "episodes": "episodes.json",
    }
    return (folder / last[kind]).exists()


def do(folder: Path, task: str, say: Say) -> None:
    """Do one task, in this process."""
    kind, _, which = task.partition(" ")
    study = ClusteringStudy(read_plan(folder), folder, say)
    if kind == "references":
        write_json(folder / "references.json", references(study.plan))
    elif kind == "monet":
        study.gate()
    elif kind == "exploration":
        study.exploration()
    elif kind == "beta":
        study.transitions_of(float(which))
    elif kind == "agents":
        study.agents(int(which))
    elif kind == "model":
        study.part(int(which)).learn()
    elif kind == "measures":
        study.measures()
    else:
        episodes(study, study.measures())


@dataclass(frozen=True)
class ClusteringStatus:
    """How far a study is: tasks that are done, that run, with who has them, and that wait."""

    plan: ClusteringPlan
    done: tuple[str, ...]
    running: tuple[tuple[str, str], ...]
    waiting: tuple[str, ...]


def status(folder: str | os.PathLike[str]) -> ClusteringStatus:
    """Return how far the study in a folder is."""
    path = Path(folder)
    plan = read_plan(path)
    tasks = [task for stage in stages(plan) for task in stage]
    done = tuple(task for task in tasks if is_done(path, task))
    claims = {task: read_claim(path, name_of(task)) for task in tasks if task not in done}
    running = tuple((task, found.who) for task, found in claims.items() if found is not None)
    taken = {*done, *(task for task, _ in running)}
    return ClusteringStatus(plan, done, running, tuple(task for task in tasks if task not in taken))


def name_of(task: str) -> str:
    return task.replace(" ", "_")


def run(
    plan: ClusteringPlan, out: str | os.PathLike[str], *, workers: int | None = None, say: Say = lambda line: None
) -> ClusteringStatus:
    """Do every task of `plan` that `out` does not hold yet.

    Parameters
    ----------
    plan : ClusteringPlan
        From `plan_for`.
    out : path
        The study's folder.
    workers : int, optional
        Tasks at a time, by default one per core.
    say : callable
        Gets lines of progress.

    Returns
    -------
    ClusteringStatus

    >>> from karenina.papers.duan2020.clustering.plan import plan_for
    >>> len(plan_for("smoke").strengths)                     # models; run(plan_for("smoke"), "lab") trains them
    6
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be 1 or more, got {workers}")
    folder = Path(out)
    adopt(folder, plan)
    for part in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        sweep(part)
    with stops_heard():
        for stage in stages(plan):
            _work(folder, stage, workers or cores(), say)
    return status(folder)


def _work(folder: Path, stage: list[str], workers: int, say: Say) -> None:
    running: dict[str, _Worker] = {}
    deaths: Counter[str] = Counter()
    busy: dict[str, float] = {}
    try:
        while (left := [task for task in stage if not is_done(folder, task)]) or running:
            for task in left:
                if len(running) < workers and task not in running and time.monotonic() > busy.get(task, 0):
                    running[task] = _Worker(folder, task, say)
            time.sleep(_TICK / 10)
            for task, worker in list(running.items()):
                code = worker.process.poll()
                if code is None:
                    continue
                running.pop(task).close()
                if code == WRONG:
                    raise ValueError(f"{task}: {worker.last}")
                if code == BUSY:
                    busy[task] = time.monotonic() + 10 * _TICK
                elif code != 0:
                    deaths[task] += 1
                    if deaths[task] == _CHANCES:
                        where = f"{folder / 'log.txt'} may say more"
                        raise ValueError(f"{task}: its process ended {_CHANCES} times (exit code {code}); {where}")
    finally:
        end_workers(worker.process for worker in running.values())  # after an error or Ctrl-C
        for worker in running.values():
            worker.close()


class _Worker:
    """A process that does one task, and a thread that passes on what it says, a line every few seconds."""

    def __init__(self, folder: Path, task: str, say: Say):
        self.last = ""
        with open(folder / "log.txt", "ab") as log:
            self.process = subprocess.Popen(
                # -P: nothing is imported from the working directory.
                [sys.executable, "-P", "-m", "karenina.papers.duan2020.clustering.runner", str(folder), task],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **THREADS},
                text=True,
            )
        self.thread = threading.Thread(target=self._listen, args=(task, say), daemon=True)
        self.thread.start()

    def _listen(self, task: str, say: Say) -> None:
        said = -10.0
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last = line.strip()
            if time.monotonic() - said > 5:
                said = time.monotonic()
                say(self.last)

    def close(self) -> None:
        self.process.wait()
        self.thread.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


@contextmanager
def _clock(folder: Path, task: str) -> Iterator[Callable[[], None]]:
    """Count this process's seconds on its core in seconds/TASK.json, over kills, but for what is lost by one."""
    path = folder / "seconds" / f"{name_of(task)}.json"
    before = float(read_json(path)) if path.exists() else 0.0
    written = [0.0]

    def tick(last: bool = False) -> None:
        if last or time.monotonic() - written[0] > 20:
            written[0] = time.monotonic()
            write_json(path, round(before + time.process_time(), 1))

    yield tick
    tick(last=True)


def seconds(folder: Path) -> dict[str, float]:
    """Return the CPU seconds of each kind of task."""
    found: dict[str, float] = {}
    for stage in stages(read_plan(folder)):
        for task in stage:
            path = folder / "seconds" / f"{name_of(task)}.json"
            if path.exists():
                kind = task.split()[0]
                found[kind] = found.get(kind, 0.0) + float(read_json(path))
    return found


def main(folder: Path, task: str) -> int:
    torch.set_num_threads(1)
    with claim(folder, name_of(task)) as mine:
        if mine is None:
            return BUSY
        mine.progress(0, 1)
        if is_done(folder, task):
            return 0
        with _clock(folder, task) as tick:

            def say(line: str) -> None:
                print(line, flush=True)
                tick()

            try:
                do(folder, task, say)
            except (ValueError, OSError, RuntimeError) as error:
                traceback.print_exc()
                print(str(error) or type(error).__name__, flush=True)
                return WRONG
    return 0


def estimate(plan: ClusteringPlan) -> dict[str, float]:
    """Return the core seconds of the phases that take nearly all of the time; that of the agents at most, for those
    that learn stop early."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    monets = len(plan.strengths) if plan.own else int(plan.masks == "monet")
    found = {}
    if monets:
        network = MONet(0, plan.side, plan.slots, plan.latents, plan.units, plan.widths)
        scenes = random_sprites(["any"] * plan.sprites, rng, scenes=plan.monet_batch, scale=plan.scale)
        images = torch.from_numpy(render(scenes, plan.side)).float() / 255
        noise = torch.randn(plan.monet_batch, plan.slots, plan.latents)
        seconds = _step_seconds(network, lambda: network.losses(images, noise, 0.5, 0.5)["loss"])
        found["MONets" if plan.own else "MONet"] = monets * plan.monet_steps * seconds
    if not plan.own:
        vae = ComponentVAE(list(range(plan.seeds)), plan.side, plan.latents, plan.units)
        objects = torch.rand(plan.seeds, 64, (plan.side // 4) ** 2, 64)
        noise, betas = torch.randn(plan.seeds, 64, plan.latents), torch.ones(plan.seeds)
        seconds = _step_seconds(vae, lambda: object_losses(vae, objects, noise, betas).sum())
        found["component VAEs"] = len(plan.betas) * plan.component_steps * seconds
    groups = len(plan.strengths) if plan.own else plan.seeds
    found["agents, at most"] = groups * plan.cap * _agents(plan)
    return found


def _step_seconds(network: torch.nn.Module, loss: Callable[[], torch.Tensor], times: int = 3) -> float:
    """Return the seconds of a step of descent, after a first one that is not counted."""
    optimiser = Adam(network.parameters(), 1e-3)
    for step in range(times + 1):
        if step == 1:
            started = time.process_time()
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    return (time.process_time() - started) / times


def _agents(plan: ClusteringPlan) -> float:
    """Return the seconds of an environment step of the agents that are stepped together."""
    small = replace(
        plan, seeds=1, betas=plan.betas[:1] if plan.own else plan.betas, episodes=2, episode=1, monet_steps=1,
        component_steps=1, transition_steps=1, cap=2,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        study = ClusteringStudy(small, Path(folder) / "study")
        _ = study.components, study.transitions, study.scaling
        found = []
        for cap in (2, 12):
            started = time.process_time()
            longer = ClusteringStudy(replace(small, cap=cap), Path(folder) / f"{cap}")
            longer.__dict__.update({name: study.__dict__[name] for name in ("components", "transitions", "scaling")})
            longer.__dict__.update({"_monet": study.__dict__["_monet"]} if plan.masks == "monet" else {})
            longer.agents(0)
            found.append(time.process_time() - started)
    return max(found[1] - found[0], 0.0) / 10


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    threading.Thread(target=list, args=(obey_input(),), daemon=True).start()
    try:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
    except KeyboardInterrupt as stop:
        sys.exit(exit_code(stop))
