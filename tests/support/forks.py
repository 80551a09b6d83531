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
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.support.processes import ManagedProcess
from tickwheel_admin.cli import main

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.warm_admin"])


def begin_fork(output: Path, errors: Path | None = None) -> None:
    """To be called first in a forked process: where it writes, and that it ends with the tests."""
    threading.Thread(target=_end_with_the_tests, name="end-with-the-tests", daemon=True).start()
    os.setsid()  # so that Ctrl-C reaches only the test run
    for path, number in ((output, 1), (errors or output, 2)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)


def _end_with_the_tests() -> None:
    tests = multiprocessing.parent_process()
    assert tests is not None
    tests.join()
    os.kill(os.getpid(), signal.SIGKILL)


class ForkedCommand(ManagedProcess):
    """`tickwheel` with these arguments, until the end of the `with` block at the latest."""

    def __init__(
        self, arguments: Sequence[str], log: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment` is added to the test run's own."""
        self.name = f"tickwheel {arguments[0]}"
        self.log = log
        log.touch()
        settings = os.environ | dict(environment or {})
        self._process = _Fork(FORKS.Process(target=_run, args=(arguments, settings, log, log)))


class _Fork:
    """A forked process, to be used like a `subprocess.Popen`."""

    def __init__(self, process: ForkServerProcess) -> None:
        process.start()
        self._process = process
        assert process.pid is not None
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], *, timeout_seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run `tickwheel` with these arguments in exactly this environment."""
    with tempfile.TemporaryDirectory(prefix="tickwheel-command-") as directory:
        output, errors = Path(directory, "output"), Path(directory, "errors")
        process = FORKS.Process(
            target=_run, args=(arguments, dict(environment), output, errors), daemon=True
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


def _run(
    arguments: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path
) -> None:
    begin_fork(output, errors)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(main(list(arguments)))
