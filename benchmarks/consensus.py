"""How good a model the consensus chooses, on data that had no part in it, beside every other score without labels.

    python benchmarks/consensus.py plans FOLDER               # a study file for each data set
    karenina study run FOLDER/NAME.toml --out FOLDER/NAME     # each of them: 90 models, 15 to 50 minutes of a core
    python benchmarks/consensus.py page FOLDER [NAMES]        # the tables of docs/results/consensus.md

Gain: 0 is what a random choice gives on average, 1 what an oracle would, mean over the six metrics of Locatello et al.
(2019). "One of each": each setting is trained once, and all scores see these models alone; mean over draws. After ±
half of the 95 % interval, from leaving out one setting at a time, with all scores computed anew.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pages import DOCS, markdown, write_part
from scipy.ndimage import map_coordinates
from scipy.stats import spearmanr
from sklearn.datasets import load_digits

import karenina
from karenina.numerics.resampling import jackknife
from karenina.selection import factorised_support, orthogonality, udr
from karenina.selection._consensus import Consensus, consensus_of_active
from karenina.selection.choice import choose_from_codes
from karenina.training.run import decoder_jacobian

KL = 0.05
METRICS = ("z_diff", "z_min_variance", "mig", "modularity", "dci_boosted", "sap")
NAMES = ("BetaVAE score", "FactorVAE score", "MIG", "Modularity", "DCI", "SAP")
FOUND_ON = {"dsprites": "dsprites:side=16", "shapes3d": "shapes3d:side=16", "blobs": "blobs"}
JUDGED_ON = {
    "correlated": "dsprites:correlate=x+scale,sigma=0.2,side=16",
    "digits": "digits.npz",
    "noisy": "noisy_dsprites:side=16",
    "scream": "scream_dsprites:painting=scream.jpg,side=16",
    "teapots": "teapots:side=16",
    "color": "color_dsprites:side=16",
}
DRAWS = 20
DEFAULT, SEEDS_FIRST, BEST_UDR = "consensus", "consensus, settings that agree first", "udr_lasso_a2a"
PLAN = """name = "{name}"
data = "{data}"
network = "mlp"
latents = 10
steps = 6000
seeds = 3

[evaluation]
metrics = ["z_diff", "z_min_variance", "mig", "modularity", "dci_boosted.disentanglement", "sap"]
rows = 3000

[selection]
udr = ["udr_spearman"]

