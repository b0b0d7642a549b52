import contextlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `planted`, the representations that tests share

# One thread, before numpy is loaded: results must not depend on it, and small problems are faster with one.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop("KARENINA_DATA", None)


@pytest.fixture(scope="session")
def command():
    """The command line without the second that a process of its own takes to import: command("data", "list")."""
    from karenina.cli import main

    def run(*words, cwd="."):
        with (
            contextlib.chdir(cwd),
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
            mock.patch.object(sys, "argv", ["karenina", *map(str, words)]),
            mock.patch.object(warnings, "showwarning"),
            mock.patch.dict(os.environ),
        ):
            try:
                main()
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    return run
