"""`karenina.fit`: images without labels -> a population of models, the one to take, and how sure that is."""

import math
import os
import re
import time as clocks
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from karenina._process import stops_heard
from karenina._words import hint
from karenina.data.user_images import Images, Size
from karenina.fitting.answer import Fit
from karenina.fitting.folder import Folder
from karenina.fitting.halving import PARAMETERS
from karenina.fitting.job import Clock, Job, Say, Wishes

if TYPE_CHECKING:
    from karenina.training.loop import Progress

DEFAULT_TIME = "30m"
LEAST_TIME = 10.0  # seconds: what looking, a few steps, ranking and the page take


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
    progress: "Callable[[Progress], None] | None" = None,
    started: float | None = None,
) -> Fit:
    """A disentangled model of your own images, chosen without labels, and how sure the choice is.

    Trains a population (methods x strengths x seeds) within a budget, first a few seeds of widely spaced strengths,
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
    from karenina._settings import integer
    from karenina.training.trackers import open_tracker
    from karenina.training.trainer import alone, pick_device

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
    wanted = Wishes(_methods(methods), latents, size, steps, network, integer("seed", seed, 0), search)
    clock = Clock(clocks.monotonic() if started is None else started, seconds)
    folder = Folder.open(out)
    if seconds < LEAST_TIME and say is not None:
        say(f"A fit takes about {LEAST_TIME:g} s at least: {seconds:g} s will be exceeded.")
    where = pick_device(device)
    job = Job(images, folder, clock, wanted, models, where, say or (lambda text: None), progress)
    if search == "optuna":
        from karenina.fitting.search import run_search

        with stops_heard():
            return run_search(job, track)
    with stops_heard(), alone(folder.path), open_tracker(track) as tracker:
        job.tracker = tracker
        return job.run()


def parse_time(text: str | float) -> float:
    """Seconds of "90", "45s", "30m", "1.5h" or "1h30m".

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
    if methods is None:
        return None
    listed = methods.split(",") if isinstance(methods, str) else list(methods)
    for method in listed:
        if method not in PARAMETERS:
            raise ValueError(f"fit does not train {method!r}; {hint(method, PARAMETERS)}")
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"methods should be different names, got {', '.join(listed) or 'none'}")
    return listed