[methods]
beta_vae = {{ beta = [1, 4, 8, 16, 32, 48] }}
annealed_vae = {{ c_max = [2, 4, 6, 8, 12, 25], iteration_threshold = 3000, gamma = 100 }}
dip_vae_i = {{ lambda_od = [1, 5, 20, 50, 100, 500] }}
dip_vae_ii = {{ lambda_od = [1, 5, 20, 50, 100, 500] }}
beta_tcvae = {{ beta = [1, 4, 8, 16, 32, 48] }}
"""


def write_digits(file: Path) -> None:
    """Write handwritten threes of many hands, whose place, size and ground are factors; the hand is none."""
    rng = np.random.default_rng(20261118)
    ink = load_digits()
    hands = ink.images[ink.target == 3] / 16.0
    sizes, count = (6, 6, 4, 5), 20_000
    factors = np.stack([rng.integers(k, size=count) for k in sizes], 1)
    which, grid = rng.integers(len(hands), size=count), np.arange(16) + 0.5
    images = np.zeros((count, 16, 16), np.uint8)
    for i, (x, y, size, ground) in enumerate(factors):
        side = 6 + 1.2 * size
        columns, rows = ((grid - 5 - 6 * place / 5) / side * 8 + 3.5 for place in (x, y))
        drawn = map_coordinates(hands[which[i]], np.meshgrid(rows, columns, indexing="ij"), order=1, cval=0.0)
        images[i] = np.round(255 * (drawn + (1 - drawn) * (0.1 + 0.5 * ground / 4)))
    names = np.array(["x", "y", "size", "ground"])
    np.savez_compressed(file, images=images, factors=factors.astype(np.int64), factor_names=names)


class Models:
    """The models of a study: codes, activity, scores (M, 6) and whatever was measured of each without labels."""

    def __init__(self, folder: Path):
        about = []
        for file in sorted((folder / "scores").glob("*.json")):
            found = json.loads(file.read_text())
            run = folder / "runs" / found["run"]
            config = json.loads((run / "run.json").read_text())["config"]
            about.append(({k: v for k, v in config.items() if k != "seed"}, config["seed"], run, found["rows"]))
        self.settings = [json.dumps(one, sort_keys=True) for one, *_ in about]
        self.seeds = [seed for _, seed, *_ in about]
        self.runs = [run for _, _, run, _ in about]
        whole = [{row[0]: row[4] for row in reversed(rows) if row[3] == ""} for *_, rows in about]
        # A metric has no value where no latent varies: nothing is separated.
        self.scores = np.nan_to_num(np.array([[one[name] for name in METRICS] for one in whole], float))
        free = [row[0] for row in about[0][3] if row[1] == "label-free"]
        self.free = {name: np.array([one[name] for one in whole], float) for name in free}
        self.codes = [np.load(run / "codes.npy") for run in self.runs]
        self.kl = [np.load(run / "kl.npy") for run in self.runs]
        self.active = [kl > KL for kl in self.kl]
        own = [codes[:, on] for codes, on in zip(self.codes, self.active)]
        pair = [one if one.shape[1] > 1 else None for one in own]
        self.free["support"] = np.array([np.nan if one is None else -float(factorised_support(one)) for one in pair])
        self.free["orthogonality"] = np.array(
            [
                np.nan if one is None else _orthogonality(run, codes, on)
                for one, run, codes, on in zip(pair, self.runs, self.codes, self.active)
            ]
        )
        self._agreement: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.runs)

    def udr(self, similarity: str, models: np.ndarray, *, within: bool) -> np.ndarray:
        """Return UDR of these models among themselves, from the similarities of all pairs, which are found once."""
        if similarity not in self._agreement:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                found = udr(self.codes, self.kl, similarity=similarity, all_to_all=True, kl_threshold=KL)
            self._agreement[similarity] = found.pairwise
        pairs = self._agreement[similarity][np.ix_(models, models)].copy()
        np.fill_diagonal(pairs, np.nan)
        if within:
            names = np.array(self.settings)[models]
            pairs[names[:, None] != names[None]] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.nanmedian(pairs, axis=1)

    def consensus(self, models: np.ndarray, *, elbo: bool = False) -> Consensus:
        """Return the consensus of these models; without ELBO the first version of the rule."""
        own = [self.codes[i][:, self.active[i]] for i in models]
        return consensus_of_active(own, [self.active[i] for i in models], self.free["elbo"][models] if elbo else None)

    def choice(self, models: np.ndarray) -> np.ndarray:
        """Return the places of these models in what `rank` and `fit` say, which look at seeds first."""
        names = [self.settings[i] for i in models]
        codes, kl, elbo = [self.codes[i] for i in models], [self.kl[i] for i in models], self.free["elbo"][models]
        found = choose_from_codes(codes, kl, names, elbo=elbo, kl_threshold=KL)
        places = np.empty(len(models))
        places[found.order] = -np.arange(len(models))
        return places


def _orthogonality(run: Path, codes: np.ndarray, on: np.ndarray) -> float:
    return float(orthogonality(decoder_jacobian(karenina.open(run), codes[:64])[:, :, on]))


Selector = Callable[[Models, np.ndarray], np.ndarray]
SEEDS_LOOKED_AT: Selector = lambda models, some: models.choice(some)  # noqa: E731
SMALL = ("reconstruction", "kl", "total_correlation", "wasserstein", "mutual_information")


def selectors(free: list[str]) -> dict[str, Selector]:
    """Return every selector by its name."""

    def of_one(name: str) -> Selector:
        sign = -1 if name.startswith(SMALL) else 1
        return lambda models, some: sign * models.free[name][some]

    return {
        DEFAULT: lambda models, some: models.consensus(some, elbo=True).scores,
        "consensus without ELBO": lambda models, some: models.consensus(some).scores,
        "consensus: match alone": lambda models, some: models.consensus(some).matched,
        "consensus: independence alone": lambda models, some: models.consensus(some).independence,
        SEEDS_FIRST: SEEDS_LOOKED_AT,
        "udr_lasso_a2a": lambda models, some: models.udr("lasso", some, within=False),
        "udr_spearman_a2a": lambda models, some: models.udr("spearman", some, within=False),
        "udr_lasso": lambda models, some: models.udr("lasso", some, within=True),
        "udr_spearman": lambda models, some: models.udr("spearman", some, within=True),
        **{name: of_one(name) for name in free},
    }


def gains(models: Models, chosen: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the gain of these models by each metric, among those."""
    scores = models.scores[among]
    mean, best = scores.mean(axis=0), scores.max(axis=0)
    return (models.scores[chosen].mean(axis=0) - mean) / np.maximum(best - mean, 1e-12)


