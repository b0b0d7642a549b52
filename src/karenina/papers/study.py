"""What a producer may read: the results of a study and, where there is one, its folder."""

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from karenina._active import ACTIVE_KL
from karenina.metrics.registry import DCI_PARTS
from karenina.studies.results.table import (
    TASK,
    UNSUPERVISED,
    NotEnough,
    Scores,
    read_codes,
    read_parquet,
    results,
    wide_table,
)

if TYPE_CHECKING:
    from karenina.audit import Audit
    from karenina.data import DataSet
    from karenina.studies.plan.plan import Plan
    from karenina.training import Run

Metrics = Mapping[str, tuple[str, str]]  # the paper's name -> metric and property in the results

BETAVAE: Metrics = {"BetaVAE score": ("z_diff", "modularity")}
FACTORVAE: Metrics = {"FactorVAE score": ("z_min_variance", "modularity")}
MIG: Metrics = {"MIG": ("mig", "compactness")}
DCI: Metrics = {"DCI Disentanglement": ("dci_boosted", "modularity")}


@dataclass(eq=False)
class Study:
    """frame: as `karenina.results` gives it. path: the folder, or None for results alone. notes: what outputs lack."""

    frame: pd.DataFrame
    path: Path | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path) -> "Study":
        return cls(results(path), path)

    def words_of(self, metrics: Metrics) -> pd.DataFrame:
        """The results with these metrics alone, under the paper's names; scores without labels and tasks as they are.

        NotEnough where the study has none of them. A note says which are missing.
        """
        whole = self.frame[self.frame["factor"] == ""]
        kept = [whole[whole["family"].isin([*UNSUPERVISED, TASK])]]
        missing = []
        for name, (metric, prop) in metrics.items():
            rows = whole[(whole["metric"] == metric) & whole["property"].isin([prop, DCI_PARTS.get(prop), ""])]
            if rows.empty:
                missing.append(metric)
            kept.append(rows.assign(metric=name))
        if missing:
            text = f"{', '.join(missing)} under [evaluation] metrics in study.toml, then `karenina study run`"
            if len(missing) == len(metrics):
                raise NotEnough(f"needs {text}")
            self.note(f"without {text}")
        return pd.concat(kept, ignore_index=True)

    def scores_of(self, metrics: Metrics) -> Scores:
        return wide_table(self.words_of(metrics))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def folder(self) -> Path:
        if self.path is None or not (self.path / "study.toml").exists():
            raise NotEnough("needs the folder of a study with its runs: `karenina study run` makes one")
        return self.path

    @cached_property
    def plan(self) -> "Plan":
        from karenina.studies.execution.folder import Folder

        return Folder(self.folder()).plan()

    @property
    def kl_threshold(self) -> float:
        """Above which KL a latent is active, in nats: as the study says, and as usual for results alone."""
        there = self.path is not None and (self.path / "study.toml").exists()
        return self.plan.selection.kl_threshold if there else ACTIVE_KL

    def extra(self, name: str, remedy: str) -> pd.DataFrame:
        """Another table of the study by its name; `remedy` says how to get it."""
        file = self.path / f"{name}.parquet" if self.path is not None else None
        if file is None or not file.exists():
            raise NotEnough(f"needs {name}.parquet: {remedy}")
        return read_parquet(file).to_pandas()

    def codes(self, run: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Codes (n, L) and KLs (L,) of a run."""
        from karenina.studies.execution.folder import Folder

        self._there(run)
        return read_codes(Folder(self.folder()), self.plan, run)

    def run(self, name: str) -> "Run":
        """A trained model."""
        import karenina.training

        self._there(name)
        return karenina.training.open(self.folder() / "runs" / name)

    def _there(self, run: str) -> None:
        if not (self.folder() / "runs" / run / "codes.npy").exists():
            raise NotEnough("needs the trained models in runs/: `karenina study run` makes them again")

    def data(self, name: str) -> "DataSet":
        from karenina.evaluation.data import load_cached

        try:
            return load_cached(name)
        except (ValueError, OSError) as error:
            raise NotEnough(f"needs the data set {name}: {error}") from None

    def inputs(self, name: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        """The images and factors that the runs of a data set encoded."""
        from karenina.evaluation.data import inputs

        return inputs(self.data(name), self.plan.evaluation.rows, self.plan.evaluation.seed)

    @cached_property
    def audit(self) -> "Audit":
        """The audit in the study's folder: one that was asked for, or else a small one, made here."""
        from karenina.audit import read, run

        asked, small = self.folder() / "audit", self.folder() / "audit_small"
        if (asked / "scores.jsonl").exists():
            return read(asked)
        experiments = ["noise", "mixing", "redundancy", "nonlinear", "measured", "samples"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant codes and the like, which the experiments make on purpose
            given: dict[str, Any] = {"experiments": experiments, "seeds": 1, "rows": 1000, "out": small}
            try:
                return run(protocols=["carbonneau"], **given)
            except ValueError:  # of another version: it is ours and small, and made anew
                shutil.rmtree(small)
                return run(protocols=["carbonneau"], **given)
