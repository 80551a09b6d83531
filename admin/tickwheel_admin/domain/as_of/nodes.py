"""Nodes at a past instant: the periods during which each was live and did not change.

All instants are UTC epoch ms of the database's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class PeriodEnd(StrEnum):
    """What ended a period of a node."""

    CHANGED = "changed"  # its slots or whether it takes runs; another period follows at once
    GONE = "gone"  # it said goodbye
    DEAD = "dead"  # its lease ended


class NodeEvent(StrEnum):
    """What became of a node at an instant."""

    CAME = "came"
    CHANGED = "changed"
    GONE = "gone"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePeriod:
    """A time during which a node was live and as it says here."""

    node_id: int
    executor_id: int
    name: str
    from_at: int
    until_at: int | None  # None: it lasts
    slots: int
    draining: bool  # it took no new runs, as it said
    cordoned: bool  # it was given none, as an operator said
    end: PeriodEnd | None = None  # None: it lasts

    @property
    def takes_runs(self) -> bool:
        """Whether the router could choose it."""
        return not (self.draining or self.cordoned)

    def holds(self, at: int) -> bool:
        """Whether it was so at an instant."""
        return self.from_at <= at and (self.until_at is None or at < self.until_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastNodeChange:
    """A node that came, went or changed."""

    at: int
    event: NodeEvent
    node_id: int
    executor_id: int
    name: str
    slots: int  # afterwards; of one that went: before
    takes_runs: bool  # the same


def nodes_at(periods: Iterable[NodePeriod], at: int) -> list[NodePeriod]:
    """The nodes that were live at an instant, by name."""
    return sorted(
        (each for each in periods if each.holds(at)), key=lambda each: (each.name, each.node_id)
    )


def node_changes(periods: Iterable[NodePeriod], *, after: int, until: int) -> list[PastNodeChange]:
    """Comings, goings and changes after one instant and up to another, newest first.

    Args:
        periods: all that touch this time.
    """
    known = list(periods)
    ends = {(each.node_id, each.until_at) for each in known}
    found = []
    for each in known:
        if after < each.from_at <= until:
            follows = (each.node_id, each.from_at) in ends
            event = NodeEvent.CHANGED if follows else NodeEvent.CAME
            found.append(_change(each, each.from_at, event))
        ended = each.until_at is not None and after < each.until_at <= until
        if ended and each.until_at is not None and each.end not in (None, PeriodEnd.CHANGED):
            event = NodeEvent.DEAD if each.end is PeriodEnd.DEAD else NodeEvent.GONE
            found.append(_change(each, each.until_at, event))
    return sorted(found, key=lambda each: (-each.at, each.name, each.node_id))


def _change(period: NodePeriod, at: int, event: NodeEvent) -> PastNodeChange:
    return PastNodeChange(
        at=at,
        event=event,
        node_id=period.node_id,
        executor_id=period.executor_id,
        name=period.name,
        slots=period.slots,
        takes_runs=period.takes_runs,
    )