def best_of(values: np.ndarray, count: int = 1) -> np.ndarray:
    return np.argsort(-np.where(np.isfinite(values), values, -np.inf), kind="stable")[:count]


def draws(models: Models, left_out: str = "") -> list[np.ndarray]:
    """Return models of which each setting has one, drawn at random, the same whatever setting is left out."""
    rng, names = np.random.default_rng(0), sorted(set(models.settings))
    of = {name: [i for i, one in enumerate(models.settings) if one == name] for name in names}
    drawn = [{name: int(rng.choice(of[name])) for name in names} for _ in range(DRAWS)]
    return [np.array([i for name, i in one.items() if name != left_out]) for one in drawn]


def one_of_each(models: Models, selector: Selector, left_out: str = "") -> np.ndarray:
    """Return the gain by each metric of choosing among one model of each setting."""
    found = []
    for some in draws(models, left_out):
        values = selector(models, some)
        if not np.isfinite(values).any():
            return np.full(len(METRICS), np.nan)
        found.append(gains(models, some[best_of(values)], some))
    return np.mean(found, axis=0)


def with_labels(models: Models) -> dict[str, float]:
    """Return the gain, by the five others, of choosing by each metric among one model of each setting."""
    found = {}
    for j, name in enumerate(NAMES):
        others = [k for k in range(len(METRICS)) if k != j]
        each = [gains(models, some[best_of(models.scores[some, j])], some)[others].mean() for some in draws(models)]
        found[name] = float(np.mean(each))
    return found


