"""Tables and figures of Holtz et al. (2022)."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from karenina.drawing.charts import colour, panel_grid, plain_ticks
from karenina.drawing.figure import Figure
from karenina.drawing.pictures import mosaic, show
from karenina.evaluation.scoring import NOISE
from karenina.papers.drawing import about, column, first_known, unique
from karenina.papers.duan2020.clustering.results import correlations
from karenina.papers.duan2020.tables import CLUSTERING, FAIRNESS, VERSIONS, clustering_rows
from karenina.papers.tables import BETAVAE, FACTORVAE, MIG, PaperTable, name
from karenina.selection._dynamics import dynamics as compare
from karenina.studies.analyses.correlations import dynamics, tasks
from karenina.studies.analyses.scores import wide_table
from karenina.studies.study import NotEnough, Study
from karenina.tasks._label_noise import REGIMES as OURS

METRICS = {**BETAVAE, **FACTORVAE, **MIG}
REGIMES = (1, 2, 3)
TRACES = "trace = true and two seeds of a setting in study.toml, then `karenina study run`"
SEEDS = 4  # in a picture


def table_1(study: Study) -> PaperTable:
    found = dynamics(study.words_of(METRICS), study.extra("dynamics", TRACES))
    found = found.rename(columns={"correlation": "value"})
    note = "± over draws of the seeds; with all seeds there is one draw, and the CSV has the interval over settings."
    return PaperTable(found, ("data", "score"), ("seeds",), note=note)


def table_2(study: Study) -> PaperTable:
    factors = ("shape", "scale", "orientation", "position")
    lines = [(regime, factor, p) for regime, shares in OURS.items() for factor, p in zip(factors, shares)]
    frame = pd.DataFrame(lines, columns=["regime", "factor", "value"])
    return PaperTable(frame, ("regime",), ("factor",), note="What `karenina.tasks.label_noise` does.")


def table_3(study: Study) -> PaperTable:
    """Return the Pearson correlation over models of each score under noise with that under true labels."""
    scores = wide_table(study.words_of(METRICS))
    noisy = wide_table(study.frame)
    if NOISE not in noisy.families:
        raise NotEnough('needs also = ["label_noise"] under [evaluation] in study.toml, then `karenina study run`')
    place = pd.Series(np.arange(len(noisy.runs)), index=noisy.runs["run"])[scores.runs["run"]].to_numpy()
    lines: list[tuple[str, str, int, float, int]] = []
    for (data,), rows in scores.groups("data"):
        for score, (metric, _) in METRICS.items():
            for regime in REGIMES:
                true = column(noisy, noise_name(metric, 0))[place][rows]
                x = true if np.isfinite(true).any() else column(scores, score)[rows]
                y = column(noisy, noise_name(metric, regime))[place][rows]
                both = np.isfinite(x) & np.isfinite(y)
                if both.any():
                    lines.append((data, score, regime, pearson(x[both], y[both]), int(both.sum())))
        for score in ("dynamics", *VERSIONS):
            known = int(np.isfinite(column(scores, score)[rows]).sum())
            lines += [(data, score, regime, 1.0, known) for regime in REGIMES if known]
    frame = pd.DataFrame(lines, columns=["data", "score", "regime", "value", "runs"])
    note = "UDR and the dynamics score read no labels: 1 by construction."
    return PaperTable(frame, ("data", "score"), ("regime",), note=note)


def noise_name(metric: str, regime: int) -> str:
    """Return the name that the score of a metric under wrong labels has in the results.

    >>> noise_name("mig", 2)
    'mig_noise_2'
    """
    return f"{metric}_noise_{regime}"


def pearson(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return Pearson's correlation; NaN of fewer than three pairs, or where a side is constant."""
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def table_4(study: Study) -> PaperTable:
    frame = study.words_of(METRICS) if len(study.frame) else study.frame  # a clustering study has agents alone
    parts = []
    if (frame["metric"] == "fairness_mean").any():
        found = tasks(frame)
        wanted = found["score"].isin(["dynamics", *VERSIONS, *METRICS]) & (found["task"] == "fairness_mean")
        parts.append(found[wanted].assign(task="unfairness"))
    if rows := clustering_rows(study):
        parts.append(_clustering(rows))
    else:
        study.note(f"without clustering, {CLUSTERING}")
    if not parts:
        raise NotEnough(f"needs {FAIRNESS}")
    both = pd.concat(parts, ignore_index=True).rename(columns={"correlation": "value"})
    return PaperTable(both, ("data", "score"), ("task",), note="Spearman; a better score should go with less of both.")


