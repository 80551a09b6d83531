"""Executors made with the client libraries of XXL-JOB, unmodified, as processes for tests.

    with start(JAVA_2_4, tmp_path, admins=["http://127.0.0.1:8700/xxl-job-admin"], token="t") as e:
        e.url, e.events(), e.freeze(), e.stop(), …

`start` skips the test where the client's tools are not installed. Every program offers the same
handlers; README.md lists them, and what the clients do differently.
"""

from __future__ import annotations

import shutil
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tests.interop import builds
from tests.support.availability import unavailable
from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess, free_port

ROOT = Path(__file__).parents[2]
READY_SECONDS = 60
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What a client does in its own way; the defaults are what the clients in Java do."""

    registers: str = "http://{host}:{port}/"
    """The address that it registers."""
    checks_token: bool = True
    echoes_time: bool = True
    """Its results carry the time of the order; the others carry one of their own clock."""
    queues: bool = True
    """A second run of the same job waits at the executor; the others refuse it."""
    failed: str = "failed on purpose"
    """The message of the handler `fail`."""
    quotes: bool = False
    """Its messages are JSON."""
    killed: int = 500
    timed_out: int = 502
    """Code of the result of such a run."""
    side_by_side: bool = True
    """It keeps runs of one handler apart; the others get one at a time."""
    stopped: str = "failed"
    """What becomes of a run of some seconds when its process is told to end."""
    sends_again: bool = True
    """It keeps a result until an admin took it; the others lose or change it."""
    exit_code: int = 0
    """After SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A library and a program that uses it."""

    name: str
    dialect: str
    """A, B or C: what it says to admins, and understands from them."""
    tools: tuple[str, ...]
    """Programs that must be installed to build and run it."""
    build: Callable[[], Path]
    command: Callable[[Path], Sequence[str | Path]]
    manner: Manner

    def missing(self) -> str | None:
        """Why it cannot be used here, in words; None if it can."""
        lacking = [tool for tool in self.tools if shutil.which(tool) is None]
        return f"{self.name} needs {', '.join(lacking)}" if lacking else None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the record that every handler writes into."""

    what: str
    """start; then end, or stop if the handler left early: by an exception, or because of a kill."""
    log_id: int
    handler: str
    parameter: str


