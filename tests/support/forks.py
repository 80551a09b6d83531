"""Processes forked from one that has imported the whole server.

Importing takes longer than all the rest of most commands, and of the start of a console. What tests
how a process starts uses `processes.ManagedProcess`, which starts a Python of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tickwheel_admin.cli import main

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tickwheel_admin.app", "tickwheel_admin.cli.commands"])


def begin_fork(output: Path, errors: Path | None = None) -> None:
    """To be called first in a forked process: where it writes, and that it ends with the tests."""
    threading.Thread(target=_end_with_the_tests, name="end-with-the-tests", daemon=True).start()
    for path, number in ((output, 1), (errors or output, 2)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)


def _end_with_the_tests() -> None:
    tests = multiprocessing.parent_process()
    assert tests is not None
    tests.join()
    os.kill(os.getpid(), signal.SIGKILL)


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], *, timeout_seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run `tickwheel` with these arguments in exactly this environment."""
    with tempfile.TemporaryDirectory(prefix="tickwheel-command-") as directory:
        output, errors = Path(directory, "output"), Path(directory, "errors")
        process = FORKS.Process(
            target=_run, args=(list(arguments), dict(environment), output, errors), daemon=True
        )
        process.start()
        process.join(timeout_seconds)
        code = process.exitcode
        process.kill()
        process.join()
        process.close()
        if code is None:
            raise subprocess.TimeoutExpired(list(arguments), timeout_seconds)
        return subprocess.CompletedProcess(
            list(arguments), code, output.read_text(), errors.read_text()
        )


def _run(arguments: list[str], environment: dict[str, str], output: Path, errors: Path) -> None:
    begin_fork(output, errors)
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(main(arguments))