def _clustering(rows: list[dict[str, float]]) -> pd.DataFrame:
    names = {"udr_spearman": "udr_spearman", "dynamics": "dynamics", "mig": "MIG"}
    names |= {"z_diff": "BetaVAE score", "z_min_variance": "FactorVAE score"}
    found = correlations(rows, [score for score in names if score in rows[0]])
    lines = []
    for one in found:
        known = sum(row[one.score] is not None and np.isfinite(row[one.score]) for row in rows)
        lines.append(("clustering", "clustering", names[one.score], one.rho, *one.interval, known))
    return pd.DataFrame(lines, columns=["data", "task", "score", "correlation", "low", "high", "runs"])


def figure_1(study: Study) -> Figure:
    """Draw samples decoded from the prior: a panel per strength, of the first seed and the most latents."""
    study.folder()
    runs = about(study).sort_values(["strength", "latents", "seed"], ascending=[True, False, True])
    first = runs[runs["data"] == runs["data"].iloc[0]].drop_duplicates("strength")
    figure, axes = panel_grid(1, len(first), 2.4, 2.4)
    for axis, (run, row) in zip(axes[0], first.iterrows()):
        draws = np.random.default_rng(0).standard_normal((36, int(row["latents"]))).astype(np.float32)
        images = study.run(str(run)).decode(draws)
        show(axis, mosaic(images.reshape(6, 6, *images.shape[1:])))
        axis.set_title(f"{name(row['method'])} {row['parameters']}, {row['latents']} latents", fontsize=7)
    return figure


def figure_3(study: Study) -> Figure:
    """Draw embeddings of single seeds, then of all of them jointly, coloured by the position in the traced images."""
    runs, members = _traced(study)
    setting = runs.loc[members[0]]
    traces = [_trace(study, run) for run in members[:3]]
    alone = [compare([trace, trace]).planes[0][0, -1] for trace in traces]
    joint = compare(traces).planes[0]
    by, values = _positions(study, str(setting["data"]), len(alone[0]))
    figure, axes = panel_grid(1, len(traces) + 1, 2.5, 2.5)
    for axis, points, run in zip(axes[0], alone, members):
        _points(axis, points, values)
        axis.set_title(f"seed {runs.loc[run, 'seed']}", fontsize=8)
    for points in joint[:, -1]:
        _points(axes[0, -1], points, values)
    axes[0, -1].set_title("jointly", fontsize=8)
    what = f"{name(setting['method'])} {setting['parameters']}, {setting['latents']} latents"
    figure.suptitle(f"{what}; coloured by {by}", fontsize=8)
    return figure


def _positions(study: Study, data: str, count: int) -> tuple[str, NDArray[np.float64]]:
    """Return what points are coloured by, and its value for each traced image: x + y times the size of x, as in the
    paper."""
    found = study.data(data)
    if not found.labelled:
        return "image", np.arange(count, dtype=float)
    factors = found.sample(count, np.random.default_rng(0))[1].astype(float)  # as `karenina.train` draws them
    places = [found.factor_names.index(axis) for axis in ("x", "y") if axis in found.factor_names]
    if len(places) < 2:
        return found.factor_names[0], factors[:, 0]
    x, y = factors[:, places].T
    return "position", x + y * (x.max() + 1)


