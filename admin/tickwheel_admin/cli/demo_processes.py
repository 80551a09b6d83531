"""The demo's child processes: started, watched, started again when they die, stopped in order.

A child that dies is started again: killing a node is the first thing one tries, and the runs it had
are what one wants to see. One that keeps dying stops the demo, because then something is wrong.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tickwheel_admin.cli.common import Failure

START_SECONDS = 30
STOP_SECONDS = 45  # nodes finish what they run, for at most 30 s
WATCH_SECONDS = 0.2
DEATHS_ALLOWED = 3  # of one child within a minute


@dataclass(slots=True, kw_only=True)
class _Child:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes]
    deaths: list[float] = field(default_factory=list)


class Children:
    """Processes with their logs in a directory. Stopped at the end of the `with` block."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: list[_Child] = []
        self._stopping = False
        self._at_once = False

    def stop(self) -> None:
        """Make `supervise` return; called a second time, stop at once. For signal handlers."""
        self._at_once = self._stopping
        self._stopping = True

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a child; its output goes to `<name>.log`."""
        log = self._directory / f"{name}.log"
        log.write_bytes(b"")
        self._children.append(
            _Child(
                name=name,
                command=command,
                environment=environment,
                log=log,
                process=_spawn(command, environment, log),
            )
        )

    def wait_for_http(self, name: str, url: str) -> None:
        """Return when `url` answers 200 or when told to stop; Failure when the child ends."""
        [child] = [child for child in self._children if child.name == name]
        deadline = time.monotonic() + START_SECONDS
        while not self._stopping and not _answers(url):
            if child.process.poll() is not None:
                raise Failure(f"the {name} did not start; {_last_words(child)}")
            if time.monotonic() > deadline:
                raise Failure(f"the {name} does not answer at {url}; {_last_words(child)}")
            time.sleep(WATCH_SECONDS)

    def supervise(self) -> int:
        """Watch over the children until told to stop; returns the exit code."""
        while not self._stopping:
            for child in self._children:
                if child.process.poll() is not None:
                    self._revive(child)
            time.sleep(WATCH_SECONDS)
        return self._stop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._children:
            if child.process.poll() is None:
                child.process.kill()
            child.process.wait()

    def _revive(self, child: _Child) -> None:
        now = time.monotonic()
        child.deaths = [at for at in child.deaths if now - at < 60] + [now]
        ended = f"{child.name} ended ({_ending(child.process.returncode)})"
        if len(child.deaths) > DEATHS_ALLOWED:
            raise Failure(f"{ended} again and again; {_last_words(child)}")
        print(f"{ended}; starting it again", flush=True)
        child.process = _spawn(child.command, child.environment, child.log)

    def _stop_all(self) -> int:
        print("\nStopping: nodes finish what they run. Ctrl-C again stops at once.", flush=True)
        # Nodes first, so that an admin is there to take their results.
        admin, *nodes = self._children
        clean = self._stop_some(nodes) and self._stop_some([admin])
        print("Stopped." if clean else "Stopped, not cleanly.", flush=True)
        return 0 if clean else 1

    def _stop_some(self, children: Sequence[_Child]) -> bool:
        for child in children:
            # It may have ended in this moment.
            with contextlib.suppress(ProcessLookupError):
                child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while any(child.process.poll() is None for child in children):
            if self._at_once or time.monotonic() > deadline:
                return False
            time.sleep(WATCH_SECONDS / 4)
        # One that had only just been started was ended by the signal itself, holding nothing.
        return all(child.process.returncode in (0, -signal.SIGTERM) for child in children)


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    # Settings of this shell are for other admins and nodes than the demo's.
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("TICKWHEEL_")
    }
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - our own programs, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=inherited | {"PYTHONUNBUFFERED": "1"} | dict(environment),
            start_new_session=True,  # Ctrl-C is for the demo, which stops them in order
        )


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - our own http URL
            return bool(response.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _last_words(child: _Child) -> str:
    lines = child.log.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines[-15:]:
        print(f"  {child.name} | {line}", file=sys.stderr)
    return f"its log is {child.log}"
