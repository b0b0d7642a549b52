"""Which settings to try next, without labels: by successive halving over strengths, or by a Bayesian search.

Halving is pure functions of what is known so far. The search of `fit(search="optuna")` is over method, strength,
latents and learning rate. It has two objectives, because UDR favours models that learn fewer factors (Duan et al. 2020,
section 4): the agreement of a setting's seeds, and how many latents are active. Trials are in search.db (SQLite):
several processes may work on one folder at the same time, and any of them may be killed.
"""

import math
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from karenina._files import check_regular, held
from karenina._plugins import need

# The first look is wide and coarse; where it is worth it, the values between come in the second round.
STRENGTHS = (0.5, 2.0, 8.0, 32.0, 128.0)
_STEP = 4.0
SEEDS = (2, 3, 5, 8, 12, 16, 20)  # How many seeds a setting has after each round that keeps it.
MOST_SEEDS = SEEDS[-1]
SEEDS_OF_A_TRIAL = 3
DATABASE = "search.db"
SEARCHED_STRENGTHS = (0.5, 128.0)
SEARCHED_RATES = (3e-4, 3e-3)
# The parameter that is a method's strength, and what a strength of 1 is of it. Where the total correlation alone is
# weighted, not the whole KL, the useful values are about as large.
PARAMETERS = {
    "beta_vae": "beta",
    "beta_tcvae": "beta",
    "factor_vae": "gamma",
    "dip_vae_i": "lambda_od",
    "dip_vae_ii": "lambda_od",
}


@dataclass(frozen=True, order=True)
class Candidate:
    """A setting that a fit may try: a method and its strength. more: whatever else a search varies, in words."""

    method: str
    strength: float
    more: str = ""

    @property
    def parameter(self) -> str:
        """Return the name of the method's strength."""
        return PARAMETERS[self.method]

    @property
    def value(self) -> float | int:
        """Return the strength as it is written."""
        return int(self.strength) if self.strength == int(self.strength) else self.strength

    def __str__(self) -> str:
        return f"{self.method} {self.parameter}={self.value} {self.more}".rstrip()


@dataclass(frozen=True)
class Known:
    """What the models of a setting showed. seeds: how many are trained. active: the active latents of each. score: how
    far they agree (Agreement.above_typical), or NaN."""

    seeds: int
    active: tuple[int, ...]
    score: float

    @property
    def middle(self) -> float:
        """Return the median number of active latents."""
        return median(self.active) if self.active else 0.0


Round = dict[Candidate, range]  # the seeds to train of each, counted from 0


