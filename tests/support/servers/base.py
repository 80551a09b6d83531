"""What private database servers have in common."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import sqlalchemy as sa

from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess, ProcessEndedError, free_port

START_TIMEOUT_SECONDS = 60
USER = "tickwheel"


class CommandFailedError(RuntimeError):
    """A program of the server's that runs to its end said that it failed."""


class DatabaseServer(ABC):
    """One running server. Without `durable` it skips fsyncs: a power cut would lose data."""

    name: ClassVar[str]
    system_user: ClassVar[str]
    """Who runs it when the tests run as root, as which these servers refuse to start."""
    death_signal: ClassVar[signal.Signals]
    """Ends it at once; also sent by the kernel when the test run dies."""
    address_in_use: ClassVar[str]

    def __init__(self, *, durable: bool = True, options: Sequence[str] = ()) -> None:
        """`options` are added to the server's command line."""
        self.durable = durable
        self.options = options
        self.password = secrets.token_hex(16)
        self._user = self.system_user if os.geteuid() == 0 else None
        self.directory = self._make_directory()
        self.log = self.directory / "server.log"
        self.port = 0
        self._process: ManagedProcess | None = None
        try:
            self._create_data()
            self._start_on_a_free_port()
            self._create_user()
        except BaseException:
            self.close()
            raise

    @classmethod
    @abstractmethod
    def is_installed(cls) -> bool: ...

    @abstractmethod
    def url(self, database: str) -> str:
        """The SQLAlchemy URL of a database for a user who owns it and nothing more."""

    @abstractmethod
    def create_database(self, name: str) -> None: ...

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Drop it though a test may have left connections to it."""

    @abstractmethod
    def end_other_connections(self, conn: sa.Connection) -> None:
        """End those to the same database that a test may have left."""

    def start(self) -> None:
        """Start on the data and the port it had; returns when a login succeeds."""
        self._process = ManagedProcess(
            self._command(),
            self.log,
            directory=self.directory,
            user=self._user,
            death_signal=self.death_signal,
        )
        process = self._process

        def ready() -> bool:
            if not process.is_running:
                raise ProcessEndedError(f"{self.name} did not start:\n{process.output()[-4000:]}")
            return self._accepts_logins()

        # A real login and not only an open port, which opens before the server can answer.
        wait_until(ready, timeout_seconds=START_TIMEOUT_SECONDS, what=f"{self.name} to start")

    def stop(self) -> None:
        """Shut down as an administrator would, ending the clients' connections."""
        if self._process is not None:
            self._process.stop(self._stop_signal, timeout_seconds=60)

    @property
    @abstractmethod
    def _stop_signal(self) -> signal.Signals: ...

    @abstractmethod
    def crash(self) -> None:
        """`kill -9` of the whole server."""

    @property
    def pid(self) -> int:
        """Of the running server's first process."""
        if self._process is None:
            raise ProcessEndedError(f"{self.name} has not been started")
        return self._process.pid

    def close(self) -> None:
        """End it at once and delete its data."""
        if self._process is not None and self._process.is_running:
            self._process.stop(self.death_signal)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _create_data(self) -> None: ...

    @abstractmethod
    def _create_user(self) -> None: ...

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _accepts_logins(self) -> bool: ...

    def _start_on_a_free_port(self) -> None:
        for attempts_left in (2, 1, 0):
            self.port = free_port()
            try:
                self.start()
            except ProcessEndedError as error:
                if self.address_in_use not in str(error) or not attempts_left:
                    raise
            else:
                return

    def _make_directory(self) -> Path:
        # Not pytest's tmp_path: only its owner may enter that, and it is long for a socket's path,
        # which may have 107 bytes.
        prefix = f"tickwheel-{self.name.lower()}-"
        _remove_leftovers(prefix)
        directory = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=_home()))
        directory.chmod(0o711)  # others may pass through to the socket, no more
        if self._user is not None:
            shutil.chown(directory, self._user, self._user)
        return directory

    def _run_once(self, *command: str) -> None:
        done = subprocess.run(
            command,
            cwd=self.directory,
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise CommandFailedError(f"{command[0]} failed:\n{done.stdout[-4000:]}")


def find_program(program: str) -> str | None:
    """Debian keeps servers out of an ordinary user's PATH."""
    folders = [os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]
    folders += sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return shutil.which(program, path=os.pathsep.join(folders))


def _home() -> Path:
    return Path(os.environ.get("TICKWHEEL_TEST_SERVER_DIRECTORY", tempfile.gettempdir()))


def _remove_leftovers(prefix: str) -> None:
    """Delete what test runs left behind that were killed before they could."""
    for directory in _home().glob(f"{prefix}*"):
        owner = directory.name.removeprefix(prefix).partition("-")[0]
        if owner.isdigit() and not _is_alive(int(owner)):
            shutil.rmtree(directory, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