class RunningClient:
    """An executor in a process of its own, which ends with the `with` block at the latest."""

    def __init__(
        self, client: Client, directory: Path, *, port: int, command: Sequence[str | Path],
        environment: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.client = client
        self.port = port
        self.url = client.manner.registers.format(host=HOST, port=port)
        self.record = directory / "record"
        starts = len(list(directory.glob("output-*")))
        self.process = ManagedProcess(
            command,
            directory / f"output-{starts + 1}",  # its own: the last one says "ready" already
            environment=environment,
            directory=directory,
        )

    def wait_until_ready(self) -> None:
        """Return when it listens; it registers at about the same time."""
        self.process.wait_for_line("^interop ready", timeout_seconds=READY_SECONDS)
        wait_until(lambda: _listens(self.port), what=f"{self.client} to listen")

    def events(self, *, log_id: int | None = None) -> list[Event]:
        """What its handlers did, in order; nothing is missing and nothing is there twice."""
        if not self.record.exists():
            return []
        lines = self.record.read_text(encoding="utf-8").splitlines()
        found = [line.split(" ", 3) for line in lines]
        events = [Event(what, int(number), name, text) for what, number, name, text in found]
        return [event for event in events if log_id in (None, event.log_id)]

    def starts(self, log_id: int) -> int:
        return sum(event.what == "start" for event in self.events(log_id=log_id))

    def output(self) -> str:
        """What it wrote to standard output and error, for the story of a failure."""
        return self.process.output()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()

    def stop(self) -> int:
        """End it as an operator does, by SIGTERM, and return its exit code."""
        return self.process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__()


def prepared(client: Client) -> Path:
    """Build it unless that is done; skip the test if this machine cannot."""
    if reason := client.missing():
        # Not `unavailable`: CI tests the clients whose tools it has.
        pytest.skip(reason)
    try:
        return client.build()
    except builds.BuildError as error:
        unavailable(f"{client.name} could not be built: {error}")


def start(
    client: Client,
    directory: Path,
    *,
    admins: Sequence[str],
    token: str,
    app: str = "interop",
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> RunningClient:
    """A process of this client, ready to be called.

    Args:
        directory: its own: output, logs of its runs and the record stay there. An executor that is
            started again gets the same.
        admins: with the base path and no slash at the end; only Java and our own use more than one.
        port: that of the executor it replaces; a free one otherwise.
        environment: added to that of the process.
    """
    built = prepared(client)
    directory.mkdir(parents=True, exist_ok=True)
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    port = port or free_port()
    running = RunningClient(
        client,
        directory,
        port=port,
        command=client.command(built),
        environment={
            "INTEROP_ADMINS": ",".join(admins),
            "INTEROP_TOKEN": token,
            "INTEROP_APP": app,
            "INTEROP_HOST": HOST,
            "INTEROP_PORT": str(port),
            "INTEROP_LOGS": str(logs),
            "INTEROP_RECORD": str(directory / "record"),
            **(environment or {}),
        },
    )
    try:
        running.wait_until_ready()
    except BaseException:
        running.__exit__()
        raise
    return running


def _java(version: str, dialect: str) -> Client:
    sources = builds.SOURCES / "java"
    return Client(
        name=f"java-{version}",
        dialect=dialect,
        tools=("java", "javac", "mvn"),
        build=lambda: builds.cached(f"java-{version}", sources, builds.maven(version), key=version),
        command=lambda built: [
            *("java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
            *("-cp", f"{built}/classes:{built}/lib/*", "interop.Program"),
        ],
        manner=Manner(
            exit_code=128 + signal.SIGTERM, stopped="succeeded" if dialect == "B" else "failed"
        ),
    )


def _own(dialect: str) -> Client:
    return Client(
        name=f"own-{dialect}",
        dialect=dialect,
        tools=(),
        build=lambda: ROOT,
        command=lambda _: [sys.executable, builds.SOURCES / "dialect_c.py", dialect],
        manner=Manner(stopped="succeeded"),
    )


JAVA_2_4 = _java("2.4.2", "A")
JAVA_3_2 = _java("3.2.0", "A")
JAVA_3_3 = _java("3.3.2", "B")
GO = Client(
    name="go-1.2.0",
    dialect="A",
    tools=("go",),
    build=lambda: builds.cached("go", builds.SOURCES / "go", builds.go),
    command=lambda built: [built / "program"],
    manner=Manner(
        registers="http://{host}:{port}",
        checks_token=False,
        queues=False,
        side_by_side=False,
        failed="task panic:failed on purpose",
        killed=200,
        timed_out=200,
        stopped="lost",
        sends_again=False,
    ),
)
PYXXL = Client(
    name="pyxxl-0.4.8",
    dialect="A",
    tools=(),
    build=lambda: builds.cached(
        "pyxxl", builds.SOURCES / "python", builds.pip, key=sys.version + sys.prefix
    ),
    command=lambda built: [built / "bin/python", builds.SOURCES / "python/program.py"],
    manner=Manner(
        registers="http://{host}:{port}",
        checks_token=False,
        echoes_time=False,
        timed_out=500,
        stopped="lost",
        sends_again=False,
    ),
)
NODE = Client(
    name="node-0.1.2",
    dialect="A",
    tools=("node", "npm"),
    build=lambda: builds.cached("node", builds.SOURCES / "node", builds.npm),
    command=lambda built: ["node", built / "program.cjs"],
    manner=Manner(
        registers="http://{host}:{port}/job",
        echoes_time=False,
        queues=False,
        quotes=True,
        killed=200,
        timed_out=500,
        stopped="lost",
        sends_again=False,
    ),
)
OWN_C = _own("C")

CLIENTS = (JAVA_2_4, JAVA_3_2, JAVA_3_3, GO, PYXXL, NODE, OWN_C)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