def first_round(methods: Sequence[str], room: int) -> Round:
    """Return few seeds of widely spaced strengths, as many as there is room for, the middle ones first.

    >>> {str(setting): len(seeds) for setting, seeds in first_round(["beta_vae"], 6).items()}
    {'beta_vae beta=2': 2, 'beta_vae beta=8': 2, 'beta_vae beta=32': 2}
    """
    order = sorted(STRENGTHS, key=lambda value: abs(math.log(value / STRENGTHS[len(STRENGTHS) // 2])))
    settings = [Candidate(method, strength) for strength in order for method in methods]
    return {setting: range(SEEDS[0]) for setting in sorted(settings[: max(room // SEEDS[0], 1)])}


def second_round(known: Mapping[Candidate, Known], latents: int) -> Round:
    """Return the strengths at which some but not all latents are active, at half the spacing and with more seeds.

    Where there is none, the values between the strongest with all latents and the weakest with none; or beyond the end
    of the first look, if all strengths had all latents, or none.
    """
    wanted: Round = {}
    for method in dict.fromkeys(setting.method for setting in known):
        mine = {setting.strength: found for setting, found in known.items() if setting.method == method}
        inside = sorted(strength for strength, found in mine.items() if 0 < found.middle < latents)
        if inside:
            strengths = set(inside) | {s * math.sqrt(_STEP) for s in inside} | {inside[0] / math.sqrt(_STEP)}
        else:
            full = [strength for strength, found in mine.items() if found.middle >= latents]
            off = [strength for strength, found in mine.items() if found.middle < 1]
            low = max(full) if full else min(off) / _STEP
            high = min(off) if off else max(full) * _STEP
            strengths = {low * (high / low) ** share for share in (0.25, 0.5, 0.75)}
        for strength in sorted(strengths):
            setting = Candidate(method, float(f"{strength:.3g}"))
            have = known[setting].seeds if setting in known else 0
            wanted[setting] = range(have, SEEDS[1] if have else SEEDS[0])
    return wanted


def next_round(known: Mapping[Candidate, Known], latents: int, done: int) -> Round:
    """Return what to train after `done` rounds; nothing when more models would change little.

    From the third round on the better half of the settings by agreement is kept, two at the least, and gets more seeds.
    Settings without an active latent are never kept, and those with all latents active only if there are no others.
    """
    if done == 1:
        return second_round(known, latents)
    alive = {setting: found for setting, found in known.items() if found.middle >= 1 and math.isfinite(found.score)}
    inside = {setting: found for setting, found in alive.items() if found.middle < latents}
    ranked = sorted(inside or alive, key=lambda setting: -known[setting].score)
    goal = SEEDS[min(done, len(SEEDS) - 1)]
    for halvings in range(max(done - 1, 1), 0, -1):
        keep = ranked[: max(len(ranked) >> halvings, 2)]
        wanted = {setting: range(known[setting].seeds, goal) for setting in keep if known[setting].seeds < goal}
        if wanted:
            return wanted
    return {}


def cut(wanted: Round, room: int) -> Round:
    """Return the round with no more models than there is room for.

    Every setting loses its last seeds alike, and of new ones, which need two seeds, those farthest from the middle of
    the strengths go first.

    >>> kept = cut({Candidate("beta_vae", 2): range(2), Candidate("beta_vae", 8): range(2, 5)}, 3)
    >>> {str(setting): seeds for setting, seeds in kept.items()}
    {'beta_vae beta=2': range(0, 2), 'beta_vae beta=8': range(2, 3)}
    """
    kept = dict(wanted)
    middle = sum(math.log(setting.strength) for setting in wanted) / max(len(wanted), 1)

    def first_to_go(setting: Candidate) -> tuple[float, ...]:
        return len(kept[setting]), kept[setting].stop, abs(math.log(setting.strength) - middle)

    while sum(map(len, kept.values())) > max(room, 0):
        longest = max(kept, key=first_to_go)
        left = kept[longest]
        # A setting that is new needs two seeds for UDR: one alone is of no use.
        fewer = range(left.start, left.start if left.start == 0 and len(left) <= SEEDS[0] else left.stop - 1)
        kept[longest] = fewer
    return {setting: seeds for setting, seeds in kept.items() if len(seeds)}


def _optuna() -> Any:
    """Return optuna, which says nothing but errors."""
    optuna = need("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def open_study(folder: Path, seed: int) -> Any:
    """Return the optuna study in a folder; the process that comes first makes it."""
    optuna = _optuna()
    with warnings.catch_warnings(), intact(folder, Exception):
        warnings.simplefilter("ignore")  # optuna warns of features that it calls experimental
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
        # All of it is read once, so that damage is reported before the work.
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
def intact(folder: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds (by default those of databases), which a damaged database raises, into one line."""
    optuna = _optuna()
    from sqlalchemy.exc import SQLAlchemyError

    caught = kinds or (SQLAlchemyError, optuna.exceptions.OptunaError, sqlite3.Error)
    try:
        yield
    except caught as error:
        lines = str(error.__cause__ or error).splitlines() or [type(error).__name__]
        raise ValueError(f"{folder / DATABASE} is damaged, or not of a search: {lines[0]}") from None


def suggest(trial: Any, methods: list[str], latents: int) -> tuple[Candidate, dict[str, Any]]:
    """Return the setting of a trial, and the options of training that it decides."""
    method = trial.suggest_categorical("method", methods)
    strength = float(f"{trial.suggest_float('strength', *SEARCHED_STRENGTHS, log=True):.3g}")
    count = trial.suggest_int("latents", max(latents // 2, 2), latents)
    rate = float(f"{trial.suggest_float('learning_rate', *SEARCHED_RATES, log=True):.2g}")
    return Candidate(method, strength, f"latents={count} rate={rate:g}"), {"latents": count, "learning_rate": rate}


@contextmanager
def waiting(folder: Path) -> Iterator[None]:
    """Wait for a lock on a file of its own: other processes train while this one plans or ranks."""
    (folder / ".search.lock").touch()
    with held(folder / ".search.lock", wait=True):
        yield


@contextmanager
def failing(study: Any, trial: Any) -> Iterator[None]:
    """Note a trial as failed where it ends with an exception, whichever that is."""
    try:
        yield
    except BaseException:
        study.tell(trial, state=_optuna().trial.TrialState.FAIL)
        raise


def models_of(study: Any) -> int:
    """Return how many models are trained or in training."""
    state = _optuna().trial.TrialState
    return SEEDS_OF_A_TRIAL * len(study.get_trials(deepcopy=False, states=(state.COMPLETE, state.RUNNING)))


def revive(study: Any, folder: Path) -> None:
    """Try the trials again whose process was killed: their population resumes from its checkpoint."""
    state = _optuna().trial.TrialState
    for trial in study.get_trials(deepcopy=False, states=(state.RUNNING,)):
        place = trial.user_attrs.get("folder")
        if place and not _is_busy(folder / place):
            study._storage.set_trial_state_values(trial._trial_id, state=state.FAIL)
            study.enqueue_trial(trial.params)


def _is_busy(path: Path) -> bool:
    """Return whether a process trains in a folder."""
    if not path.is_dir():
        return False
    with held(path) as free:
        return not free


def tried(study: Any, folder: Path, methods: list[str], latents: int) -> list[tuple[Path, Candidate]]:
    """Return the folder and the setting of every trial, of all processes."""
    fixed = _optuna().trial.FixedTrial
    found = {
        folder / trial.user_attrs["folder"]: suggest(fixed(trial.params), methods, latents)[0]
        for trial in study.get_trials(deepcopy=False)
        if "folder" in trial.user_attrs
    }
    return list(found.items())


def front(study: Any) -> list[dict[str, Any]]:
    """Return the trials that no other beats in both agreement and active latents, fewest latents first."""
    found = {(t.values[1], t.values[0], t.user_attrs["folder"]) for t in study.best_trials}
    return [
        {"active": active, "agreement": round(agreement, 4), "setting": folder.rsplit("/", 1)[-1]}
        for active, agreement, folder in sorted(found)
    ]
