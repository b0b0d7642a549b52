"""Tables and figures of Carbonneau et al. (2022). All but figure 3 come from an audit in the study's folder."""

import shutil
import warnings
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from karenina.audit import EXPERIMENTS, Audit, characteristics, hyperparameters, read, run
from karenina.audit import table_1 as cases
from karenina.audit._hyperparameters import summary
from karenina.audit._rules import sampling_errors
from karenina.audit.running import TREES
from karenina.drawing.charts import colour, panel_grid
from karenina.drawing.figure import Figure
from karenina.papers.drawing import correlation_map
from karenina.papers.tables import PaperTable
from karenina.studies.analyses.correlations import agreement
from karenina.studies.study import NotEnough, Study

PROPERTIES = ("modularity", "compactness", "explicitness", "holistic")
LINES = ("-", "--", ":")
# Metrics of the paper, under the names of the registry.
METRICS = (
    *("z_diff", "z_min_variance", "z_max_variance", "irs", "dci_lasso", "dci_forest", "explicitness"),
    *("sap", "mig", "mig_sup", "jemmig", "modularity", "dcimig"),
)


def table_1(study: Study) -> PaperTable:
    _has(study, "redundancy")
    wide = cases(audit_of(study))
    protocol = _protocol(study)
    long = wide.loc[protocol].reset_index().melt(["metric", "property"], var_name="case", value_name="value")
    return PaperTable(long[["case", "metric", "property", "value"]], ("metric", "property"), ("case",), 1, _how(study))


def table_2(study: Study) -> PaperTable:
    """Return 1 where a metric has the virtue, 0 where not, by the rules of `karenina audit`; none where it does not
    apply."""
    lines = []
    for (protocol, metric, prop), cells in characteristics(audit_of(study)).items():
        if protocol != _protocol(study):
            continue
        for title, cell in cells.items():
            if cell.numbers:
                holds = {"✓": 1.0, "✗": 0.0}.get(str(cell)[:1], np.nan)
                lines.append((metric, prop, title, holds, str(cell)))
    metrics = list(dict.fromkeys(metric for _, metric, _ in audit_of(study).keys if metric not in TREES))
    moved = hyperparameters(metrics, [_protocol(study)], rows=1000)
    for (_, metric, prop), count, most, which in summary(moved):
        lines.append((metric, prop, "hyperparameters", float(count), f"{count}, up to {most:.2f} ({which})"))
        lines.append((metric, prop, "moved by them at most", most, which))
    frame = pd.DataFrame(lines, columns=["metric", "property", "virtue", "value", "cell"])
    note = (
        "1: the rule of `karenina audit` holds, 0: not. Hyperparameters: numbers that move the score when they are "
        "halved or doubled, and how far at most, on codes a fifth of which is noise."
    )
    return PaperTable(frame, ("metric", "property"), ("virtue",), 2, f"{note} {_how(study)}")


def figure_3(study: Study) -> Figure:
    """Draw Kendall's tau between the paper's metrics, a panel per data set."""
    frame = study.frame[study.frame["metric"].isin(METRICS)]
    if frame.empty:
        raise NotEnough('needs protocol = "carbonneau" under [evaluation] in study.toml, then `karenina study run`')
    return correlation_map(agreement(frame, "kendall"))


def figure_6(study: Study) -> Figure:
    """Draw (a) the relation of a factor and its code as it bends, and (b) the share of the codes in each of ten
    equal bins."""
    bend = EXPERIMENTS["nonlinear"]
    figure, (axes,) = panel_grid(1, 2, 3.4, 2.6)
    rng = np.random.default_rng(0)
    factor = np.tile(np.linspace(0, 1, 501)[:, None], (1, 8))
    for i, alpha in enumerate(bend.values):
        codes = bend.build(factor, alpha, rng)[0]
        axes[0].plot(factor[:, 0], codes[:, 0], color=colour(i), label=f"α = {alpha:g}")
    axes[0].set(xlabel="factor", ylabel="code")
    axes[0].legend(fontsize=6)
    uniform = rng.random((20_000, 8))
    for shift, alpha in ((-0.2, bend.values[0]), (0.2, bend.values[-1])):
        codes = bend.build(uniform, alpha, rng)[0][:, 0]
        shares = np.histogram(codes, bins=10)[0] / len(codes)
        axes[1].bar(np.arange(1, 11) + shift, shares, width=0.4, label=f"α = {alpha:g}", color=colour(int(shift > 0)))
    axes[1].set(xlabel="bin of the code", ylabel="share of the rows")
    axes[1].legend(fontsize=6)
    return figure


def _curves(study: Study, experiment: str) -> Figure:
    """Draw mean score against the experiment's parameter: a panel per property, a line per metric."""
    _has(study, experiment)
    audit, protocol = audit_of(study), _protocol(study)
    rows = [row for row in audit.keys if row[0] == protocol]
    shown = [prop for prop in PROPERTIES if any(row[2] == prop for row in rows)]
    about = EXPERIMENTS[experiment]
    figure, (axes,) = panel_grid(1, len(shown), 3.0, 2.8)
    for axis, prop in zip(axes, shown):
        for i, row in enumerate(row for row in rows if row[2] == prop):
            curve = audit.curve(*row, experiment)["mean"]
            if about.nested:  # the error against the whole sample
                curve = sampling_errors(audit, row).reindex(curve.index)
            axis.plot(range(len(curve)), curve, LINES[i // 8 % 3], color=colour(i), marker=".", label=row[1])
        labels = [f"{v:g}" if isinstance(v, int | float) else v for v in about.values]
        axis.set_xticks(range(len(labels)), labels, fontsize=6)
        axis.set_xlabel(about.parameter, fontsize=7)
        axis.set_title(prop, fontsize=8)
        axis.tick_params(labelsize=6)
        axis.legend(fontsize=5)
    axes[0].set_ylabel("error of the score" if about.nested else "score", fontsize=7)
    figure.suptitle(_how(study), fontsize=6)
    return figure


figure_4 = partial(_curves, experiment="noise")
figure_5 = partial(_curves, experiment="mixing")
figure_7 = partial(_curves, experiment="nonlinear")
figure_8 = partial(_curves, experiment="measured")
figure_9 = partial(_curves, experiment="samples")


@lru_cache(maxsize=1)
def audit_of(study: Study) -> Audit:
    """Return the audit in the study's folder: one that was asked for, or else a small one, made here."""
    asked, small = study.folder() / "audit", study.folder() / "audit_small"
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


def _has(study: Study, experiment: str) -> None:
    if experiment not in audit_of(study).about["experiments"]:
        raise NotEnough(f"needs the experiment {experiment}: {_command(study)}")


def _protocol(study: Study) -> str:
    found = list(dict.fromkeys(row[0] for row in audit_of(study).keys))
    return "carbonneau" if "carbonneau" in found else found[0]


def _how(study: Study) -> str:
    about = audit_of(study).about
    seeds = f"{about['seeds']} {'seed' if about['seeds'] == 1 else 'seeds'}"
    text = f"From an audit of {seeds} and {about['rows']:,} rows, protocol {_protocol(study)}."
    return text if about["seeds"] > 1 else f"{text} The paper's size: {_command(study)}."


def _command(study: Study) -> str:
    return f"`karenina audit --protocol carbonneau --full --seeds 100 --out {study.folder() / 'audit'}`"