def figure_4(study: Study) -> Figure:
    """Draw mean MMD against the number of latents, a line per strength, and joint embeddings at the least strength, by
    seed above and by time below, a panel per number of latents."""
    scores = wide_table(study.frame)
    first_known(scores, ["dynamics"], TRACES)
    runs, _ = _traced(study)
    mmd = mean_mmd(study.frame)
    mmd = mmd[mmd["data"] == mmd["data"].iloc[0]]
    runs = runs[runs["data"] == mmd["data"].iloc[0]]
    least = runs["strength"].min()
    sizes = [n for n in sorted(unique(runs["latents"])) if len(_members(runs, least, n)) > 1][:4]
    figure = Figure(figsize=(3.2 + 2.5 * len(sizes), 5), layout="constrained")
    grid = figure.add_gridspec(2, 1 + len(sizes), width_ratios=[1.2] + [1] * len(sizes))
    left = figure.add_subplot(grid[:, 0])
    for i, (strength, line) in enumerate(mmd.groupby("strength")):
        left.plot(line["latents"], line["value"], marker=".", color=colour(i), label=f"{strength:g}")
    plain_ticks(left, sorted(set(mmd["latents"])), "log")
    left.set_xlabel("latents", fontsize=7)
    left.set_ylabel("mean MMD (less: more stable)", fontsize=7)
    left.legend(title="strength", fontsize=6, title_fontsize=6)
    left.tick_params(labelsize=6)
    for j, size in enumerate(sizes):
        members = _members(runs, least, size)[:SEEDS]
        planes = compare([_trace(study, run) for run in members]).planes[0]
        above, below = (figure.add_subplot(grid[i, j + 1]) for i in (0, 1))
        for i, (run, points) in enumerate(zip(members, planes)):
            label = f"seed {runs.loc[run, 'seed']}"
            above.plot(points[-1][:, 0], points[-1][:, 1], ".", color=colour(i), markersize=2, label=label)
            for time, at in enumerate(points):
                shade = np.full(len(at), time / max(len(points) - 1, 1))
                below.scatter(at[:, 0], at[:, 1], c=shade, cmap="viridis", vmin=0, vmax=1, s=2, linewidth=0)
        above.set_title(f"{size} latents, strength {least:g}", fontsize=7)
        for axis, words in ((above, "by seed"), (below, "by time, dark to bright")):
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_xlabel(words, fontsize=6)
    return figure


def mean_mmd(frame: pd.DataFrame) -> pd.DataFrame:
    """Return data, strength, latents, value: the mean MMD of each setting (minus its dynamics score), by its own
    latents."""
    found = frame[(frame["metric"] == "dynamics") & (frame["factor"] == "")]
    mean = -found.groupby(["data", "strength", "latents"])["value"].mean()
    return mean.rename("value").reset_index()


def _traced(study: Study) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs that have a trace, and those of them of one setting with at least two seeds."""
    folder = study.folder() / "runs"
    runs = about(study)
    runs = runs[[(folder / str(run) / "trace.npy").exists() for run in runs.index]]
    for _, part in runs.groupby(["data", "setting"], sort=False):
        if len(part) > 1:
            return runs, list(part.index)
    raise NotEnough(f"needs {TRACES}")


def _members(runs: pd.DataFrame, strength: float, latents: int) -> list[str]:
    """Return the runs of one setting."""
    found = runs[(runs["strength"] == strength) & (runs["latents"] == latents)]
    return list(found[found["setting"] == found["setting"].iloc[0]].index) if len(found) else []


def _trace(study: Study, run: str) -> NDArray[np.float32]:
    return study.array(run, "trace.npy")


def _points(axis: Axes, points: NDArray[np.floating], values: NDArray[np.float64]) -> None:
    if points.shape[-1] > 1:
        axis.scatter(points[:, 0], points[:, 1], c=values, cmap="viridis", s=6, linewidth=0)
    axis.set_xticks([])
    axis.set_yticks([])
