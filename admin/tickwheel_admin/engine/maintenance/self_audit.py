"""Audits the ledger: was every hour's every fire planned, once, and nothing else?

An hour is audited five minutes after it is over, and again after an hour, six hours, a day and a
week, so that what somebody deletes from the ledger within that week is noticed. One admin does it
at a time. What should have fired is computed by `domain.self_audit`, which shares no code with the
planner.

The cost has a bound: of more triggers than TRIGGERS_PER_HOUR some are audited, others in the next
hour; which ones follows from trigger and hour alone, so that auditing an hour again looks at the
same ones.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.self_audit.absences import Absence
from tickwheel_admin.domain.self_audit.comparison import (
    AuditCount,
    DifferenceKind,
    LedgerDifference,
    compare,
)
from tickwheel_admin.domain.self_audit.cron_reading import UnreadableExpression
from tickwheel_admin.domain.self_audit.past import LedgerFire, TriggerPeriod
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.runs.stats import first_hour, slices_of
from tickwheel_admin.store.self_audit.absences import forget_absences
from tickwheel_admin.store.self_audit.ledger import (
    fires_at,
    firing_ids,
    next_fires,
    read_fires,
)
from tickwheel_admin.store.self_audit.past import (
    ended_ids,
    read_past,
    read_periods,
    trigger_ids,
)
from tickwheel_admin.store.self_audit.periods import forget_past, retained_from
from tickwheel_admin.store.self_audit.results import (
    EVERYBODY,
    audited_hours,
    claim_audit,
    forget_results,
    write_hour,
)
from tickwheel_admin.store.system.settings import read_settings

log = structlog.get_logger(__name__)

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
AUDITED_AFTER_MS = (5 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS)  # an hour's end
RECENT_MS = AUDITED_AFTER_MS[-1] + 2 * HOUR_MS
CLAIMED_MS = 10 * MINUTE_MS  # more than auditing one hour takes
HOURS_PER_PASS = 4
TRIGGERS_PER_HOUR = 10_000
FIRES_PER_HOUR = 1_000_000
TRIGGERS_PER_BATCH = 50
FIRES_PER_BATCH = 1_000  # about: the next batch is so large as those before let expect
FIRST_BATCH = 5
MAX_REST_SECONDS = 0.05  # a slice that takes longer waited for the database
IDS_PER_PAGE = 10_000
KEPT_DAYS = 400  # so long results are kept, as the hourly figures of runs
LISTED_DAYS = 40  # so long the single instants without a run are: a proof is of up to 31 days
ROWS_PER_PASS = 1_000  # of the past, that are forgotten
RETENTION_MARGIN_MS = HOUR_MS  # an hour whose runs are about to be deleted is left alone


@dataclass(slots=True, kw_only=True)
class HourResult:
    """What an audit found."""

    counts: defaultdict[int, AuditCount] = field(
        default_factory=lambda: defaultdict(AuditCount, {EVERYBODY: AuditCount()})
    )
    found: list[LedgerDifference] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    audited: set[int] = field(default_factory=set)

    def add(self, executor_id: int, count: AuditCount) -> None:
        """Count a trigger in."""
        for each in (executor_id, EVERYBODY):
            self.counts[each].add(count)

    def join(self, other: HourResult) -> None:
        """Add what was found of other triggers."""
        for executor_id, count in other.counts.items():
            self.counts[executor_id].add(count)
        self.found += other.found
        self.absences += other.absences
        self.audited |= other.audited


class SelfAudit(Loop):
    """Reads mostly, in small steps, far from the hot path."""

    interval_seconds = 60.0

    def __init__(self, store: Store, *, admin_id: int, retention_days: int) -> None:
        """`retention_days` of ended runs applies unless the installation's settings set it."""
        super().__init__()
        self._store = store
        self._admin_id = admin_id
        self._retention_days = retention_days

    async def run_once(self) -> bool:
        now = await self._store.read(now_ms)
        due = await self._due(now)
        for hour_at in due[:HOURS_PER_PASS]:
            if not await self._store.run(
                claim_audit, self._admin_id, now=await self._store.read(now_ms), for_ms=CLAIMED_MS
            ):
                return False
            await self._audit(hour_at)
        if not due:
            return False
        await self._store.run(forget_past, now=now, limit=ROWS_PER_PASS)
        await self._store.run(forget_results, before=now - KEPT_DAYS * DAY_MS, hours=HOURS_PER_PASS)
        await self._store.run(
            forget_absences, before=now - LISTED_DAYS * DAY_MS, hours=HOURS_PER_PASS
        )
        return len(due) > HOURS_PER_PASS

    async def _due(self, now: int) -> list[int]:
        """Hours that want to be audited, newest first."""
        settings = await self._store.read(read_settings)
        kept_ms = (settings.retention_days or self._retention_days) * DAY_MS
        kept_from = _hour(now - min(RECENT_MS, kept_ms - RETENTION_MARGIN_MS))
        audited = await self._store.read(audited_hours, from_at=kept_from, to_at=now)
        # Hours before the first run that there is matter if they were audited: it may be deleted.
        first = await self._store.read(first_hour)
        oldest = max(kept_from, min([now if first is None else first, *audited]))
        # What retention deleted since an hour was audited is no news.
        runs_from = await self._store.read(retained_from)
        audited = {
            hour_at: now if hour_at < runs_from else audited_at
            for hour_at, audited_at in audited.items()
        }
        hours = range(_hour(now) - HOUR_MS, oldest - HOUR_MS, -HOUR_MS)
        return [hour_at for hour_at in hours if _is_due(hour_at, audited.get(hour_at), now)]

    async def _audit(self, hour_at: int) -> None:
        end = hour_at + HOUR_MS
        # The time before the audit: whatever it did not see came after that.
        audited_at = await self._store.read(now_ms)
        ids = await self._ids(hour_at)
        result = HourResult()
        left = chosen(ids, hour_at)
        size = FIRST_BATCH
        loop = asyncio.get_running_loop()
        while left and result.counts[EVERYBODY].expected <= FIRES_PER_HOUR:
            batch, left = left[:size], left[size:]
            began = loop.time()
            part = await self._store.read(audit_triggers, batch, begin=hour_at, end=end)
            result.join(part)
            fires = part.counts[EVERYBODY].expected
            size = max(1, min(TRIGGERS_PER_BATCH, FIRES_PER_BATCH * len(batch) // max(fires, 1)))
            # Planning computes in threads of the same process: half of the time is left to it.
            await asyncio.sleep(min(loop.time() - began, MAX_REST_SECONDS))
        new = await self._store.run(
            write_hour,
            hour_at,
            result.counts,
            result.found,
            absences=result.absences,
            triggers=ids,
            audited=result.audited,
            now=audited_at,
        )
        total = result.counts[EVERYBODY]
        log.debug("self_audit.hour_audited", hour_at=hour_at, expected=total.expected)
        if new:
            differences = {each.value: total.differences[each] for each in DifferenceKind}
            log.error("self_audit.differences_found", hour_at=hour_at, new=new, **differences)

    async def _ids(self, hour_at: int) -> set[int]:
        """Triggers that there are, that there were, and that the ledger names."""
        ids: set[int] = set()
        after = 0
        while page := await self._store.read(trigger_ids, after, limit=IDS_PER_PAGE):
            ids.update(page)
            after = page[-1]
        ids.update(await self._store.read(ended_ids, since=hour_at))
        for from_at, to_at in await self._store.read(slices_of, hour_at):
            ids |= await self._store.read(firing_ids, from_at=from_at, to_at=to_at)
        return ids


def chosen(ids: Collection[int], hour_at: int) -> list[int]:
    """Which triggers are audited in an hour, in an order that depends on trigger and hour only."""
    if len(ids) <= TRIGGERS_PER_HOUR:
        return sorted(ids)
    return sorted(ids, key=lambda each: crc32(b"%d:%d" % (each, hour_at)))[:TRIGGERS_PER_HOUR]


def audit_triggers(
    conn: sa.Connection, ids: Collection[int], *, begin: int, end: int
) -> HourResult:
    """Audit the time from `begin` to before `end` of some triggers."""
    result, unsure = _look_at(conn, ids, begin=begin, end=end)
    if unsure:
        # Perhaps a summary behind this time tells of what is missing, or something changed between
        # two statements.
        again, _ = _look_at(conn, unsure, begin=begin, end=end, for_summaries=True)
        result.join(again)
    return result


def _look_at(
    conn: sa.Connection,
    ids: Collection[int],
    *,
    begin: int,
    end: int,
    for_summaries: bool = False,
) -> tuple[HourResult, set[int]]:
    """(what was found, triggers that lack something: these are left out, and need another look).

    So many statements however many triggers there are.

    Args:
        for_summaries: read the next fires of all; then nothing is left out.
    """
    periods = read_periods(conn, ids, begin=begin)
    fires = read_fires(conn, ids, begin=begin, end=end)
    others = _others(conn, periods, begin=begin, end=end, of_all=for_summaries)
    past = read_past(conn, begin=begin, end=end)  # after the fires: a purge meanwhile is seen
    result, unsure = HourResult(), set()
    for trigger_id in sorted(ids):
        of_trigger = periods.get(trigger_id)
        own = fires.get(trigger_id, [])
        if of_trigger is None:
            result.audited.add(trigger_id)
            _add_strangers(result, own)
            continue
        try:
            count, found, absences = compare(
                of_trigger, own, past, begin=begin, end=end, others=others[trigger_id]
            )
        except UnreadableExpression as error:
            log.warning("self_audit.unreadable", trigger_id=trigger_id, reason=str(error))
            continue
        if count.missing and not for_summaries:
            unsure.add(trigger_id)
            continue
        result.audited.add(trigger_id)
        result.add(of_trigger[-1].executor_id, count)
        result.found += found
        result.absences += absences
    return result, unsure


def _others(
    conn: sa.Connection,
    periods: Mapping[int, Sequence[TriggerPeriod]],
    *,
    begin: int,
    end: int,
    of_all: bool,
) -> defaultdict[int, list[LedgerFire]]:
    """Fires outside the time that tell of some within it; of most triggers nothing is read."""
    delays = {each for each, of_trigger in periods.items() if of_trigger[-1].spec.follows_runs}
    waiting = {
        each: last_at
        for each in delays
        if (last_at := periods[each][-1].last_fire_at) is not None and not begin <= last_at < end
    }
    found: defaultdict[int, dict[int, LedgerFire]] = defaultdict(dict)
    for part in (
        next_fires(conn, periods if of_all else delays, after=end),
        fires_at(conn, waiting),
    ):
        for trigger_id, fire in part.items():
            found[trigger_id][fire.run_id] = fire
    return defaultdict(list, {each: list(own.values()) for each, own in found.items()})


def _add_strangers(result: HourResult, fires: Iterable[LedgerFire]) -> None:
    """Fires of a trigger that there never was."""
    for fire in fires:
        what = DifferenceKind.UNEXPLAINED
        count = AuditCount(fires=1)
        count.differences[what] += 1
        result.add(fire.executor_id, count)
        result.found.append(
            LedgerDifference(
                trigger_id=fire.trigger_id,
                job_id=fire.job_id,
                executor_id=fire.executor_id,
                at=fire.scheduled_at,
                what=what,
            )
        )


def _hour(at: int) -> int:
    return at - at % HOUR_MS


def _is_due(hour_at: int, audited_at: int | None, now: int) -> bool:
    """Whether an instant to audit the hour has passed since it was audited last."""
    passed = [at for each in AUDITED_AFTER_MS if (at := hour_at + HOUR_MS + each) <= now]
    return bool(passed) and (audited_at is None or audited_at < passed[-1])
