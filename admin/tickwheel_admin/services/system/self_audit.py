"""What the self-audit found, for people: hours with their counts, and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.self_audit.results import EVERYBODY, read_differences, read_hours
from tickwheel_admin.store.self_audit.results import MAX_DIFFERENCES as MAX_DIFFERENCES
from tickwheel_admin.store.self_audit.results import AuditedHour as AuditedHour
from tickwheel_admin.store.self_audit.results import StoredDifference as StoredDifference

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
MAX_DAYS = 62  # of one request
DEFAULT_DAYS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTotals:
    """The counts of some hours together."""

    expected: int
    happened: int
    explained: Counter[str]  # by reason
    missing: int
    doubled: int
    late: int
    unexplained: int
    hours: int  # that were audited
    triggers: int  # looked for in these hours, counted once an hour
    audited: int  # of these

    @property
    def differences(self) -> int:
        """Everything that should not be."""
        return self.missing + self.doubled + self.late + self.unexplained


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAuditReport:
    """Hours, and what is wrong in them."""

    from_at: int
    to_at: int
    hours: Sequence[AuditedHour]  # oldest first; hours that were not audited are not there
    differences: Sequence[StoredDifference]  # at most MAX_DIFFERENCES, closed ones among them
    more: bool  # whether there are further differences

    @property
    def totals(self) -> AuditTotals:
        """All hours together."""
        return totals_of(self.hours)


class SelfAuditLog:
    """Use case of reading what the self-audit found."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def report(
        self,
        actor: Actor,
        *,
        from_at: int | None = None,
        to_at: int | None = None,
        day_begins: Callable[[int], int] = int,
    ) -> SelfAuditReport:
        """Hours from one instant to before another, of the executors that the caller administers.

        Args:
            from_at: None: of the last 14 days.
            to_at: None: now.
            day_begins: where the day of an instant begins, for the first of these 14 days.

        Raises:
            NotAllowed, NotFound: the caller administers nothing.
            InvalidInput: on "from" or "to": it ends before it begins, or is longer than 62 days.
        """
        if not actor.may_anywhere(Permission.ADMINISTER):
            actor.require(Permission.ADMINISTER)
        scope = actor.scope(Permission.ADMINISTER)
        return await self._store.read(_report, scope, from_at, to_at, day_begins)


def totals_of(hours: Iterable[AuditedHour]) -> AuditTotals:
    """The sums of their counts."""
    explained: Counter[str] = Counter()
    each = list(hours)
    for hour in each:
        explained.update(hour.explained)
    return AuditTotals(
        expected=sum(hour.expected for hour in each),
        happened=sum(hour.happened for hour in each),
        explained=explained,
        missing=sum(hour.missing for hour in each),
        doubled=sum(hour.doubled for hour in each),
        late=sum(hour.late for hour in each),
        unexplained=sum(hour.unexplained for hour in each),
        hours=len(each),
        triggers=sum(hour.triggers for hour in each),
        audited=sum(hour.audited for hour in each),
    )


def _report(
    conn: sa.Connection,
    scope: frozenset[int] | None,
    from_at: int | None,
    to_at: int | None,
    day_begins: Callable[[int], int],
) -> SelfAuditReport:
    to_at = now_ms(conn) if to_at is None else to_at
    if from_at is None:
        from_at = max(0, day_begins(to_at - (DEFAULT_DAYS - 1) * DAY_MS))
    if to_at < from_at:
        raise InvalidInput.one("to", "out_of_range", "This must not be before “from”.")
    if to_at - from_at > MAX_DAYS * DAY_MS:
        raise InvalidInput.one(
            "from", "out_of_range", "At most %(days)d days at once, please.", days=MAX_DAYS
        )
    executors = {EVERYBODY} if scope is None else {EVERYBODY, *scope}
    hours = read_hours(conn, from_at=from_at, to_at=to_at, executors=executors)
    found = read_differences(
        conn, from_at=from_at, to_at=to_at, executors=scope, limit=MAX_DIFFERENCES + 1
    )
    return SelfAuditReport(
        from_at=from_at,
        to_at=to_at,
        hours=hours if scope is None else _of_scope(hours),
        differences=found[:MAX_DIFFERENCES],
        more=len(found) > MAX_DIFFERENCES,
    )


def _of_scope(hours: Iterable[AuditedHour]) -> list[AuditedHour]:
    """The sums of executors for each hour; an hour in which they did nothing counts as audited."""
    whole: dict[int, AuditedHour] = {}
    parts: dict[int, list[AuditedHour]] = {}
    for hour in hours:
        if hour.executor_id == EVERYBODY:
            whole[hour.hour_at] = hour
        else:
            parts.setdefault(hour.hour_at, []).append(hour)
    found = []
    for hour_at, everybody in sorted(whole.items()):
        total = totals_of(parts.get(hour_at, ()))
        found.append(
            replace(
                everybody,
                expected=total.expected,
                happened=total.happened,
                explained=dict(total.explained),
                missing=total.missing,
                doubled=total.doubled,
                late=total.late,
                unexplained=total.unexplained,
            )
        )
    return found
