"""Which fires a fixed delay must have, told by other rows than those of these fires.

A fixed delay has no instants of its own: each fire follows from the end of the run before. But each
fire names the one that it follows, and the trigger names its last one and the one that is next. So
a row that is gone is missed by its neighbour, and a trigger that stands still by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.self_audit.past import LedgerFire, TriggerPeriod
from tickwheel_admin.domain.triggers.trigger import TriggerState


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFire:
    """A fire that must be in the ledger."""

    at: int
    was_there: bool  # it was planned: only its deletion explains that it is not there


def named_fires(
    periods: Sequence[TriggerPeriod], fires: Sequence[LedgerFire], *, begin: int, end: int
) -> Iterator[NamedFire]:
    """Fires from `begin` to before `end` that something names; some of them more than once.

    Args:
        fires: those of the ledger within this time, the first one after it, and the trigger's last.
    """
    for fire in fires:
        if fire.follows_at is not None and begin <= fire.follows_at < end:
            yield NamedFire(at=fire.follows_at, was_there=True)
    for period in periods:
        last_at = period.last_fire_at
        # What lies behind an edit may have been taken back by it.
        if last_at is not None and begin <= last_at < min(end, period.ends_at + 1):
            yield NamedFire(at=last_at, was_there=True)
    now = periods[-1]
    is_idle = now.is_idle or now.job_paused
    if now.until_at is None and now.state is TriggerState.ACTIVE and not is_idle:
        due_at = now.next_fire_at
        if due_at is None:
            due_at = _not_armed_at(now, {fire.scheduled_at: fire for fire in fires})
        if due_at is not None and begin <= due_at < end:
            yield NamedFire(at=due_at, was_there=False)


def _not_armed_at(period: TriggerPeriod, fires: Mapping[int, LedgerFire]) -> int | None:
    """When a trigger without a next fire should have fired; None: it waits for the end of a run."""
    delay_ms = period.spec.delay_ms
    if period.last_fire_at is None:
        return period.since_at + delay_ms
    last = fires.get(period.last_fire_at)
    return None if last is None or last.ended_at is None else last.ended_at + delay_ms


def doubled_fires(fires: Sequence[LedgerFire]) -> Iterator[tuple[int, int]]:
    """Instants of fires, and of the next one that follows the same fire.

    Args:
        fires: those of one trigger, in any order.
    """
    followed: dict[int, int] = {}
    for fire in sorted(fires, key=lambda each: each.scheduled_at):
        if fire.follows_at is None:
            continue
        before = followed.get(fire.follows_at)
        if before is not None and before != fire.scheduled_at:
            yield before, fire.scheduled_at
        followed[fire.follows_at] = fire.scheduled_at
