"""What UDR returns."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina._notebook import table
from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.resampling import medians

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of M models, higher is better; NaN for a model that could not be compared.

    scores (M,). interval (M, 2): 95 % interval of the median over all partners that a model could have had; NaN with
    fewer than 6 partners, see `intervals`. informative (M,): number of active latents, those with a KL
    above `kl_threshold`. groups: the label of each model. matrices: |R| (L_i, L_j) of each (target i, source j), if
    kept. Pairs are stored by target: partners of model i are sources[start[i]:start[i + 1]], and values there are
    UDR_ij.
    """

    scores: Floats
    interval: Floats
    informative: Ints
    groups: tuple[Hashable, ...]
    start: Ints
    sources: NDArray[np.int32]
    values: Floats
    matrices: Mapping[tuple[int, int], Floats] | None = None
    kl_threshold: float = ACTIVE_KL

    def __len__(self) -> int:
        return len(self.scores)

    @cached_property
    def pairwise(self) -> Floats:
        """UDR_ij (M, M) of target i and source j; NaN for pairs that were not compared. Made when first asked for."""
        out = np.full((len(self), len(self)), np.nan)
        out[np.repeat(np.arange(len(self)), np.diff(self.start)), self.sources] = self.values
        return out

    def intervals(self, confidence: float) -> Floats:
        """Intervals (M, 2) of another confidence: 0.93 needs 5 partners, 0.87 needs 4."""
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1; got {confidence}")
        return medians(self.start, self.values, confidence)[1]

    @property
    def order(self) -> Ints:
        """Models from best to worst, those without a score last."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def best(self) -> int:
        """The model with the highest score, of those with an active latent."""
        if not len(self._able):
            raise ValueError("no model has both a score and an active latent, so none is best")
        return int(self._able[0])

    @property
    def best_per_informative(self) -> dict[int, int]:
        """The best model for each number of active latents: UDR does not reward finding more factors."""
        found: dict[int, int] = {}
        for model in self._able:
            found.setdefault(int(self.informative[model]), int(model))
        return dict(sorted(found.items()))

    @property
    def _able(self) -> Ints:
        """Models with a score and an active latent, from best to worst."""
        return self.order[(self.informative[self.order] > 0) & np.isfinite(self.scores[self.order])]

    @property
    def frame(self) -> "pd.DataFrame":
        """One row per model, best first: model, group, score, low, high, active, partners."""
        import pandas as pd

        found = pd.DataFrame(
            {
                "model": np.arange(len(self)),
                "group": pd.Series(self.groups, dtype=object),
                "score": self.scores,
                "low": self.interval[:, 0],
                "high": self.interval[:, 1],
                "active": self.informative,
                "partners": np.diff(self.start),
            }
        )
        return found.iloc[self.order].reset_index(drop=True)

    def _repr_html_(self) -> str:
        frame = self.frame
        caption = f"active: latents with a KL above {self.kl_threshold:g} nats"
        return table(frame.columns, frame.itertuples(index=False), caption)

    def __str__(self) -> str:
        lines = self.frame.to_string(float_format="{:.3f}".format)
        return f"{lines}\nactive: latents with a KL above {self.kl_threshold:g} nats"
