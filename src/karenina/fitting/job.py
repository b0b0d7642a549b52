"""One call of `karenina.fit`, from the images to the answer."""

import contextlib
import math
import shutil
import time as clocks
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from karenina._process import Terminated
from karenina.data import DataSet
from karenina.data.own import Images, Size, survey
from karenina.evaluation.scoring import inputs
from karenina.fitting.answer import Fit, describe_settings, make_answer, read_fit
from karenina.fitting.choice import ROWS, Compared, Model, compare, make_ready, measure
from karenina.fitting.folder import ANSWER, Folder, Plan
from karenina.fitting.guidance import advise, judge
from karenina.fitting.halving import MOST_SEEDS, Setting, Wanted, cut, first_round, next_round
from karenina.fitting.look import CPU_SIDES, Look, Source, describe, look_at, open_source

if TYPE_CHECKING:
    from karenina.training.loop import Progress
    from karenina.training.population import Member
    from karenina.training.tracking import Tracker

DEFAULT_STEPS = 5000  # with a number of models and no time
MOST_STEPS, LEAST_STEPS = 10_000, 50
MODELS, FEW_MODELS = 24, 10  # that a time should be enough for, and when it is short
GOOD_STEPS = 3000  # below this, smaller images are trained on
TRAINING_SHARE = 0.8  # of the time; the rest goes to looking, ranking and the page
SECOND_METHOD = 40  # models that a budget must hold for a second method to be tried
BATCH = 64
SPARE = 0.05  # of the time: what models take to be written, and what goes slower than measured

# What a fit says of how it was stopped, by Ctrl-C or SIGTERM: the narrower kind first.
STOPS: dict[str, type[KeyboardInterrupt]] = {"terminated": Terminated, "user": KeyboardInterrupt}

Say = Callable[[str], None]


class OutOfTime(Exception):
    """The budget is spent; what is finished counts."""


@dataclass(frozen=True)
class Clock:
    started: float
    seconds: float

    @property
    def left(self) -> float:
        return self.seconds - (clocks.monotonic() - self.started)


@dataclass(frozen=True)
class Wishes:
    """What the caller asked for; None where the choice is ours."""

    methods: list[str] | None
    latents: int
    size: Size | None
    steps: int | None
    network: str
    seed: int
    search: str


