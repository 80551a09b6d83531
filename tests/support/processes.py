"""Real processes for tests: output in a file, waits with deadlines, no process left behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self, TypeVar

from tests.support.guarded_exec import KEEP_USER
from tests.support.polling import wait_until

T = TypeVar("T")

_GUARD = Path(__file__).with_name("guarded_exec.py")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago. Another process may still be quicker."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ProcessEndedError(AssertionError):
    """A process ended while a test waited for something it should do."""


class Child(Protocol):
    """What is needed of a `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int, /) -> None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int:
        """Raises `subprocess.TimeoutExpired`."""
        ...


class ManagedProcess:
    """A child that runs from construction to the end of the `with` block at most.

    It has a session of its own, so that Ctrl-C reaches only the test run. It gets `death_signal`
    then, and when the *thread* that started it ends: start it from one that outlives it. One that
    has processes of its own must be asked, not killed, or they would stay.
    """

    _death_signal = signal.SIGKILL

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        user: str | None = None,
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        """`environment` is added to the test run's own; `user` needs root."""
        self.name = Path(command[0]).name
        self.log = log
        self._death_signal = death_signal
        guard = [
            sys.executable,
            "-I",
            "-S",
            _GUARD,
            os.getpid(),
            death_signal.value,
            user or KEEP_USER,
        ]
        with log.open("ab") as output:
            self._process: Child = subprocess.Popen(
                [str(part) for part in (*guard, *command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | dict(environment or {}),
                cwd=directory,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        return self.returncode is None

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for_line(self, pattern: str, *, timeout_seconds: float = 10) -> re.Match[str]:
        """The first match in all that the process has written; `^` and `$` match at lines."""
        expression = re.compile(pattern, re.MULTILINE)

        def matched() -> re.Match[str] | None:
            # Asked before reading: what a process wrote just before it ended must still be found.
            was_running = self.is_running
            match = expression.search(self.output())
            if match is None and not was_running:
                raise ProcessEndedError(self._story("ended before it wrote " + repr(pattern)))
            return match

        match = self._wait(matched, timeout_seconds, what=repr(pattern))
        assert match is not None
        return match

    def wait_for_http(self, url: str, *, status: int = 200, timeout_seconds: float = 10) -> None:
        """Return when `url` answers with `status`."""

        def answered() -> bool:
            if not self.is_running:
                raise ProcessEndedError(self._story(f"ended before {url} answered {status}"))
            try:
                with urllib.request.urlopen(url, timeout=10) as response:
                    return bool(response.status == status)
            except urllib.error.HTTPError as error:
                error.close()
                return error.code == status
            except OSError:
                return False

        self._wait(answered, timeout_seconds, what=f"{status} from {url}")

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """`kill -9`, and reap it."""
        self._process.kill()
        self._process.wait(30)

    def stop(self, number: signal.Signals = signal.SIGTERM, *, timeout_seconds: float = 30) -> int:
        """Ask it to end and return its exit code; it is an error, and killed, if it does not."""
        self.send_signal(number)
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(
                self._story(f"still ran {timeout_seconds} s after {number.name}")
            ) from None

    def wait(self, *, timeout_seconds: float = 30) -> int:
        """The exit code of a process that ends by itself."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(self._story(f"still runs after {timeout_seconds} s")) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            # Killed, if it does not end in time: the test has its own words for what went wrong.
            with contextlib.suppress(ProcessLookupError, TimeoutError):
                self.stop(self._death_signal)

    def _wait(self, condition: Callable[[], T], timeout_seconds: float, what: str) -> T:
        try:
            return wait_until(condition, timeout_seconds=timeout_seconds, what=what)
        except TimeoutError as error:
            raise TimeoutError(self._story(str(error))) from None

    def _story(self, happened: str) -> str:
        code = self.returncode
        state = "running" if code is None else f"exit code {code}"
        return f"{self.name} (pid {self.pid}, {state}): {happened}\n{self.output()[-4000:]}"
