"""`fit(search="optuna")`: a Bayesian search over method, strength, latents and learning rate, by UDR, without labels.

Two objectives, because UDR favours models that learn fewer factors (Duan et al. 2020, section 4): the agreement of a
setting's seeds, and how many latents are active. Trials are in search.db (SQLite): several processes may work on one
folder at the same time, and any of them may be killed.
"""

import math
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina._files import check_regular, held
from karenina._plugins import need
from karenina.fitting.choice import compare
from karenina.fitting.halving import Setting

if TYPE_CHECKING:
    from karenina.fitting.answer import Fit
    from karenina.fitting.job import Job

SEEDS = 3  # of each setting that is tried
DATABASE = "search.db"
STRENGTHS = (0.5, 128.0)
RATES = (3e-4, 3e-3)


def _optuna() -> Any:
    optuna = need("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_study(folder: Path, seed: int) -> Any:
    """The study in a folder; made by the process that comes first."""
    optuna = _optuna()
    with warnings.catch_warnings(), _intact(folder, Exception):
        warnings.simplefilter("ignore")  # of features that optuna calls experimental
        storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs=_engine(folder / DATABASE))
        study = optuna.create_study(
            storage=storage,
            study_name="fit",
            directions=["maximize", "maximize"],
            load_if_exists=True,
        )
        # Each process that joins draws its own startup trials.
        joined = int(study.user_attrs.get("joined", 0))
        study.set_user_attr("joined", joined + 1)
        study.sampler = optuna.samplers.TPESampler(seed=1000 * seed + joined, n_startup_trials=6, multivariate=True)
        # All of it is read once, so that what is damaged is said before the work.
        for trial in study.get_trials(deepcopy=False):
            if not isinstance(trial.user_attrs.get("folder", ""), str) or len(trial.values or (0, 0)) != 2:
                raise ValueError(f"trial {trial.number} is not one of a fit")
        front(study)
        return study


def _engine(file: Path) -> dict[str, Any]:
    """Return how to reach a database by the path of its file: in an address "?" and "%" would mean something else."""
    from sqlalchemy.pool import QueuePool

    if file.exists():
        check_regular(file)
    return {"creator": partial(sqlite3.connect, file, timeout=60, check_same_thread=False), "poolclass": QueuePool}