@dataclass
class Job:
    """One call of `fit`."""

    images: Images
    folder: Folder
    clock: Clock
    wishes: Wishes
    models: int | None
    device: Any
    say: Say
    progress: "Callable[[Progress], None] | None"
    tracker: "Tracker | None" = None
    stopped: str = ""
    overhead: float = 0.0  # seconds that it takes to begin a population
    closing: float = 6.0  # seconds that ranking and the page take; measured when they were made once
    measured: dict[Path, Model] = field(default_factory=dict)
    tracked: set[Path] = field(default_factory=set)
    tried: list[tuple[Path, Setting]] = field(default_factory=list)  # by a search: folders of seeds
    front: list[dict[str, Any]] = field(default_factory=list)  # of a search
    said: int = 0  # models of which the settings were told
    began: tuple[float, float] = field(default_factory=lambda: (clocks.monotonic(), clocks.process_time()))

    def run(self) -> Fit:
        self.prepare()
        try:
            self._rounds()
        except OutOfTime:
            self.stopped = "time"
        except KeyboardInterrupt as stop:
            self.was_stopped(stop)
        return self.finish()

    def was_stopped(self, stop: KeyboardInterrupt) -> None:
        """Note by what, and say so."""
        self.stopped = next(name for name, kind in STOPS.items() if isinstance(stop, kind))
        words = str(stop).replace("the same call", "the same command") or "stopped"
        self.say(f"{words.capitalize()}. Ranking what is finished ...")

    def prepare(self) -> None:
        """Open and look at the images, and make or continue a plan."""
        last = self.folder.plans[-1] if self.folder.plans else None
        options = dict(last.options) if last is not None else {}
        self.source = self._open(options.get("size"))
        self.look: Look = look_at(self.source.data)
        if self.look.distinct < 2:
            raise ValueError(f"all {self.look.count:,} images are the same: there is nothing to learn from them")
        self.say(describe(self.look))
        for sentence in self.source.said:
            self.say(sentence)
        make_ready()
        # On a busy machine the end takes longer, too.
        busy = (clocks.monotonic() - self.began[0]) / max(clocks.process_time() - self.began[1], 1e-3)
        self.closing = min(self.closing * max(busy, 1.0), self.most_closing)
        self.plan = self._plan(last)
        self.folder.save()
        self.shown: NDArray[np.uint8] = inputs(self.data, ROWS)[0]

    @property
    def data(self) -> DataSet:
        return self.source.data

    @property
    def most_closing(self) -> float:
        return 0.25 * self.clock.seconds

    def _open(self, size: Any = None) -> Source:
        wishes, kind = self.wishes, self.device.type
        if wishes.size is not None or size is not None or kind != "cpu" or self.models is not None:
            chosen = wishes.size if wishes.size is not None else size
            return open_source(self.images, longest=CPU_SIDES[0], device=kind, size=chosen, network=wishes.network)
        return self._affordable()

    def _affordable(self) -> Source:
        """Images as large as the time allows good training of, judged by the speed on noise of that shape."""
        found = survey(self.images)
        (height, width), _ = found.sizes.most_common(1)[0]
        largest = min(max(height, width), CPU_SIDES[0])
        sides = [side for side in CPU_SIDES if side < largest]
        channels = 1 if found.grey else 3
        scale = largest / max(height, width)
        shape = (channels, max(round(height * scale), 1), max(round(width * scale), 1))
        per_step = self._speed(shape, "mlp" if math.prod(shape) <= 300 else "mlp256")
        longest = largest
        for side in [largest, *sides]:
            longest = side
            if self._steps(per_step * (side / largest) ** 2) >= (self.wishes.steps or GOOD_STEPS):
                break
        return open_source(self.images, longest=longest, device="cpu", network=self.wishes.network)

    def _steps(self, per_step: float, models: int = MODELS) -> int:
        return int(TRAINING_SHARE * (self.clock.left - self.closing - 2 * self.overhead) / (models * per_step))

    def _plan(self, last: Plan | None) -> Plan:
        """The plan to continue, or a new one where more steps are possible now, or something else is asked for."""
        from karenina.training.config import fingerprint

        wishes, images = self.wishes, fingerprint(self.data)
        if last is not None:
            if last.images != images:
                raise ValueError(f"{self.folder.path} holds a fit of other images; give another --out")
            asked = (wishes.latents, wishes.seed, wishes.search, wishes.steps or last.steps)
            same = asked == (last.latents, last.seed, last.search, last.steps)
            same = same and (wishes.methods is None or wishes.methods == last.methods)
            same = same and (wishes.network == "auto" or wishes.network == last.network)
            possible = self._steps(last.seconds) if last.seconds and self.models is None else 0
            if same and possible < 4 * last.steps:
                self.say(f"Continuing after {last.models} models of {last.steps:,} steps.")
                if not last.seconds and self.models is None:  # begun with a number of models
                    last.seconds = self._speed(self.data.image_shape, last.network)
                return last
            self.say("Beginning anew with other settings; the models there are kept aside.")
            if wishes.size is None and wishes.steps is None:
                self.source = self._open()
                images = fingerprint(self.data)
        per_step, steps, room = 0.0, wishes.steps or DEFAULT_STEPS, self.models or MODELS
        if self.models is None:
            per_step = self._speed(self.data.image_shape, self.source.network)
            if wishes.steps is None:
                steps = self._steps(per_step)
                steps = self._steps(per_step, FEW_MODELS) if steps < 1000 else steps
                steps = min(max(steps, LEAST_STEPS), MOST_STEPS)
            room = max(int(TRAINING_SHARE * self.clock.left / (steps * per_step)), 0)
        methods = wishes.methods or (["beta_vae", "beta_tcvae"] if room >= SECOND_METHOD else ["beta_vae"])
        plan = Plan(
            self.source.options, images, self.source.network, wishes.latents, steps, wishes.seed, methods, wishes.search
        )
        plan.seconds = per_step
        self.folder.plans.append(plan)
        budget = (
            f"{self.models} models" if self.models else f"about {room} models in {_minutes(max(self.clock.left, 0))}"
        )
        self.say(
            f"{' and '.join(methods)} with {wishes.latents} latents, network {plan.network}, {steps:,} steps: {budget}."
        )
        return plan

    def _speed(self, shape: tuple[int, int, int], network: str) -> float:
        """Seconds per model and step of the first round, on noise; how long it takes to begin goes to `overhead`."""
        from karenina.training.loop import Options
        from karenina.training.trainer import as_data, train_members, worth_stacking

        noise = as_data(np.random.default_rng(0).integers(0, 256, (BATCH, *shape), np.uint8))
        steps = 12
        given = {"network": network, "steps": steps, "latents": self.wishes.latents}
        like = [(setting, i) for setting, seeds in first_round(["beta_vae"], FEW_MODELS).items() for i in seeds]
        members = [self.member(noise, setting, i, given)[0] for setting, i in like]
        begun = clocks.perf_counter()
        moments: list[float] = []

        def note(_: Any) -> None:
            moments.append(clocks.perf_counter())
            if len(moments) > 4 and moments[-1] - moments[0] > 0.05 * min(self.clock.seconds, 60):
                raise OutOfTime

        with contextlib.suppress(OutOfTime):
            train_members(noise, members, [None] * len(like), Options(self.device, "auto", progress=note), None)
        # The first steps set things up. Where models are trained one by one, a report is of one model.
        apart = sorted(later - sooner for sooner, later in pairwise(moments[1:]))
        self.overhead = moments[0] - begun
        stacked = worth_stacking(members[0], self.device)
        return max(apart[len(apart) // 2] / (len(like) if stacked else 1), 1e-6)

    def member(
        self, data: DataSet, setting: Setting, index: int, given: Mapping[str, Any]
    ) -> "tuple[Member, str, list[str]]":
        """The model of a setting and a seed, the name of its directory, and which of its settings are left to us."""
        from karenina.training.config import make_config
        from karenina.training.methods import find
        from karenina.training.population import Member
        from karenina.training.trainer import expand

        seed = 1000 * self.wishes.seed + index
        point = expand(setting.method, {setting.parameter: [setting.value]}, [seed], {**given, "batch": BATCH})[0]
        config = make_config(data, point.method, point.parameters, point.settings)
        free = [name for name, value in point.settings.items() if value == "auto"]
        return Member(config, find(point.method)[1]), point.name, free

    def _rounds(self) -> None:
        plan = self.plan
        while True:
            if plan.done == len(plan.rounds):  # else a round was begun and not finished
                room = self.room()
                if plan.done and room < 1:
                    return
                known = self.compared().known if plan.done else {}
                wanted = next_round(known, plan.latents, plan.done) if plan.done else first_round(plan.methods, room)
                wanted = cut(wanted, max(room, 2) if not plan.done else room)
                if not wanted:
                    if room >= 2 and self.models is None:
                        self.say("More models would change little.")
                    return
                plan.rounds.append(wanted)
                self.folder.save()
            wanted = plan.rounds[plan.done]
            strengths = ", ".join(f"{setting} ({len(seeds)})" for setting, seeds in wanted.items())
            self.say(f"Round {plan.done + 1}: {sum(map(len, wanted.values()))} models: {strengths}")
            self.train(wanted)
            plan.done += 1
            self._count_time()
            self.folder.save()
            if self.room() > 0:  # else the answer at the end comes next
                self.answer(page=plan.done == 1)
            shutil.rmtree(self._unfinished_place, ignore_errors=True)  # the models have all their steps now

    def room(self) -> int:
        """Models that can still be trained. Before a later round those that are finished are ranked, too."""
        if self.models is not None:
            return self.models - self.plan.models
        closing = self.closing * (2 if self.plan.done else 1) + SPARE * self.clock.seconds
        return int((self.clock.left - closing - self.overhead) / (1.05 * self.plan.steps * self.plan.seconds))

    def train(self, wanted: Wanted, root: Path | None = None, more: Mapping[str, Any] | None = None) -> None:
        """Train one round, all its models together. more: settings of `train` that differ from the plan's."""
        from karenina.training.loop import Options
        from karenina.training.trainer import train_members

        plan = self.plan
        root = self.folder.runs(plan) if root is None else root
        given = {"network": plan.network, "steps": plan.steps, "latents": plan.latents, **(more or {})}
        made = [self.member(self.data, s, i, given) for s, seeds in wanted.items() for i in seeds]
        begun = clocks.monotonic()
        every = min(60.0, max(self.clock.seconds / 4, 10.0))  # a checkpoint of many models takes half a second
        options = Options(self.device, "auto", every, self._watch)
        paths: list[Path | None] = [root / name for _, name, _ in made]
        new = sum(path is not None and not (path / "model.safetensors").exists() for path in paths)
        train_members(self.data, [m for m, _, _ in made], paths, options, root, [free for _, _, free in made])
        taken = clocks.monotonic() - begun
        if new == len(made):
            plan.seconds = taken / (new * plan.steps)

    def _watch(self, at: "Progress") -> None:
        if self.clock.left < min(self.closing + SPARE * self.clock.seconds, self.most_closing):
            raise OutOfTime
        if self.progress is not None:
            self.progress(at)

    def finished(self) -> list[Model]:
        """All finished models of the newest plan that has some, in the order in which they were planned."""
        for plan in reversed(self.folder.plans):
            found = self._finished(plan)
            if found:
                self.answered = plan
                return found
        self.answered = self.plan
        return self._unfinished()

    @property
    def _unfinished_place(self) -> Path:
        return self.folder.runs(self.plan) / "unfinished"

    def _unfinished(self) -> list[Model]:
        """The models of a first round that was stopped, each kept as a run of the steps that it has."""
        from karenina.training.run import open as open_run
        from karenina.training.run import write_run

        plan, found = self.plan, []
        for setting, seeds in plan.rounds[0].items() if plan.rounds and not plan.done else ():
            for i in seeds:
                name = setting.run_name(1000 * plan.seed + i)
                try:
                    run = open_run(self.folder.runs(plan) / name)
                except ValueError:  # it was not begun, or diverged
                    continue
                run.config = replace(run.config, steps=run.stopped_at or run.config.steps)
                path = self._unfinished_place / str(run.config.steps) / name
                path.mkdir(parents=True, exist_ok=True)
                write_run(path, run)
                found.append(self.measure_run(path, setting))
        return [model for model in found if model is not None]

    def _finished(self, plan: Plan) -> list[Model]:
        root = self.folder.runs(plan)
        places = [(s, i, root) for wanted in plan.rounds for s, seeds in wanted.items() for i in seeds]
        if plan is self.plan:
            places += [(setting, i, place) for place, setting in self.tried for i in range(MOST_SEEDS)]
        found = (self.measure_run(place / s.run_name(1000 * plan.seed + i), s) for s, i, place in places)
        return [model for model in found if model is not None]

    def measure_run(self, path: Path, setting: Setting) -> Model | None:
        """What is known of a finished run; None where there is none."""
        from karenina.training.run import open as open_run
        from karenina.training.run import read_about

        if path not in self.measured:
            if not (path / "run.json").exists() or read_about(path)["status"] != "finished":
                return None
            run = open_run(path)
            if run.config.image_shape != self.data.image_shape:
                return None
            self.measured[path] = measure(run, setting, self.shown)
        return self.measured[path]

    def compared(self) -> Compared:
        return compare(self.finished())

    def answer(self, *, page: bool) -> Fit:
        """Rank what is finished and write it down."""
        begun = clocks.monotonic()
        compared = self.compared()
        plan = self.answered
        if not compared.models and (self.folder.path / ANSWER).exists():
            self.say("No new model was finished: the answer of before stands.")
            return read_fit(self.folder.path)
        steps = compared.models[0].config.steps if compared.models else plan.steps
        verdict = judge(self.look, compared, steps)
        advice = advise(self.look, compared, steps, plan.latents, "user" if self.stopped in STOPS else self.stopped)
        if len(compared.models) != self.said:
            self.said = len(compared.models)
            for line in describe_settings(compared):
                self.say(line)
        found = make_answer(self.folder, replace(plan, steps=steps), compared, self.look, verdict, advice, self.front)
        if self.tracker is not None:
            self._track(compared)
        if page:
            from karenina.fitting.page import write_page

            write_page(found, self.data, self.images)
            self.closing = 1.2 * (clocks.monotonic() - begun) + 0.5
        return found

    def _track(self, compared: Compared) -> None:
        """The history of each model, once, and its scores after each round."""
        from karenina.training.run import open as open_run

        assert self.tracker is not None
        for row, i in zip(compared.frame.to_dict("records"), compared.choice.order):
            model = compared.models[i]
            if model.path not in self.tracked:
                self.tracked.add(model.path)
                self.tracker.about(model.path.name, {"setting": str(model.setting), **model.config.to_json()})
                for values in open_run(model.path).history.to_dict("records"):
                    numbers = {str(name): float(value) for name, value in values.items() if name != "step"}
                    self.tracker.write(model.path.name, numbers, int(values["step"]))
            scores = {
                f"fit/{name}": row[name]
                for name in ("agreement", "udr_setting", "udr", "udr_a2a", "active", "explained")
            }
            finite = {name: float(value) for name, value in scores.items() if math.isfinite(value)}
            self.tracker.write(model.path.name, finite, self.plan.done)

    def _count_time(self) -> None:
        now = clocks.monotonic()
        self.folder.spent += now - getattr(self, "_counted", self.clock.started)
        self._counted = now

    def finish(self) -> Fit:
        self._count_time()
        self.folder.save()
        return replace(self.answer(page=True), stopped=self.stopped)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
