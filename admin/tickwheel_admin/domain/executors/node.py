"""A node: one running process of an executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

LEASE_MS = 15_000  # a node nobody heard from for this long is dead
CLOSED_LEASE_MS = 5_000  # the lease left when the last socket to it closed
# So much less than its full lease is a node's lease only where it was shortened: one of several
# sockets that closes takes a millisecond from it.
CUT_OFF_MS = 1_000
HEARTBEAT_MS = 3_000
ADMIN_LEASE_MS = 15_000
# Among a node's handlers: it does not tell which it has, so that it may be given any.
ANY_HANDLER = "*"


class NodeState(StrEnum):
    """Whether a node can hold runs."""

    LIVE = "live"  # its lease is renewed by at least one admin
    GONE = "gone"  # it said goodbye, holding nothing
    DEAD = "dead"  # its lease ended; its runs were lost


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTargets:
    """What operators want of a node, or what it was told over one of its sockets."""

    slots: int | None = None  # attempts at once; None: as many as it said itself
    drain: bool | None = False  # to take no new runs; None: nobody knows what it was told


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One running process of an executor; a new process start is a new node."""

    id: int
    executor_id: int
    name: str
    state: NodeState
    draining: bool  # said that it takes no new runs
    cordoned: bool  # an operator gives it no new runs
    drain_wanted: bool  # and has it told so
    slots: int  # attempts it runs at once
    slots_wanted: int | None = None  # set by an operator; None: as many as it said
    in_use: int  # slots taken by dispatched and running attempts
    weight: int = 1  # 1..1000: its share of runs with routing `weighted`
    handlers: frozenset[str]  # with ANY_HANDLER for one that does not tell them
    # Those of the handlers that the node cannot stop by itself: plain functions; with ANY_HANDLER,
    # none can be.
    unstoppable: frozenset[str]
    labels: Mapping[str, str]
    sdk: str
    address: str
    connected_at: int  # first hello
    lease_expires_at: int
    full_lease_at: int  # the same, but not shortened when its sockets close
    ended_at: int | None  # when it went or died

    @property
    def is_cut_off(self) -> bool:
        """Whether its last socket has closed, at whichever admin, and no new one was heard of."""
        return self.full_lease_at - self.lease_expires_at > CUT_OFF_MS

    @property
    def targets(self) -> NodeTargets:
        """What operators want of it."""
        return NodeTargets(slots=self.slots_wanted, drain=self.drain_wanted)

    def offers(self, handler: str) -> bool:
        """Whether it may be given runs for the handler."""
        return handler in self.handlers or ANY_HANDLER in self.handlers

    def stops(self, handler: str) -> bool:
        """Whether it ends attempts of the handler by itself when it hears from no admin."""
        return handler not in self.unstoppable and ANY_HANDLER not in self.unstoppable

    @property
    def named_handlers(self) -> frozenset[str]:
        """The handlers that it told, for people."""
        return self.handlers - {ANY_HANDLER}

    @property
    def is_safe_to_stop(self) -> bool:
        """Live, without a run, and it gets none: its process can end and nothing is lost."""
        return self.state is NodeState.LIVE and not self.takes_runs and not self.in_use

    @property
    def takes_runs(self) -> bool:
        """Whether the router may choose it."""
        return not (self.draining or self.cordoned)
