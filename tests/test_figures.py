"""Words in figures are shown as they are, whatever their owner called things."""

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure as MatplotlibFigure
from PIL import Image

import karenina
from karenina.drawing.figure import Figure

PACKAGE = Path(karenina.__file__).parent
FORMULA = "$x_$"  # what matplotlib would take for a formula, and fail on


def shown(figure, path):
    figure.savefig(path, dpi=20)
    assert path.stat().st_size > 100


def test_no_word_is_cut_and_pictures_are_fit_to_print(tmp_path, monkeypatch, print_dpi):
    monkeypatch.setattr("karenina.drawing.figure.DPI", print_dpi)
    widths = []
    for words in ("x", "a factor whose name is long"):
        figure = Figure(figsize=(2, 1))
        figure.subplots().text(-0.1, 0.5, words, ha="right", fontsize=8)
        figure.savefig(tmp_path / "words.png")
        with Image.open(tmp_path / "words.png") as picture:
            widths.append(picture.width)
            assert round(picture.info["dpi"][0]) == 300
    assert widths[1] > widths[0] + 200


def test_a_figure_shows_words_and_no_formula(tmp_path):
    figure = Figure(layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], label=FORMULA)
    axis.set(title=FORMULA, xlabel=FORMULA)
    axis.set_xticks([0, 1], [FORMULA, r"\$ $a$"])
    axis.legend()
    for ending in ("png", "pdf", "svg"):
        shown(figure, tmp_path / f"figure.{ending}")
    plain = MatplotlibFigure()
    plain.suptitle(FORMULA)
    with pytest.raises(ValueError, match="Expected"):
        plain.savefig(tmp_path / "plain.png")


def test_every_figure_is_such_a_figure():
    """Nothing else in the package makes a figure."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            words = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            words += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if path != PACKAGE / "drawing" / "figure.py":
                assert not {"matplotlib.figure", "matplotlib.pyplot"} & set(words), path


@pytest.fixture(scope="module")
def named(tmp_path_factory, no_workers):
    """A study whose data set, factors and name look like formulas and like markup."""
    from karenina.studies import run
    from karenina.studies.plan import parse

    folder = tmp_path_factory.mktemp("named")
    images, factors = karenina.load("blobs").sample(300, np.random.default_rng(0))
    own = folder / "[b]$x_$.npz"
    np.savez(own, images=images, factors=factors, factor_names=[FORMULA, "[/b]", "$", r"\$_$"])
    plan = parse(
        f"name = '{FORMULA} [/b]'\ndata = ['{own}', 'blobs']\nseeds = 2\nsteps = 40\nlatents = 3\n"
        "[methods.beta_vae]\nbeta = [1, 8]\n"
        "[evaluation]\nmetrics = ['mig', 'sap', 'dci_lasso']\nrows = 200\n"
    )
    with no_workers():
        run(plan, folder / "lab", quiet=True)
    return folder / "lab", own


def test_a_study_and_its_page(named, tmp_path):
    """The page draws every analysis."""
    from karenina.pages.page import report

    page = report(named[0], tmp_path, files=True)
    assert "factors_" in page.read_text()
    assert len(list((tmp_path / "figures").glob("*.pdf"))) > 15


def test_pictures_of_runs_and_of_data(named, tmp_path):
    from karenina.data.dataset import draw_sheet
    from karenina.drawing.pictures import save_reconstructions
    from karenina.evaluation.ranking import plot_pairs, rank
    from karenina.metrics.scoring import plot_scores
    from karenina.pages.compare import compare
    from karenina.pages.page import show

    lab, own = named
    data = karenina.load(str(own))
    runs = [path for path in sorted((lab / "runs").iterdir()) if karenina.open(path).config.data == data.name]
    renamed = []
    for i, path in enumerate(runs):
        renamed.append(path.rename(path.with_name(f"{FORMULA} [b] {i}")))
    try:
        ranking = rank(renamed, "udr-a2a", rows=200, data=data, kl_threshold=0)
        plot_pairs(ranking, tmp_path / "pairs.png")
        compare(*renamed[:2], tmp_path / "compared", data=own)
        show(renamed[0], tmp_path / "shown", metrics=["mig"], data=own)
    finally:
        for path, back in zip(renamed, runs):
            path.rename(back)
    images, factors = data.sample(200, 0)
    save_reconstructions(karenina.open(runs[0]), images[:3], tmp_path / "reconstructions.png")
    codes = factors + np.random.default_rng(0).normal(size=factors.shape)
    plot_scores(
        karenina.score(codes, factors, ["mig", "dci_lasso"], factor_names=data.factor_names), tmp_path / "s.png"
    )
    draw_sheet(data, tmp_path / "sheet.png", columns=3)
    assert len(list(tmp_path.iterdir())) == 6


def test_curves_of_an_audit(tmp_path):
    from karenina import audit
    from karenina.audit.pages import plot

    def mine(codes, factors):
        return 0.5

    found = audit.run([], mine={FORMULA: mine}, experiments=["noise"], seeds=1, rows=200, workers=1)
    assert plot(found, "mine", ["noise"], tmp_path / "curves.png")


def test_long_names_leave_room_for_the_panels(tmp_path):
    from karenina.drawing.charts import draw
    from karenina.studies.analyses.by_setting import variance_explained_chart

    data = [f"/a/rather/long/path/that/goes/on/{'and on/' * 20}{name}.npz" for name in "ab"]
    frame = pd.DataFrame({"data": data, "method": "m", "score": "mig", "predictor": "method"})
    frame[["explained", "adjusted", "low", "high"]] = 0.5
    shown(draw(variance_explained_chart(frame)), tmp_path / "bars.png")


def test_a_logarithmic_axis_of_less_than_a_decade_has_ticks():
    from karenina.drawing.charts import Chart, Panel, Series, draw

    panel = Panel("", (Series("a", (0, 1, 2), (0.05, 0.1, 0.4)),), "beta", "nats", symlog=True)
    axis = draw(Chart("lines", (panel,))).axes[0]
    low, high = axis.get_ylim()
    assert sum(low <= tick <= high for tick in axis.get_yticks()) >= 3
