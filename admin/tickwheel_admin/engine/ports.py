"""What the engine needs of the ways to nodes: `links`, `xxl_job` and the simulator have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.domain.runs.run import Move, Run
from tickwheel_admin.store.executors.nodes import Arrival as Arrival
from tickwheel_shared.protocol import FromNode, LogChunk, Message, RunKey, RunRequest
from tickwheel_shared.trace_context import TraceContext


@dataclass(frozen=True, slots=True)
class ClaimTime:
    """When the transaction was that gave a node its runs."""

    at_ms: int  # by the database's clock: `dispatched_at` of the runs
    asked_at: float  # by the event loop's clock, in seconds: it had not begun by then


class Session(Protocol):
    """One open socket to a node, as the recorder sees it."""

    node_id: int
    executor_id: int

    def send(self, messages: Sequence[Message]) -> None:
        """Queue messages for the node; they are lost silently when the socket closes."""
        ...

    def opened(self) -> None:
        """The runs that the node held are recorded: it may be sent runs from now on."""
        ...


class NodeSocket(Session, Protocol):
    """A way to a node: a WebSocket that it opened (`links`), or calls to it (`xxl_job`)."""

    @property
    def room(self) -> int | None:
        """How many runs it may be given now; None: as many as it has slots.

        `NodeHub.update` is told when there begins to be a number, and when it ends.
        """
        ...

    def start(self, requests: Sequence[RunRequest], claim: ClaimTime) -> None:
        """Queue the runs of one claim, whose transaction is committed."""
        ...

    token_hash: str  # SHA-256 of the executor token that it came with
    is_open: bool  # may be given runs
    heard: bool  # something came since the last renewal of its lease
    heartbeat: int  # sequence of its latest heartbeat
    sent_targets: NodeTargets  # what operators want of the node, as last sent this way
    admins: Sequence[str]  # base URLs of live ones, as last sent this way
    ended: asyncio.Event

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close."""
        ...


class NodeLinks(Protocol):
    """All ways to nodes that this admin has."""

    def connected(self) -> Mapping[int, int]:
        """Node id → executor id of the nodes that this admin may send runs to."""
        ...

    def rooms(self) -> Mapping[int, int]:
        """Node id → how many runs it may be given now, of nodes that are given fewer than their
        slots would allow.
        """
        ...

    def heartbeats(self) -> Mapping[int, int]:
        """Node id → sequence of its latest heartbeat, for nodes heard from recently."""
        ...

    def set_targets(self, targets: Mapping[int, NodeTargets]) -> None:
        """Send nodes what operators want of them, unless it was sent over their socket already."""
        ...

    def announce_admins(self, urls: Sequence[str]) -> None:
        """Send nodes the base URLs of all live admins, if other ones were sent last."""
        ...

    def tokens(self) -> Mapping[int, str]:
        """Node id → SHA-256 of the executor token that its socket was opened with."""
        ...

    def send(self, node_id: int, messages: Sequence[Message]) -> bool:
        """Queue messages for a node; False when it has no socket here."""
        ...

    def start(self, node_id: int, requests: Sequence[RunRequest], claim: ClaimTime) -> bool:
        """Queue the runs of one claim for a node; False when it has no socket here."""
        ...

    def acknowledge(self, renewed: Mapping[int, int]) -> None:
        """The renewals that cover these heartbeats (node id → sequence) are committed."""
        ...

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the node's socket, so that it says hello anew."""
        ...


class NodeHub(Protocol):
    """Where ways to nodes come and go; the engine sees them as `NodeLinks`."""

    def add(self, session: NodeSocket) -> NodeSocket | None:
        """Make this the node's way; returns the one it replaces."""
        ...

    def remove(self, session: NodeSocket) -> None:
        """Forget it, unless a newer one replaced it."""
        ...

    def update(self, session: NodeSocket) -> None:
        """Its `is_open` has changed, or whether it has a `room`."""
        ...


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A part of a long `held`."""

    runs: Sequence[RunKey]
    named: Collection[int] | None  # with the last part: all runs that the node says it holds


@dataclass(frozen=True, slots=True)
class StoredFirst:
    """Rows that are stored with the messages behind it, in the same transaction or one before."""

    write: Callable[[sa.Connection, Sequence[Any]], None]  # adds rows; those there are left alone
    rows: Sequence[Any]


class FetchedChunk(LogChunk, frozen=True, kw_only=True):
    """Lines that this admin has fetched, as another one may have: what is stored of them is left.

    A node makes its chunks itself and sends them unchanged. Two admins that fetch the same log, as
    while one takes over from the other, cut it into chunks of their own.
    """


class NodeMessage(NamedTuple):
    """A message of a node, and the session that it came from."""

    session: Session
    message: FromNode | HeldPart | StoredFirst


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A run that is part of a trace, and what spans are named after."""

    run: Run
    job: str
    handler: str


class RunTracer(Protocol):
    """Records spans of runs. An admin that does not trace has none. Safe to use from threads.

    Instants are of the database, in UTC epoch ms; lengths are measured by the event loop's time.
    """

    def samples(self, trace: TraceContext) -> bool:
        """Whether spans of this trace are recorded; always the same for the same trace."""
        ...

    def claimed(
        self, runs: Sequence[TracedRun], *, at: int, committed_ms: float, sent_ms: float
    ) -> None:
        """These runs were claimed, and, but for whole fires, sent; both counted from `at`."""
        ...

    def recorded(self, moves: Sequence[Move], *, at: int, committed_ms: float) -> None:
        """These moves ended attempts (`domain.runs.trace.ends_of_attempts`)."""
        ...