def measure(models: Models, selector: Selector, *, interval: bool) -> dict[str, object]:
    """Return what a selector gains: one model of each setting, among all, the ten best; and its rank correlation."""
    every = np.arange(len(models))
    values = selector(models, every)
    if not np.isfinite(values).any():
        return {}
    known = np.isfinite(values)
    by_metric = one_of_each(models, selector)
    found: dict[str, object] = {
        "one": float(by_metric.mean()),
        "by_metric": dict(zip(NAMES, by_metric.round(3).tolist())),
        "all": float(gains(models, best_of(values), every).mean()),
        "ten": float(gains(models, best_of(values, 10), every).mean()),
        "correlation": float(np.mean([spearmanr(values[known], one[known])[0] for one in models.scores.T])),
    }
    if selector is SEEDS_LOOKED_AT:  # without seeds it orders models by the consensus alone
        found = {key: value for key, value in found.items() if key in ("all", "ten", "correlation")}
    if interval and np.isfinite(found["one"]):
        left = [one_of_each(models, selector, name).mean() for name in sorted(set(models.settings))]
        found["half"] = float(jackknife(np.array(left)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["plans", "measure", "page"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    sets = {**FOUND_ON, **JUDGED_ON}
    if given.task == "plans":
        given.folder.mkdir(parents=True, exist_ok=True)
        write_digits(given.folder / "digits.npz")
        for name, data in sets.items():
            (given.folder / f"{name}.toml").write_text(PLAN.format(name=name, data=data))
    elif given.task == "measure":
        for name in given.names or sets:
            if len(list((given.folder / name / "scores").glob("*.json"))) < 90:
                print(f"{name}: not finished")
                continue
            models = Models(given.folder / name)
            found = {"models": len(models), "labels": with_labels(models)}
            found["selectors"] = {
                one: measure(models, selector, interval=one in (DEFAULT, BEST_UDR))
                for one, selector in selectors(list(models.free)).items()
            }
            (given.folder / f"{name}.json").write_text(json.dumps(found, indent=1))
            chosen = {k: v for k, v in found["selectors"][DEFAULT].items() if k != "by_metric"}
            print(name, chosen, max(found["labels"].values()), flush=True)
    else:
        files = {name: given.folder / f"{name}.json" for name in sets}
        found = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
        (DOCS / "results" / "consensus.json").write_text(json.dumps(found, indent=1) + "\n")
        write_part("results/consensus.md", "benchmarks/consensus.py", page(found))


def page(found: dict[str, dict]) -> str:
    """Return the tables: what each score gains on each data set, by each metric, and among more models."""
    judged = [name for name in found if name in JUDGED_ON]
    every = judged + [name for name in found if name in FOUND_ON]
    header = [*judged, *(f"{name} (looked at)" for name in every[len(judged) :])]
    best = {name: max(one["labels"].values()) for name, one in found.items()}

    def gain(name: str, selector: str, key: str = "one") -> float:
        return found[name]["selectors"].get(selector, {}).get(key, np.nan)

    def mean(selector: str) -> float:
        return float(np.mean([gain(name, selector) for name in judged]))

    def cell(name: str, selector: str) -> str:
        half = found[name]["selectors"][selector].get("half")
        return f"{gain(name, selector):.2f}" + (f" ± {half:.2f}" if half is not None else "")

    names = [one for one in found[judged[0]]["selectors"] if np.isfinite(mean(one))]
    rows = [[one, f"{mean(one):.2f}", *(cell(name, one) for name in every)] for one in sorted(names, key=mean)[::-1]]
    for metric in NAMES:
        own = [found[name]["labels"][metric] for name in every]
        rows.append([f"{metric} (with labels)", *(f"{one:.2f}" for one in (np.mean(own[: len(judged)]), *own))])
    labels = np.mean([best[name] for name in judged])
    shares = {one: 100 * mean(one) / labels for one in (DEFAULT, BEST_UDR)}
    each = ", ".join(f"{name} {gain(name, DEFAULT):.2f} of {best[name]:.2f}" for name in judged)
    more = (DEFAULT, SEEDS_FIRST, "consensus without ELBO", BEST_UDR, "udr_lasso", "support", "elbo")
    keys = ("all", "ten", "correlation")
    metrics = [
        [one, name, *(f"{found[name]['selectors'][one]['by_metric'][metric]:.2f}" for metric in NAMES)]
        for one in (DEFAULT, BEST_UDR)
        for name in every
    ]
    among = [[one, *(", ".join(f"{gain(name, one, key):.2f}" for key in keys) for name in every)] for one in more]
    return "\n\n".join(
        [
            "### One model of each setting",
            f"The default gains {shares[DEFAULT]:.0f} % of what the best metric with labels gains on each data set "
            f"({each}), UDR of all to all {shares[BEST_UDR]:.0f} %.",
            markdown(["chosen by", "mean", *header], rows),
            "### By metric",
            markdown(["chosen by", "data", *NAMES], metrics),
            "### Among all models: the first, the mean of the first ten, and rank correlation with the metrics",
            markdown(["chosen by", *header], among),
        ]
    )


if __name__ == "__main__":
    main()
