"""`karenina.fit`: images without labels -> a population of models, the one to take, and how sure that is."""

import math
import os
import re
import shutil
import time as clocks
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from karenina._process import Terminated, stops_heard
from karenina._settings import integer
from karenina._words import hint
from karenina.data import DataSet
from karenina.data.user_images import Images, Size, survey
from karenina.fitting.answer import Compared, Fit, compare, describe_settings, make_answer, make_ready, read_fit
from karenina.fitting.folder import ANSWER, FitPlan, Folder
from karenina.fitting.look import CPU_SIDES, FitImages, Look, describe, look_at, open_images
from karenina.fitting.models import Model, OutOfTime, keep_unfinished, measure, run_name, time_training, train_round
from karenina.fitting.page import write_page
from karenina.fitting.search import (
    MOST_SEEDS,
    PARAMETERS,
    SEEDS_OF_A_TRIAL,
    Candidate,
    Round,
    cut,
    failing,
    first_round,
    front,
    intact,
    models_of,
    next_round,
    open_study,
    revive,
    suggest,
    tried,
    waiting,
)
from karenina.training.loop import Progress
from karenina.training.trackers import Tracker, open_tracker
from karenina.training.trainer import alone, pick_device

DEFAULT_TIME = "30m"
LEAST_TIME = 10.0  # seconds that looking, a few steps, ranking and the page take


DEFAULT_STEPS = 5000  # These hold where a number of models is given, and no time.
MOST_STEPS, LEAST_STEPS = 10_000, 50
MODELS, FEW_MODELS = 24, 10  # The time should be enough for this many models, or for this few where it is short.
GOOD_STEPS = 3000  # Where there is no time for so many, the images are made smaller.
TRAINING_SHARE = 0.8  # The rest of the time goes to looking, ranking and the page.
SECOND_METHOD = 40  # A second method is tried where there is time for so many models.
SPARE = 0.05  # This share of the time is for writing models, and for what goes slower than measured.

# How a fit that was stopped is called, by SIGTERM or Ctrl-C: the narrower kind first.
STOPS: dict[str, type[KeyboardInterrupt]] = {"terminated": Terminated, "user": KeyboardInterrupt}

Say = Callable[[str], None]


def fit(
    images: Images,
    *,
    out: str | os.PathLike[str],
    time: str | float | None = None,
    models: int | None = None,
    methods: Sequence[str] | str | None = None,
    latents: int = 10,
    size: Size | None = None,
    steps: int | None = None,
    network: str = "auto",
    seed: int = 0,
    search: str = "grid",
    device: str = "auto",
    track: str | None = None,
    say: Say | None = None,
    progress: Callable[[Progress], None] | None = None,
    started: float | None = None,
) -> Fit:
    """Train a disentangled model of your own images, chosen without labels, and say how sure the choice is.

    It trains a population (methods x strengths x seeds) within a budget, first a few seeds of widely spaced strengths,
    then more of those at which some but not all latents are active (successive halving). UDR within settings decides
    which strengths count: those whose seeds agree more than chance explains, and nearly as far as those of the best;
    UDR of all to all chooses among their models (Duan et al. 2020, section 4). Models without an active latent are
    dropped.

    Parameters
    ----------
    images : a folder, .npz or .h5, a data set or its name, or an array (n, h, w), (n, h, w, c) or (n, c, h, w)
        Labels, if there are any, are not looked at.
    out : directory of the fit
        The same call again continues: it trains more models or, with much more time, longer ones.
    time : "30m", "2h", "45s" or seconds
        It ends within the time; by default 30 minutes. About 10 seconds are the least: less time is said and exceeded.
    models : int
        In place of a time: how many models in all.
    methods : names, by default beta_vae, and beta_tcvae where there is time for both
    latents : int
    size : to which images are resized, as in `karenina.load`; by default chosen by size, device and time
    steps : updates of each model; by default what the time allows, 5,000 with `models`
    network : see `karenina.train`
    seed : int
    search : {"grid", "optuna"}
        "grid" is successive halving over strengths; "optuna" a Bayesian search over method, strength, latents and
        learning rate (extra `search`).
    device : {"auto", "cpu", "cuda", "mps"}
    track : "tensorboard:DIR", "mlflow:URI" or "wandb:PROJECT", optional
    say, progress : called with what is being done, and about 200 times per population
    started : when the budget began, by time.monotonic(); by default now

    Returns
    -------
    Fit
        `.best` is a run (None if all collapsed), `.ranking` a DataFrame, `.verdict` how sure, `.advice` what to know,
        `.page` a path. Ctrl-C and SIGTERM end the training with a checkpoint, and give the best answer so far;
        `.stopped` is "user" or "terminated" then. A second one ends it at once.

    Examples
    --------
    >>> found = fit("blobs", out="mine", models=4, steps=20, latents=3)
    >>> len(found.ranking), found.page.name
    (4, 'index.html')
    """
    if time is not None and models is not None:
        raise ValueError("give a time or a number of models, not both")
    seconds = parse_time(DEFAULT_TIME if time is None else time) if models is None else math.inf
    integer("latents", latents, 2)
    if models is not None:
        integer("models", models, 2)
    if steps is not None:
        integer("steps", steps, 1)
    if search not in ("grid", "optuna"):
        raise ValueError(f"search is grid or optuna, got {search!r}")
    wishes = Wishes(_methods(methods), latents, size, steps, network, integer("seed", seed, 0), search, models)
    clock = Clock(clocks.monotonic() if started is None else started, seconds)
    folder = Folder.open(out)
    if seconds < LEAST_TIME and say is not None:
        say(f"A fit takes about {LEAST_TIME:g} s at least: {seconds:g} s will be exceeded.")
    job = FitCall(images, folder, clock, wishes, pick_device(device), say or (lambda text: None), progress)
    with stops_heard():
        if search == "optuna":
            return job.search(track)
        with alone(folder.path), open_tracker(track) as job.tracker:
            return job.run()


