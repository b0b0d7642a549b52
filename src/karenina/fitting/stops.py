"""A stop in the first round: Ctrl-C waits for the end of a step, and what was trained so far is the answer so far."""

import shutil
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from karenina.fitting.choice import Model
from karenina.fitting.folder import Plan

if TYPE_CHECKING:
    from karenina.fitting.job import Job


class Interrupted:
    """Within it Ctrl-C is noted, for `check` to raise where nothing is half done; a second one is raised at once."""

    def __init__(self) -> None:
        self.noted = False

    def __enter__(self) -> None:
        self.noted, self.before = False, signal.getsignal(signal.SIGINT)
        # Whoever handles the signal otherwise, or ignores it, knows better; and only the main thread may.
        self.ours = self.before is signal.default_int_handler and _in_main_thread()
        if self.ours:
            signal.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if self.ours:
            signal.signal(signal.SIGINT, self.before)
        self.check()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted:
            raise KeyboardInterrupt
        self.noted = True

    def check(self) -> None:
        if self.noted:
            self.noted = False
            raise KeyboardInterrupt


def unfinished(job: "Job") -> list[Model]:
    """The models of a first round that was stopped, with the steps that they have, each as a run of its own."""
    from karenina.training.many import trained_so_far
    from karenina.training.run import write_run

    plan = job.plan
    if plan.done or not plan.rounds:
        return []
    given = {"network": plan.network, "steps": plan.steps, "latents": plan.latents}
    made = [
        (setting, *job.member(job.data, setting, i, given)[:2])
        for setting, seeds in plan.rounds[0].items()
        for i in seeds
    ]
    places = {(m.config.method, str(m.config.parameters), m.config.seed): (setting, name) for setting, m, name in made}
    found = []
    for run in trained_so_far(job.data, [m for _, m, _ in made], job.device, job.folder.runs(plan)):
        c = run.config
        setting, name = places[c.method, str(c.parameters), c.seed]
        path = _place(job, plan) / str(c.steps) / name
        path.mkdir(parents=True, exist_ok=True)
        write_run(path, run)
        model = job.measure_run(path, setting)
        if model is not None:
            found.append(model)
    return found


def forget(job: "Job") -> None:
    """Remove what `unfinished` wrote: the models have all their steps now."""
    shutil.rmtree(_place(job, job.plan), ignore_errors=True)


def _place(job: "Job", plan: Plan) -> Path:
    return job.folder.runs(plan) / "unfinished"


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()
