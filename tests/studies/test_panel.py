"""The panel of a study on a narrow terminal."""

import io
from types import SimpleNamespace

from karenina._console import plain_console
from karenina.studies import runner
from karenina.studies.study import Claimed


def rendered(width, monkeypatch):
    label = "dsprites, annealed_vae c_max=25 gamma=1000 iteration_threshold=100000, 10 latents, seed {}"
    points = {str(i): SimpleNamespace(label=label.format(i)) for i in range(2)}
    claims = {name: Claimed(name, "a-long-host-name", 12345, 1200, 300_000, 0.0) for name in points}
    monkeypatch.setattr(runner, "read_claim", lambda path, name: claims[name])
    tally = runner.Tally(1800)
    tally.made, tally.done, tally.failed, tally.started = 40, 40, 1, tally.started - 3600
    panel = runner.LivePanel(SimpleNamespace(path=None, names=lambda what: list(points)), tally, points)
    panel.failures = [f"{label.format(7)}: the loss grew from 12 to 1e9 by step 200: try a smaller learning rate"]
    screen = plain_console(file=io.StringIO(), width=width, color_system=None)
    panel.console = screen
    screen.print(panel._render())
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


def test_one_line_for_each_model_at_80_columns(monkeypatch):
    lines = rendered(80, monkeypatch)
    assert all(len(line) <= 80 for line in lines)
    assert lines[0] == "40 done, 2 running, 1 failed, of 1800; 40 models/hour, 44 h left"
    running = [line for line in lines if "step 1,200 of 300,000" in line]
    assert len(running) == 2
    assert all(line.startswith("  dsprites, annealed_vae") and "…" in line for line in running)
    assert len(lines) == 5  # counts, bar, two models, one failure


def test_more_is_said_where_there_is_room(monkeypatch):
    lines = rendered(160, monkeypatch)
    assert sum("process 12345 on a-long-host-name" in line for line in lines) == 2
    narrow = rendered(60, monkeypatch)
    assert narrow[:2] == ["40 done, 2 running, 1 failed, of 1800", "40 models/hour, 44 h left"]