def parse_time(text: str | float) -> float:
    """Return the seconds of "90", "45s", "30m", "1.5h" or "1h30m".

    >>> parse_time("1h30m"), parse_time("20s"), parse_time(2.5)
    (5400.0, 20.0, 2.5)
    """
    number = r"\d+(?:\.\d*)?"
    found = re.fullmatch(rf"(?:({number})h)?(?:({number})m)?(?:({number})s?)?", str(text).strip().lower())
    seconds = sum(float(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1))) if found else 0.0
    if not seconds > 0 or math.isinf(seconds):
        raise ValueError(f'a time is like "30m", "2h", "45s" or seconds, got {text!r}')
    return seconds


def _methods(methods: Sequence[str] | str | None) -> list[str] | None:
    """Return the names of methods, checked; None where the choice is ours."""
    if methods is None:
        return None
    listed = methods.split(",") if isinstance(methods, str) else list(methods)
    for method in listed:
        if method not in PARAMETERS:
            raise ValueError(f"fit does not train {method!r}; {hint(method, PARAMETERS)}")
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"methods should be different names, got {', '.join(listed) or 'none'}")
    return listed


@dataclass(frozen=True)
class Clock:
    """A budget of seconds that began at a moment of time.monotonic()."""

    started: float
    seconds: float

    @property
    def left(self) -> float:
        """Return the seconds that are left."""
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
    models: int | None


