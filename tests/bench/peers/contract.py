"""What a peer program is told, and what it writes: README.md has it in words.

Only the standard library, so that a program of another virtual environment can import it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PREFIX = "PEER_"
READY, CANNOT, UNKNOWN = "ready", "cannot", "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One measurement, as the program finds it in its environment."""

    schedules: int  # numbered from 0
    due_at: int  # UTC epoch ms, a full second: every schedule fires first at this instant
    period_ms: int | None  # … and then again and again; None: only once
    database_url: str  # SQLAlchemy's form; an empty database of the program's own
    broker_url: str | None  # of a Redis server of the program's own, where one is installed
    directory: Path  # for files of the program's own
    output: Path

    def environment(self) -> dict[str, str]:
        """The variables that hold it."""
        return {
            f"{_PREFIX}SCHEDULES": str(self.schedules),
            f"{_PREFIX}DUE_AT": str(self.due_at),
            f"{_PREFIX}PERIOD_MS": str(self.period_ms or ""),
            f"{_PREFIX}DATABASE_URL": self.database_url,
            f"{_PREFIX}BROKER_URL": self.broker_url or "",
            f"{_PREFIX}DIRECTORY": str(self.directory),
            f"{_PREFIX}OUTPUT": str(self.output),
        }

    @classmethod
    def from_environment(cls) -> Self:
        """What the bench asks of this program."""
        given = {name: os.environ[_PREFIX + name] for name in _NAMES}
        return cls(
            schedules=int(given["SCHEDULES"]),
            due_at=int(given["DUE_AT"]),
            period_ms=int(given["PERIOD_MS"]) if given["PERIOD_MS"] else None,
            database_url=given["DATABASE_URL"],
            broker_url=given["BROKER_URL"] or None,
            directory=Path(given["DIRECTORY"]),
            output=Path(given["OUTPUT"]),
        )


_NAMES = ("SCHEDULES", "DUE_AT", "PERIOD_MS", "DATABASE_URL", "BROKER_URL", "DIRECTORY", "OUTPUT")


class Output:
    """The file that the program and its handlers append to, each line by one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def ready(self, about: str) -> None:
        """Every schedule is stored; `about`: name, version and what is done here."""
        self._write(f"{READY} {about}")

    def cannot(self, why: str) -> None:
        """This measurement is not possible with this program."""
        self._write(f"{CANNOT} {why}")

    def started(self, schedule: int, nominal_at: int | None = None) -> None:
        """The first thing a handler does.

        Args:
            nominal_at: the instant that it runs for, in ms; None: it is not told.
        """
        now = time.time_ns() // 1_000_000
        self._write(f"{schedule} {UNKNOWN if nominal_at is None else nominal_at} {now}")

    def _write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


def wait_for_the_end() -> None:
    """Return when the bench has seen enough: it sends SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
