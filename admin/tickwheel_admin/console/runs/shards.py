"""The shards of a whole fire, as numbers of a bar and cells of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwheel_admin.console.runs.labels import shown_state
from tickwheel_admin.domain.runs.run import FAILURES, FINAL
from tickwheel_admin.services.runs.service import RunItem

ROOMY = 48  # up to so many shards have cells with words; more are small squares

# In the order of the bar: what is over first, what has not begun last.
_ORDER = (
    "succeeded", "skipped", "cancelled", "timed_out", "lost", "failed",
    "running", "dispatched", "retrying", "queued",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBarPart:
    """The shards in one state: a part of the bar."""

    state: str
    count: int
    x: float  # per cent of the width
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOverview:
    """Everything that the section of a fire's shards shows."""

    items: Sequence[RunItem]
    parts: tuple[ShardBarPart, ...]
    ended: int
    failed: int
    is_roomy: bool


def shard_overview(items: Sequence[RunItem]) -> ShardOverview:
    """How the shards stand."""
    counts = dict.fromkeys(_ORDER, 0)
    for item in items:
        counts[shown_state(item.run)] += 1
    parts, x = [], 0.0
    for state, count in counts.items():
        width = 100 * count / max(len(items), 1)
        if count:
            parts.append(
                ShardBarPart(state=state, count=count, x=round(x, 3), width=round(width, 3))
            )
        x += width
    return ShardOverview(
        items=items,
        parts=tuple(parts),
        ended=sum(item.run.state in FINAL for item in items),
        failed=sum(item.run.state in FAILURES for item in items),
        is_roomy=len(items) <= ROOMY,
    )