@dataclass
class FitCall:
    """One call of `fit`."""

    images: Images
    folder: Folder
    clock: Clock
    wishes: Wishes
    device: Any
    say: Say
    progress: Callable[[Progress], None] | None
    tracker: Tracker | None = None
    stopped: str = ""
    overhead: float = 0.0  # seconds that it takes to begin a population
    closing: float = 6.0  # seconds that ranking and the page take; measured when they were made once
    measured: dict[Path, Model] = field(default_factory=dict)
    tracked: set[Path] = field(default_factory=set)
    tried: list[tuple[Path, Candidate]] = field(default_factory=list)  # by a search: folders and their settings
    front: list[dict[str, Any]] = field(default_factory=list)  # of a search, as `search.front` gives it
    said: int = 0  # how many models there were when their settings were last listed
    began: tuple[float, float] = field(default_factory=lambda: (clocks.monotonic(), clocks.process_time()))

    def run(self) -> Fit:
        """Train round after round until the time is over or more models would change little, and return the answer."""
        self.prepare()
        with self._until_stopped():
            self._rounds()
        return self.finish()

    def search(self, track: str | None) -> Fit:
        """Try settings until the time is over or there are as many models as were asked for, and return the answer.

        Several processes may do so in one folder: each waits for the others where it plans and where it answers.
        """
        path = self.folder.path
        with intact(path):
            with waiting(path):
                self.folder = Folder.open(path)  # Another process may have made a plan while this one waited.
                self.prepare()
                study = open_study(path, self.wishes.seed)
            with open_tracker(track) as self.tracker:
                with self._until_stopped():
                    revive(study, path)
                    while self._room_of_search(study) >= SEEDS_OF_A_TRIAL:
                        trial = study.ask()
                        with failing(study, trial):
                            values = self._try(trial)
                        study.tell(trial, values)
                with waiting(path):
                    self.tried = tried(study, path, self.plan.methods, self.plan.latents)
                    self.front = front(study)
                    for one in self.front:
                        agreement, setting = one["agreement"], one["setting"]
                        self.say(f"On the front: {one['active']:g} active, agreement {agreement:+z.2f}: {setting}")
                    return self.finish()

    def _room_of_search(self, study: Any) -> int:
        """Return how many models can still be trained, by this process or, where a number was asked for, by all."""
        return self.room() if self.wishes.models is None else self.wishes.models - models_of(study)

    def _try(self, trial: Any) -> tuple[float, float]:
        """Train the seeds of a suggested setting; return their agreement and their median number of active latents."""
        setting, options = suggest(trial, self.plan.methods, self.plan.latents)
        name = str(setting).replace(" ", "_")
        root = self.folder.runs(self.plan) / name
        root.mkdir(parents=True, exist_ok=True)
        trial.set_user_attr("folder", root.relative_to(self.folder.path).as_posix())
        with alone(root):
            self.train({setting: range(SEEDS_OF_A_TRIAL)}, root, options)
        found = compare(self._measured([(setting, i, root) for i in range(SEEDS_OF_A_TRIAL)], self.plan))
        agreement = found.agreement(setting) if found.models else math.nan
        active = found.known[setting].middle if found.models else 0
        score = agreement if math.isfinite(agreement) else -1.0
        self.say(f"  {name}: agreement {score:+z.2f}, active latents {active:g}")
        return score, float(active)

    @contextmanager
    def _until_stopped(self) -> Iterator[None]:
        """End the block quietly where the time is over or someone stops it, and note which it was."""
        try:
            yield
        except OutOfTime:
            self.stopped = "time"
        except KeyboardInterrupt as stop:
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
        self.shown = self.source.sample()

    @property
    def data(self) -> DataSet:
        """Return the images as a data set."""
        return self.source.data

    @property
    def most_closing(self) -> float:
        """Return how much of the time may be kept for ranking and the page."""
        return 0.25 * self.clock.seconds

    def _open(self, size: Any = None) -> FitImages:
        """Open the images at `size` or the size that was asked for, else at one that suits the device and the time."""
        wishes, kind = self.wishes, self.device.type
        if wishes.size is not None or size is not None or kind != "cpu" or self.wishes.models is not None:
            chosen = wishes.size if wishes.size is not None else size
            return open_images(self.images, longest=CPU_SIDES[0], device=kind, size=chosen, network=wishes.network)
        return self._affordable()

    def _affordable(self) -> FitImages:
        """Open images as large as the time allows good training of, judged by the speed on noise of that shape."""
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
        return open_images(self.images, longest=longest, device="cpu", network=self.wishes.network)

    def _steps(self, per_step: float, models: int = MODELS) -> int:
        """Return how many steps of so many models there is time for."""
        return int(TRAINING_SHARE * (self.clock.left - self.closing - 2 * self.overhead) / (models * per_step))

    def _plan(self, last: FitPlan | None) -> FitPlan:
        """Return the plan to continue; a new one where more steps are possible now, or other settings are asked for."""
        wishes, images = self.wishes, self.source.fingerprint()
        if last is not None:
            if last.images != images:
                raise ValueError(f"{self.folder.path} holds a fit of other images; give another --out")
            asked = (wishes.latents, wishes.seed, wishes.search, wishes.steps or last.steps)
            same = asked == (last.latents, last.seed, last.search, last.steps)
            same = same and (wishes.methods is None or wishes.methods == last.methods)
            same = same and (wishes.network == "auto" or wishes.network == last.network)
            possible = self._steps(last.seconds) if last.seconds and self.wishes.models is None else 0
            if same and possible < 4 * last.steps:
                self.say(f"Continuing after {last.models} models of {last.steps:,} steps.")
                if not last.seconds and self.wishes.models is None:  # begun with a number of models
                    last.seconds = self._speed(self.data.image_shape, last.network)
                return last
            self.say("Beginning anew with other settings; the models there are kept aside.")
            if wishes.size is None and wishes.steps is None:
                self.source = self._open()
                images = self.source.fingerprint()
        per_step, steps, room = 0.0, wishes.steps or DEFAULT_STEPS, self.wishes.models or MODELS
        if self.wishes.models is None:
            per_step = self._speed(self.data.image_shape, self.source.network)
            if wishes.steps is None:
                steps = self._steps(per_step)
                steps = self._steps(per_step, FEW_MODELS) if steps < 1000 else steps
                steps = min(max(steps, LEAST_STEPS), MOST_STEPS)
            room = max(int(TRAINING_SHARE * self.clock.left / (steps * per_step)), 0)
        methods = wishes.methods or (["beta_vae", "beta_tcvae"] if room >= SECOND_METHOD else ["beta_vae"])
        plan = FitPlan(
            self.source.options, images, self.source.network, wishes.latents, steps, wishes.seed, methods, wishes.search
        )
        plan.seconds = per_step
        self.folder.plans.append(plan)
        budget = f"{room} models"
        if wishes.models is None:
            budget = f"about {budget} in {_minutes(max(self.clock.left, 0))}"
        self.say(
            f"{' and '.join(methods)} with {wishes.latents} latents, network {plan.network}, {steps:,} steps: {budget}."
        )
        return plan

    def _speed(self, shape: tuple[int, int, int], network: str) -> float:
        """Return the seconds per model and step of the first round; those before the first step go to `overhead`."""
        options = {"network": network, "latents": self.wishes.latents}
        most = 0.05 * min(self.clock.seconds, 60)
        per_step, self.overhead = time_training(shape, options, FEW_MODELS, self.device, most)
        return per_step

    def _rounds(self) -> None:
        """Train the rounds of the plan, and plan more, while there is room."""
        plan = self.plan
        while True:
            if plan.done == len(plan.rounds):  # Otherwise a round was interrupted.
                room = self.room()
                if plan.done and room < 1:
                    return
                known = self.compared().known if plan.done else {}
                wanted = next_round(known, plan.latents, plan.done) if plan.done else first_round(plan.methods, room)
                wanted = cut(wanted, max(room, 2) if not plan.done else room)
                if not wanted:
                    if room >= 2 and self.wishes.models is None:
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
            if self.room() > 0:  # Otherwise the answer at the end comes next.
                self.answer(page=plan.done == 1)
            shutil.rmtree(self._unfinished, ignore_errors=True)  # They have all their steps now.

    def room(self) -> int:
        """Return how many models can still be trained. Before a later round the finished ones are ranked, too."""
        if self.wishes.models is not None:
            return self.wishes.models - self.plan.models
        closing = self.closing * (2 if self.plan.done else 1) + SPARE * self.clock.seconds
        return int((self.clock.left - closing - self.overhead) / (1.05 * self.plan.steps * self.plan.seconds))

    def train(self, wanted: Round, root: Path | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Train one round, all its models together. options: of `train`, where they differ from the plan's."""
        plan = self.plan
        root = self.folder.runs(plan) if root is None else root
        chosen = {"network": plan.network, "steps": plan.steps, "latents": plan.latents, **(options or {})}
        every = min(60.0, max(self.clock.seconds / 4, 10.0))  # A checkpoint of many models takes half a second.
        seconds = train_round(self.data, wanted, 1000 * self.wishes.seed, chosen, root, self.device, every, self._watch)
        if seconds is not None:
            plan.seconds = seconds / plan.steps

    def _watch(self, at: Progress) -> None:
        """End the training in time for the answer."""
        if self.clock.left < min(self.closing + SPARE * self.clock.seconds, self.most_closing):
            raise OutOfTime
        if self.progress is not None:
            self.progress(at)

    def finished(self) -> list[Model]:
        """Return all finished models of the newest plan that has some, in the order in which they were planned.

        Where no plan has any, those of a first round that was stopped, each kept as a run of the steps that it has.
        """
        for plan in reversed(self.folder.plans):
            places = [(s, i, self.folder.runs(plan)) for one in plan.rounds for s, seeds in one.items() for i in seeds]
            if plan is self.plan:
                places += [(setting, i, place) for place, setting in self.tried for i in range(MOST_SEEDS)]
            if found := self._measured(places, plan):
                self.answered = plan
                return found
        self.answered = plan = self.plan
        first = plan.rounds[0].items() if plan.rounds and not plan.done else ()
        runs = [(s, self.folder.runs(plan) / run_name(s, 1000 * plan.seed + i)) for s, seeds in first for i in seeds]
        kept = [(setting, keep_unfinished(path, self._unfinished)) for setting, path in runs]
        return self._known([(setting, path) for setting, path in kept if path is not None])

    @property
    def _unfinished(self) -> Path:
        """Return where the models of a first round that was stopped are kept."""
        return self.folder.runs(self.plan) / "unfinished"

    def _measured(self, places: Sequence[tuple[Candidate, int, Path]], plan: FitPlan) -> list[Model]:
        """Return the finished models of settings and seeds in folders."""
        return self._known([(s, folder / run_name(s, 1000 * plan.seed + i)) for s, i, folder in places])

    def _known(self, runs: Sequence[tuple[Candidate, Path]]) -> list[Model]:
        """Return what is known of runs, as far as they are finished; each is measured once."""
        for setting, path in runs:
            if path not in self.measured and (model := measure(path, setting, self.shown)) is not None:
                self.measured[path] = model
        return [self.measured[path] for _, path in runs if path in self.measured]

    def compared(self) -> Compared:
        """Return all finished models beside each other."""
        return compare(self.finished())

    def answer(self, *, page: bool) -> Fit:
        """Rank what is finished and write it down."""
        start = clocks.monotonic()
        compared = self.compared()
        plan = self.answered
        if not compared.models and (self.folder.path / ANSWER).exists():
            self.say("No new model was finished: the answer of before stands.")
            return read_fit(self.folder.path)
        steps = compared.models[0].config.steps if compared.models else plan.steps
        if len(compared.models) != self.said:
            self.said = len(compared.models)
            for line in describe_settings(compared):
                self.say(line)
        stopped = "user" if self.stopped in STOPS else self.stopped
        found = make_answer(self.folder, replace(plan, steps=steps), compared, self.look, stopped, self.front)
        if self.tracker is not None:
            self._track(compared)
        if page:
            write_page(found, self.data, self.images)
            self.closing = 1.2 * (clocks.monotonic() - start) + 0.5
        return found

    def _track(self, compared: Compared) -> None:
        """Write the history of each model to the tracker, once, and its scores after each round."""
        assert self.tracker is not None
        for row, i in zip(compared.frame.to_dict("records"), compared.choice.order):
            model = compared.models[i]
            if model.path not in self.tracked:
                self.tracked.add(model.path)
                self.tracker.about(model.path.name, {"setting": str(model.setting), **model.config.to_json()})
                for values in model.history.to_dict("records"):
                    numbers = {str(name): float(value) for name, value in values.items() if name != "step"}
                    self.tracker.write(model.path.name, numbers, int(values["step"]))
            scores = {
                f"fit/{name}": row[name]
                for name in ("agreement", "udr_setting", "udr", "udr_a2a", "active", "explained")
            }
            finite = {name: float(value) for name, value in scores.items() if math.isfinite(value)}
            self.tracker.write(model.path.name, finite, self.plan.done)

    def _count_time(self) -> None:
        """Add the time since the last call to what the fit has taken."""
        now = clocks.monotonic()
        self.folder.spent += now - getattr(self, "_counted", self.clock.started)
        self._counted = now

    def finish(self) -> Fit:
        """Return the answer, with its page."""
        self._count_time()
        self.folder.save()
        return replace(self.answer(page=True), stopped=self.stopped)


def _minutes(seconds: float) -> str:
    """Return a time in seconds or minutes.

    >>> _minutes(90), _minutes(600)
    ('90 s', '10 min')
    """
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
