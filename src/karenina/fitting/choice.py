"""Which of the trained models to take, without labels, and how sure that is."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina.evaluation.udr_versions import compute_udr
from karenina.fitting.halving import Known, Setting
from karenina.numerics.arrays import Floats
from karenina.numerics.gaussian import kl_per_latent
from karenina.selection import udr

if TYPE_CHECKING:
    import pandas as pd

    from karenina.training import Run
    from karenina.training.config import Config

KEPT = 0.75  # of the best setting's agreement: with as much a setting is as good, for all that a few seeds can tell
ROWS = 2000  # images on which models are compared
_CHANCE_COPIES, _CHANCE_ROWS = 30, 500
# What `simulated_chance` gives for 2, 3, ... latents, which takes a second each.
_CHANCE = (0.689736, 0.534361, 0.390387, 0.310752, 0.266603, 0.229633, 0.196335, 0.170055, 0.154463, 0.139505, 0.127117)

COLUMNS = ["rank", "run", "method", "strength", "seed", "agreement", "udr_setting", "udr", "udr_a2a", "low", "high"]
COLUMNS += ["active", "explained"]


@dataclass(frozen=True, eq=False)
class Model:
    """A finished run and what it makes of the images that all models are compared on.

    kl: (L,). explained: share of the variance of the pixels that its reconstructions explain.
    """

    path: Path
    config: "Config"
    setting: Setting
    codes: NDArray[np.float32]
    kl: Floats
    explained: float

    @property
    def active(self) -> int:
        return int((self.kl > ACTIVE_KL).sum())


def measure(run: "Run", setting: Setting, images: NDArray[np.uint8]) -> Model:
    mean, logvar = run.encode(images)
    few = images[:500]
    values = few.astype(np.float64) / 255
    left = ((values - run.decode(mean[: len(few)])) ** 2).sum()
    total = ((values - values.mean(0)) ** 2).sum()
    explained = 1 - left / total if total > 0 else math.nan
    assert run.path is not None
    return Model(run.path, run.config, setting, mean, kl_per_latent(mean, logvar), float(explained))


@dataclass(frozen=True, eq=False)
class Compared:
    """Models and their UDR: within: of models of one setting; all_to_all: of all models, with its 95 % interval."""

    models: Sequence[Model]
    within: Floats
    all_to_all: Floats
    interval: Floats

    @cached_property
    def by_setting(self) -> dict[Setting, list[int]]:
        found: dict[Setting, list[int]] = {}
        for i, model in enumerate(self.models):
            found.setdefault(model.setting, []).append(i)
        return dict(sorted(found.items()))

    @property
    def known(self) -> dict[Setting, Known]:
        """What the next round of halving is decided from."""
        return {
            setting: Known(len(mine), tuple(self.models[i].active for i in mine), self.agreement(setting))
            for setting, mine in self.by_setting.items()
        }

    def score(self, setting: Setting) -> float:
        """The median UDR of a setting's models, of those that have an active latent; NaN with fewer than two."""
        alive = [self.within[i] for i in self.by_setting[setting] if self.models[i].active]
        return float(np.median(alive)) if len(alive) > 1 else math.nan

    def agreement(self, setting: Setting) -> float:
        """The same on a scale on which 0 is what chance explains and 1 is perfect; NaN with fewer than two models.

        UDR rewards few latents: two latents turned at random have a UDR of 0.7, ten one of 0.15. Here it does not.
        """
        alive = [i for i in self.by_setting[setting] if self.models[i].active]
        found = [above_chance(float(self.within[i]), self.models[i].active) for i in alive]
        return float(np.median(found)) if len(found) > 1 else math.nan

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row per model, the best first."""
        import pandas as pd

        order = self.order
        rows = [
            {
                "rank": place,
                "run": self.models[i].path.name,
                "method": self.models[i].setting.method,
                "strength": self.models[i].setting.strength,
                "seed": self.models[i].config.seed,
                "agreement": self.agreement(self.models[i].setting),
                "udr_setting": self.score(self.models[i].setting),
                "udr": float(self.within[i]),
                "udr_a2a": float(self.all_to_all[i]),
                "low": float(self.interval[i, 0]),
                "high": float(self.interval[i, 1]),
                "active": self.models[i].active,
                "explained": self.models[i].explained,
            }
            for place, i in enumerate(order, start=1)
        ]
        return pd.DataFrame(rows, columns=COLUMNS)

    @cached_property
    def kept(self) -> set[Setting]:
        """The strengths that count: agreement above chance, and three quarters as far as the best one's."""
        found = {setting: self.agreement(setting) for setting in self.by_setting}
        most = max((value for value in found.values() if math.isfinite(value)), default=0.0)
        return {setting for setting, value in found.items() if value > 0 and value >= KEPT * most}

    @cached_property
    def order(self) -> list[int]:
        """Models from best to worst: those of the settings that are kept by their UDR of all to all, then the others,
        and last those without an active latent."""

        def key(i: int) -> tuple[bool, bool, float]:
            score = self.all_to_all[i]
            one = self.models[i]
            return one.active == 0, one.setting not in self.kept, -(score if math.isfinite(score) else -1.0)

        return sorted(range(len(self.models)), key=key)

    @property
    def best(self) -> int | None:
        """The chosen model; None if no model has an active latent."""
        first = self.order[0] if self.models else None
        return first if first is not None and self.models[first].active else None


