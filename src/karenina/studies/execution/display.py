"""How a study goes: a live panel on a terminal, a line per model elsewhere."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from karenina._console import plain_console, say, visible
from karenina.studies.execution.folder import Claimed, Folder, read_claim
from karenina.studies.execution.worker import Outcome
from karenina.studies.plan.plan import Point

_WIDE = 120  # columns of a terminal that has room for who works on a model
_NAMED = 5  # models of other processes that are waited for


class Tally:
    """Counts, rate and time left. Only models that we finished ourselves count for the rate."""

    def __init__(self, total: int):
        self.total, self.done, self.failed = total, 0, 0
        self.made, self.started = 0, time.monotonic()

    def start(self, done: int, failed: int) -> None:
        """What is there already, whoever made it."""
        self.done, self.failed = done, failed

    def add(self, outcome: Outcome) -> None:
        self.done += outcome.status in ("done", "found")
        self.failed += outcome.status == "failed"
        self.made += outcome.status in ("done", "failed")

    @property
    def left(self) -> int:
        return self.total - self.done - self.failed

    def pace(self, partly: float = 0.0) -> str:
        """partly: models' worth of work in those that are running."""
        made = self.made + partly
        hours = (time.monotonic() - self.started) / 3600
        if made <= 0 or not hours:
            return "time left not known yet"
        return f"{made / hours:,.0f} models/hour, {duration((self.left - partly) * 3600 * hours / made)} left"


class Lines:
    """One line for every model, and one whenever there is something else to wait for."""

    def __init__(self, tally: Tally, points: Mapping[str, Point], quiet: bool):
        self.tally, self.points, self.quiet = tally, points, quiet
        self.waited: set[tuple[str, int]] = set()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, point: Point | None, outcome: Outcome | None) -> None:
        if point is None or outcome is None:
            return
        self.tally.add(outcome)
        if outcome.status == "trained":
            self._print(f"{outcome.reason} in {outcome.seconds:.1f} s, now scored one by one")
        if outcome.status not in ("done", "failed"):
            return
        count = f"[{self.tally.done + self.tally.failed}/{self.tally.total}]"
        what = f"{outcome.seconds:.1f} s" if outcome.status == "done" else f"FAILED: {outcome.reason}"
        self._print(f"{count} {point.label}: {what} | {self.tally.pace()}")

    def _print(self, line: str) -> None:
        if not self.quiet:
            say(line)

    def wait(self, claims: Sequence[Claimed]) -> None:
        """Say for which models of other processes we wait, once for each that has them."""
        new = [claim for claim in claims if (claim.hash, claim.pid) not in self.waited]
        self.waited |= {(claim.hash, claim.pid) for claim in new}
        for claim in new[:_NAMED]:
            self._print(f"waiting for {self.points[claim.hash].label}: {claim.who} has it, {claim.at}")
        if len(new) > _NAMED:
            self._print(f"waiting for {len(new) - _NAMED} more models that other processes have")


class Panel:
    """Counts, a bar, and the models that are running, redrawn twice a second at most."""

    def __init__(self, folder: Folder, tally: Tally, points: Mapping[str, Point]):
        self.folder, self.tally, self.points = folder, tally, points
        self.failures: list[str] = []
        self.waiting = 0
        self.drawn = 0.0
        self.console = plain_console()

    def __enter__(self) -> "Panel":
        from rich.live import Live

        self.live = Live(self._render(), console=self.console, refresh_per_second=4, transient=False)
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.live.update(self._render())
        self.live.stop()

    def wait(self, claims: Sequence[Claimed]) -> None:
        self.waiting = len(claims)
        self.live.update(self._render())

    def update(self, point: Point | None, outcome: Outcome | None) -> None:
        if point is not None and outcome is not None:
            self.waiting *= outcome.status == "busy"
            self.tally.add(outcome)
            if outcome.status == "failed":
                self.failures = [*self.failures, f"{point.label}: {outcome.reason}"][-3:]
        if time.monotonic() - self.drawn > 0.5:
            self.live.update(self._render())
            self.drawn = time.monotonic()

    def _render(self) -> Any:
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        claims = [claim for name in self.folder.names("claims") if (claim := read_claim(self.folder.path, name))]
        partly = sum(claim.step / max(claim.steps, 1) for claim in claims)
        tally = self.tally
        head = f"{tally.done} done, {len(claims)} running, {tally.failed} failed, of {tally.total}"
        pace = tally.pace(partly)
        width = self.console.width
        head += f"; {pace}" if len(head) + 2 + len(pace) <= width else f"\n{pace}"
        if self.waiting:
            head += f"\nwaiting for {self.waiting} that other processes have"
        # One line for each model, whose label is cut where the terminal ends; who works on it only where there is room.
        running = Table.grid(padding=(0, 2), expand=True)
        running.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        running.add_column(no_wrap=True, justify="right")
        for claim in sorted(claims, key=lambda claim: claim.started)[:16]:
            point = self.points.get(claim.hash)
            at = f"{claim.at}, {claim.who}" if width >= _WIDE else claim.at
            running.add_row("  " + (point.label if point else claim.hash), at)
        bar = ProgressBar(total=tally.total, completed=tally.done + tally.failed, width=min(60, width))
        failures = [
            Text(visible(f"failed: {line}"), style="red", overflow="ellipsis", no_wrap=True) for line in self.failures
        ]
        return Group(Text(head), Padding(bar, 0), running, *failures)  # a bar by itself does not end its line


def display(folder: Folder, tally: Tally, points: Mapping[str, Point], quiet: bool) -> "Panel | Lines":
    if sys.stdout.isatty() and not quiet:
        return Panel(folder, tally, points)
    return Lines(tally, points, quiet)


def duration(seconds: float) -> str:
    """A length of time for people.

    >>> duration(42), duration(90 * 60), duration(86400 * 30), duration(3e9)
    ('42 s', '90 min', '30 days', '95 years')
    """
    for limit, unit, name in (
        (100, 1, "s"),
        (100 * 60, 60, "min"),
        (48 * 3600, 3600, "h"),
        (400 * 86400, 86400, "days"),
    ):
        if seconds < limit:
            value = seconds / unit
            return f"{value:.0f} {name}" if value >= 10 or unit == 1 else f"{value:.1f} {name}"
    return f"{seconds / (365.25 * 86400):.0f} years"