@contextmanager
def _intact(folder: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Make what a damaged database raises one line: errors of these kinds, or else of databases."""
    from sqlalchemy.exc import SQLAlchemyError

    caught = kinds or (SQLAlchemyError, _optuna().exceptions.OptunaError, sqlite3.Error)
    try:
        yield
    except caught as error:
        lines = str(error.__cause__ or error).splitlines() or [type(error).__name__]
        raise ValueError(f"{folder / DATABASE} is damaged, or not of a search: {lines[0]}") from None


def suggest(trial: Any, methods: list[str], latents: int) -> tuple[Setting, dict[str, Any]]:
    """The setting of a trial, and what else it decides."""
    method = trial.suggest_categorical("method", methods)
    strength = float(f"{trial.suggest_float('strength', *STRENGTHS, log=True):.3g}")
    count = trial.suggest_int("latents", max(latents // 2, 2), latents)
    rate = float(f"{trial.suggest_float('learning_rate', *RATES, log=True):.2g}")
    return Setting(method, strength, f"latents={count} rate={rate:g}"), {"latents": count, "learning_rate": rate}


def run_search(job: "Job", track: str | None) -> "Fit":
    """Try settings until the time is over or there are as many models as were asked for, and return the answer."""
    _optuna()
    with _intact(job.folder.path):
        return _run(job, track)


def _run(job: "Job", track: str | None) -> "Fit":
    from karenina.fitting.job import OutOfTime
    from karenina.training.trackers import open_tracker

    with _waiting(job.folder.path):  # of several processes one plans
        job.folder = type(job.folder).open(job.folder.path)
        job.prepare()
        study = open_study(job.folder.path, job.wishes.seed)
    with open_tracker(track) as tracker:
        job.tracker = tracker
        try:
            _revive(study, job)
            while _room(study, job) >= SEEDS:
                trial = study.ask()
                try:
                    values = _try(trial, job)
                except BaseException:
                    study.tell(trial, state=_optuna().trial.TrialState.FAIL)
                    raise
                study.tell(trial, values)
        except OutOfTime:
            job.stopped = "time"
        except KeyboardInterrupt as stop:
            job.was_stopped(stop)
        with _waiting(job.folder.path):
            _collect(study, job)
            job.front = front(study)
            for one in job.front:
                job.say(f"On the front: {one['active']:g} active, agreement {one['agreement']:+z.2f}: {one['setting']}")
            return job.finish()


@contextmanager
def _waiting(path: Path) -> Iterator[None]:
    """A lock that waits, on a file of its own: other processes train while this one plans or ranks."""
    (path / ".search.lock").touch()
    with held(path / ".search.lock", wait=True):
        yield


def _room(study: Any, job: "Job") -> int:
    if job.models is not None:
        state = _optuna().trial.TrialState
        return job.models - SEEDS * len(study.get_trials(deepcopy=False, states=(state.COMPLETE, state.RUNNING)))
    return job.room()


def _revive(study: Any, job: "Job") -> None:
    """Trials whose process was killed are tried again: their population resumes from its checkpoint."""
    optuna = _optuna()
    state = optuna.trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=(state.RUNNING,)):
        began = trial.user_attrs.get("folder")
        if began and not _busy(Path(job.folder.path / began)):
            study._storage.set_trial_state_values(trial._trial_id, state=state.FAIL)
            study.enqueue_trial(trial.params)


def _busy(path: Path) -> bool:
    from karenina.training.trainer import alone

    if not path.is_dir():
        return False
    try:
        with alone(path):
            return False
    except ValueError:
        return True


def _try(trial: Any, job: "Job") -> tuple[float, float]:
    """Train the seeds of a suggested setting: their agreement, and the median number of active latents."""
    from karenina.training.trainer import alone

    setting, more = suggest(trial, job.plan.methods, job.plan.latents)
    name = str(setting).replace(" ", "_")
    root = job.folder.runs(job.plan) / name
    root.mkdir(parents=True, exist_ok=True)
    trial.set_user_attr("folder", root.relative_to(job.folder.path).as_posix())
    with alone(root):
        job.train({setting: range(SEEDS)}, root, more)
    models = [job.measure_run(root / setting.run_name(1000 * job.plan.seed + i), setting) for i in range(SEEDS)]
    found = compare([model for model in models if model is not None])
    agreement = found.agreement(setting) if found.models else math.nan
    active = found.known[setting].middle if found.models else 0
    score = agreement if math.isfinite(agreement) else -1.0
    job.say(f"  {name}: agreement {score:+z.2f}, active latents {active:g}")
    return score, float(active)


def _collect(study: Any, job: "Job") -> None:
    """All finished models of all trials, of every process, for the ranking."""
    found: dict[Path, Setting] = {}
    for trial in study.get_trials(deepcopy=False):
        if "folder" in trial.user_attrs:
            fixed = _optuna().trial.FixedTrial(trial.params)
            setting, _ = suggest(fixed, job.plan.methods, job.plan.latents)
            found[job.folder.path / trial.user_attrs["folder"]] = setting
    job.tried = list(found.items())


def front(study: Any) -> list[dict[str, Any]]:
    """The trials that no other beats in both agreement and active latents, fewest latents first."""
    found = {(t.values[1], t.values[0], t.user_attrs["folder"]) for t in study.best_trials}
    return [
        {"active": active, "agreement": round(agreement, 4), "setting": folder.rsplit("/", 1)[-1]}
        for active, agreement, folder in sorted(found)
    ]