def make_ready() -> None:
    """Compile what ranking needs, before the time that is left is planned: it takes seconds on a new installation."""
    codes = np.random.default_rng(0).normal(size=(2, 30, 2)).astype(np.float32)
    compute_udr("udr_lasso", list(codes), [np.ones(2)] * 2, ["one", "one"])


def compare(models: Sequence[Model]) -> Compared:
    """UDR of models, within settings and all to all (Duan et al. 2020, section 4)."""
    count = len(models)
    nothing = np.full(count, math.nan)
    if count < 2:
        return Compared(models, nothing, nothing, np.full((count, 2), math.nan))
    codes, kl = [model.codes for model in models], [model.kl for model in models]
    names = [str(model.setting) for model in models]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of latents near the threshold and the like
        within = compute_udr("udr_lasso", codes, kl, names).scores if len(set(names)) < count else nothing
        everyone = compute_udr("udr_lasso_a2a", codes, kl, names)
    return Compared(models, np.asarray(within), np.asarray(everyone.scores), np.asarray(everyone.interval))


def chance(active: int) -> float:
    """The UDR of models that found the same latents, so many, but each in a rotation of its own: the 95th percentile.

    UDR_L sees the second moments alone, so this depends on nothing but the number of latents. What agreement is not
    above it says nothing about disentanglement. One latent cannot be turned, and agreement on it proves nothing: 1.

    >>> chance(1), round(chance(2), 1), round(chance(10), 1)
    (1.0, 0.7, 0.2)
    """
    if active < 2:
        return 1.0
    return _CHANCE[active - 2] if active - 2 < len(_CHANCE) else simulated_chance(active)


@cache
def simulated_chance(active: int) -> float:
    """`chance` of two latents or more, by UDR of copies of the same latents that are turned at random."""
    rng = np.random.default_rng(active)
    white = np.linalg.qr(rng.normal(size=(_CHANCE_ROWS, active)))[0] * math.sqrt(_CHANCE_ROWS)
    turned = [white @ _rotation(active, rng) for _ in range(_CHANCE_COPIES)]
    found = udr(turned, np.ones((_CHANCE_COPIES, active)), ["turned"] * _CHANCE_COPIES)
    return float(np.quantile(found.scores, 0.95))


def above_chance(score: float, active: int) -> float:
    """UDR on the scale on which 0 is `chance` and 1 perfect agreement; 0 for a single latent."""
    limit = chance(active)
    return (score - limit) / (1 - limit) if limit < 1 else 0.0


def _rotation(size: int, rng: np.random.Generator) -> Floats:
    """Uniform over the orthogonal matrices: the QR decomposition of Gaussians, with its signs made unique."""
    q, r = np.linalg.qr(rng.normal(size=(size, size)))
    return q * np.sign(np.diag(r))
