"""The command line. Heavy imports happen inside commands, so that `karenina --help` answers at once."""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from karenina._console import say
from karenina._process import exit_code, stops_heard
from karenina._version import __version__
from karenina.cli import audit, data, fit, report, score, study, train
from karenina.cli._common import App, complain

app = App(
    name="karenina",
    help="Train disentangled representations, measure them, and choose the best of many, with labels or without.",
)
app.add_typer(data.data_app, name="data")
app.add_typer(study.study_app, name="study")
COMMANDS: tuple[Callable[..., None], ...] = (
    train.train, score.score, score.rank, report.report, report.show, report.compare, report.demo, audit.audit,
    fit.fit, fit.encode, fit.export,
)  # fmt: skip
for command in COMMANDS:
    app.command()(command)


def _version(asked: bool) -> None:
    if asked:
        say(f"karenina {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _say(message: Any, *args: Any, **kwargs: Any) -> None:
    say(f"karenina: {message}", file=sys.stderr)


def main() -> None:
    """Run the command line. The user's own mistakes are one line and exit code 2, never a traceback."""
    warnings.showwarning = _say  # one line, without the place in our code
    # No Python that we start imports from the working directory: what lies there may be a stranger's.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        with stops_heard():
            code = app(prog_name="karenina", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, MemoryError) as error:
        if os.environ.get("KARENINA_DEBUG"):
            raise
        say(f"karenina: {str(error) or 'not enough memory'}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort) as stop:  # before a command began, or after
        say("karenina: stopped", file=sys.stderr)
        sys.exit(exit_code(stop))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        sys.exit(complain(error))
