"""The models of a fit beside each other: what each makes of the images, their UDR, and the choice among them."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from karenina._active import CLEAR_KL
from karenina.evaluation.criteria import compute_udr
from karenina.evaluation.scoring import explained_variance
from karenina.fitting.halving import Known, Setting
from karenina.numerics.arrays import Floats
from karenina.numerics.gaussian import kl_per_latent
from karenina.selection.choice import Choice, choose

if TYPE_CHECKING:
    import pandas as pd

    from karenina.training import Run
    from karenina.training.config import Config

ROWS = 10_000  # images on which models are compared: those of a report, so that both say the same
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
        """How many latents are clearly active."""
        return int((self.kl > CLEAR_KL).sum())


def measure(run: "Run", setting: Setting, images: NDArray[np.uint8]) -> Model:
    mean, logvar = run.encode(images)
    assert run.path is not None
    explained = explained_variance(run, images, mean)
    return Model(run.path, run.config, setting, mean, kl_per_latent(mean, logvar), explained)


@dataclass(frozen=True, eq=False)
class Compared:
    """Models and their UDR: within: of models of one setting; all_to_all: of all models, with its 95 % interval."""

    models: Sequence[Model]
    within: Floats
    all_to_all: Floats
    interval: Floats

    @cached_property
    def choice(self) -> Choice:
        settings, active = [model.setting for model in self.models], [model.active for model in self.models]
        return choose(settings, active, self.within, self.all_to_all, lambda i: self.models[i].explained)

    @cached_property
    def by_setting(self) -> dict[Setting, list[int]]:
        found: dict[Setting, list[int]] = {}
        for i, model in enumerate(self.models):
            found.setdefault(model.setting, []).append(i)
        return dict(sorted(found.items()))

    @property
    def known(self) -> dict[Setting, Known]:
        """What the next round of halving is decided from."""
        found = self.choice.agreements
        return {
            setting: Known(
                len(mine),
                tuple(self.models[i].active for i in mine),
                found[setting].above_typical if setting in found else math.nan,
            )
            for setting, mine in self.by_setting.items()
        }

    def score(self, setting: Setting) -> float:
        """Return the median UDR of a setting's models; NaN where fewer than two can be used."""
        found = self.choice.agreements.get(setting)
        return found.udr if found is not None else math.nan

    def agreement(self, setting: Setting) -> float:
        """Return how far a setting agrees, where 0 is chance and 1 is perfect; NaN as in `score`."""
        found = self.choice.agreements.get(setting)
        return found.value if found is not None else math.nan

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """One row per model, the best first."""
        import pandas as pd

        order = self.choice.order
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
