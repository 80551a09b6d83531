"""What the engine needs of the sockets: protocols that `links` and the simulator implement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.store.executors.nodes import Arrival as Arrival
from tickwheel_shared.protocol import FromNode, Message, RunKey


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


class NodeLinks(Protocol):
    """All open sockets of this admin."""

    def connected(self) -> Mapping[int, int]:
        """Node id → executor id of the nodes that this admin may send runs to."""
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

    def acknowledge(self, renewed: Mapping[int, int]) -> None:
        """The renewals that cover these heartbeats (node id → sequence) are committed."""
        ...

    def disconnect(self, node_id: int, reason: str) -> None:
        """Close the node's socket, so that it says hello anew."""
        ...


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A part of a long `held`."""

    runs: Sequence[RunKey]
    named: Collection[int] | None  # with the last part: all runs that the node says it holds


@dataclass(frozen=True, slots=True)
class NodeMessage:
    """A message of a node, and the session that it came from."""

    session: Session
    message: FromNode | HeldPart
