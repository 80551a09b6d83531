"""Proof of a period: what should have run, what became of it, and who did what about the rest.

What should have run is told by the self-audit, which computes it a second time, from the schedules
as they stood; what became of it, by the ledger as it is now. Hours are read one after the other,
each a read of its own or several: a proof of a month holds up nobody. Where runs are told of, an
hour is read in bounded pages; its sums alone are counted by the database, some minutes at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.proof.fires import DEFAULT_LATE_MS, ProvenFire
from tickwheel_admin.domain.proof.sums import (
    HOUR_MS,
    MAX_DAYS,
    AuditedSums,
    GoneReason,
    HourProof,
    HourStatus,
    ProofSums,
    prove_hour,
    total_of,
)
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.services.proof.unrun import UnrunInstant, UnrunKey, read_unrun
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.failures.groups import groups_by_id
from tickwheel_admin.store.proof.ledger import (
    FirePosition,
    audited_sums,
    count_fires,
    page_exceptions,
    page_fires,
    why_gone,
)
from tickwheel_admin.store.proof.names import NamedJob, jobs_with_owners
from tickwheel_admin.store.runs.retries import RetryOutcome, retries_of
from tickwheel_admin.store.self_audit.results import (
    MAX_DIFFERENCES,
    StoredDifference,
    read_differences,
)

DAY_MS = 24 * HOUR_MS
FIRES_PER_PAGE = 2_000
RUNS_PER_COUNT = 40_000  # about so many are counted in one read
SHORTEST_COUNT_MS = 60_000
HOURS_PER_PAGE = 24  # that one request for a list looks through at most
UNRUN_PER_PAGE = 500  # of a file, instants that are read at once
MAX_REST_SECONDS = 0.05


class _Key(NamedTuple):
    """A place in the list of exceptions: behind this run."""

    scheduled_at: Number
    id: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofPeriod:
    """What is proven: whole hours in UTC."""

    from_at: int
    until_at: int
    executors: frozenset[int] | None  # None: all
    late_ms: int  # a start so much later than due is told of
    made_at: int

    @property
    def hours(self) -> range:
        """Their beginnings."""
        return range(self.from_at, self.until_at, HOUR_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofException:
    """A run that did not succeed at the first try, or started late."""

    fire: ProvenFire
    is_late: bool
    job_name: str | None
    executor_name: str | None
    owner: str | None  # of its failure group, else of its job
    group: FailureGroup | None  # that it counts to
    is_of_group: bool  # the group has not been resolved between it and what people did about it
    retry: RetryOutcome | None  # what runs that do it again came to

    @property
    def acknowledged_by(self) -> str | None:
        """Who looks after it."""
        return self.group.acknowledged_by if self.group and self.is_of_group else None

    @property
    def acknowledged_at(self) -> int | None:
        """Since when."""
        return self.group.acknowledged_at if self.group and self.is_of_group else None

    @property
    def resolved_at(self) -> int | None:
        """When its failure group was."""
        return self.group.resolved_at if self.group and self.is_of_group else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The hours of a period, and their sums."""

    period: ProofPeriod
    hours: Sequence[HourProof]
    proven: ProofSums  # of the hours that were audited for all triggers
    not_proven: ProofSums  # of the others: what should have run is not known

    @property
    def agrees(self) -> bool:
        """Everything is proven: nothing is missing, and the ledger is as it was audited."""
        sums = self.proven
        return not (
            self.not_proven.hours
            or sums.missing
            or sums.surplus
            or sums.new
            or sums.gone.total()
            or sums.faults()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HourPart:
    """A page of an hour: what it tells of, and, with the last one, the hour."""

    exceptions: Sequence[ProofException]
    unrun: Sequence[UnrunInstant] = ()  # without a run; those skipped are among the exceptions
    differences: Sequence[StoredDifference] = ()  # that stand
    hour: HourProof | None = None


@dataclass(slots=True, kw_only=True)
class _HourPage:
    fires: Sequence[ProvenFire]
    exceptions: Sequence[ProofException]
    # Read with the first page.
    audited: AuditedSums | None = None
    why_gone: GoneReason = GoneReason.UNKNOWN
    differences: Sequence[StoredDifference] = ()


class _Stretch:
    """How much of an hour is counted at once: less where there are more runs."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def had(self, runs: int) -> None:
        """So many runs were in the last one."""
        if runs > RUNS_PER_COUNT:
            self.ms = max(self.ms // 2, SHORTEST_COUNT_MS)
        elif runs < RUNS_PER_COUNT // 4:
            self.ms = min(self.ms * 2, HOUR_MS)


class Proofs:
    """Use cases of reading proofs. Whoever sees an executor sees what became of its fires."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heavy = HeavyReads()

    async def period(
        self,
        actor: Actor,
        *,
        from_at: int | None = None,
        until_at: int | None = None,
        executor_id: int | None = None,
        late_ms: int = DEFAULT_LATE_MS,
    ) -> ProofPeriod:
        """Whole hours around a time.

        Args:
            from_at: None: a day before its end.
            until_at: None: the begin of the present hour. A later end is taken for now.
            executor_id: None: all that the caller sees.

        Raises:
            InvalidInput: on "from" or "until": nothing lies between them, or more than 31 days.
        """
        now = await self._store.read(now_ms)
        end = (
            now - now % HOUR_MS if until_at is None else -(-min(until_at, now) // HOUR_MS) * HOUR_MS
        )
        begin = max(0, end - DAY_MS) if from_at is None else from_at - from_at % HOUR_MS
        if begin >= end:
            raise InvalidInput.one(
                "from", "out_of_range", "This must be before the end, and before now."
            )
        if end - begin > MAX_DAYS * DAY_MS:
            raise InvalidInput.one(
                "from", "out_of_range", "At most %(days)d days at once, please.", days=MAX_DAYS
            )
        return ProofPeriod(
            from_at=begin,
            until_at=end,
            executors=visible_executors(actor, executor_id),
            late_ms=late_ms,
            made_at=now,
        )

    async def sums(self, actor: Actor, period: ProofPeriod) -> Proof:
        """The sums of a period, hour by hour.

        Raises:
            TooMany: the caller has asked for too many already.
        """
        hours = []
        stretch = _Stretch(HOUR_MS)
        async with self._heavy.turn(actor.user_id):
            for hour_at in period.hours:
                hours.append(await self._counted(period, hour_at, stretch))
        return Proof(
            period=period,
            hours=hours,
            proven=total_of(hours, proven=True),
            not_proven=total_of(hours, proven=False),
        )

    async def parts(self, actor: Actor, period: ProofPeriod) -> AsyncIterator[HourPart]:
        """Everything that a proof tells, hour by hour, in the order of the instants.

        Raises:
            TooMany: the caller has asked for too many already.
        """
        async with self._heavy.turn(actor.user_id):
            for hour_at in period.hours:
                async for part in self._hour(period, hour_at):
                    yield part

    async def exceptions(
        self, actor: Actor, period: ProofPeriod, *, cursor: str | None = None, limit: int = 50
    ) -> Page[ProofException]:
        """A page of exceptions, oldest first. A page that looked through a day may be short.

        Raises:
            InvalidInput: on "cursor" or "limit".
        """
        limit = check_limit(limit)
        key = decode_cursor(cursor, _Key)
        after = None if key is None else FirePosition(scheduled_at=key.scheduled_at, run_id=key.id)
        begin = period.from_at if key is None else max(period.from_at, _hour_of(key.scheduled_at))
        found: list[ProofException] = []
        looked_to = begin
        async with self._heavy.turn(actor.user_id):
            for hour_at in range(begin, period.until_at, HOUR_MS)[:HOURS_PER_PAGE]:
                found += await self._store.read(
                    self._read_exceptions, period, hour_at, after, limit + 1 - len(found)
                )
                looked_to = hour_at + HOUR_MS
                if len(found) > limit:
                    last = found[limit - 1].fire
                    place = _Key(last.scheduled_at, last.id)
                    return Page(items=found[:limit], next=encode_cursor(place))
        is_last = looked_to >= period.until_at
        return Page(items=found, next=None if is_last else encode_cursor(_Key(looked_to, 0)))

    async def unrun(
        self, actor: Actor, period: ProofPeriod, *, cursor: str | None = None, limit: int = 50
    ) -> Page[UnrunInstant]:
        """A page of instants that brought no work: without a run, or with one that was skipped.

        Hour by hour; within an hour first those without a run, by trigger. A page that looked
        through a day may be short.

        Raises:
            InvalidInput: on "cursor" or "limit".
        """
        limit = check_limit(limit)
        key = decode_cursor(cursor, UnrunKey)
        begin = period.from_at if key is None else max(period.from_at, _hour_of(key.hour_at))
        found: list[tuple[UnrunKey, UnrunInstant]] = []
        looked_to = begin
        async with self._heavy.turn(actor.user_id):
            hours = range(begin, period.until_at, HOUR_MS)[:HOURS_PER_PAGE]
            audited = await self._store.read(
                audited_sums,
                from_at=begin,
                to_at=begin + len(hours) * HOUR_MS,
                executors=period.executors,
            )
            for hour_at in hours:
                found += await self._store.read(
                    read_unrun,
                    hour_at,
                    executors=period.executors,
                    # Others' rows would be read in vain where these executors have none.
                    with_absences=hour_at in audited and audited[hour_at].unrun > 0,
                    after=key if key is not None and key.hour_at == hour_at else None,
                    limit=limit + 1 - len(found),
                )
                looked_to = hour_at + HOUR_MS
                if len(found) > limit:
                    place = encode_cursor(found[limit - 1][0])
                    return Page(items=[each for _, each in found[:limit]], next=place)
        is_last = looked_to >= period.until_at
        place = encode_cursor(UnrunKey(looked_to, False, 0, "", 0))
        return Page(items=[each for _, each in found], next=None if is_last else place)

    def _read_exceptions(
        self,
        conn: sa.Connection,
        period: ProofPeriod,
        hour_at: int,
        after: FirePosition | None,
        limit: int,
    ) -> list[ProofException]:
        fires = page_exceptions(
            conn,
            from_at=hour_at,
            to_at=hour_at + HOUR_MS,
            executors=period.executors,
            late_ms=period.late_ms,
            after=after,
            limit=limit,
        )
        return _told(conn, fires, late_ms=period.late_ms)

    async def _counted(self, period: ProofPeriod, hour_at: int, stretch: _Stretch) -> HourProof:
        """The sums of an hour; the engine has its turn in between."""
        loop = asyncio.get_running_loop()
        ledger = ProofSums()
        audited, reason = await self._store.read(_read_audited, period, hour_at)
        at, end = hour_at, hour_at + HOUR_MS
        while at < end:
            began = loop.time()
            until = min(at + stretch.ms, end)
            found = await self._store.read(
                count_fires,
                from_at=at,
                to_at=until,
                executors=period.executors,
                late_ms=period.late_ms,
            )
            for each in found:
                ledger.count(each)
            stretch.had(sum(each.runs for each in found))
            at = until
            await asyncio.sleep(min(loop.time() - began, MAX_REST_SECONDS))
        return prove_hour(hour_at, audited, ledger, why_gone=reason)

    async def _hour(self, period: ProofPeriod, hour_at: int) -> AsyncIterator[HourPart]:
        """An hour, page by page; the engine has its turn in between."""
        loop = asyncio.get_running_loop()
        ledger = ProofSums()
        first: _HourPage | None = None
        after: FirePosition | None = None
        while True:
            began = loop.time()
            page = await self._store.read(_read_page, period, hour_at, after)
            first = first or page
            for fire in page.fires:
                ledger.count(fire.counted(period.late_ms))
            is_last = len(page.fires) < FIRES_PER_PAGE
            if is_last:
                break
            yield HourPart(exceptions=page.exceptions)
            after = FirePosition(scheduled_at=page.fires[-1].scheduled_at, run_id=page.fires[-1].id)
            await asyncio.sleep(min(loop.time() - began, MAX_REST_SECONDS))
        assert first.audited is not None  # noqa: S101 - read with the first page
        yield HourPart(exceptions=page.exceptions)
        async for part in self._hour_unrun(period, hour_at):
            yield part
        yield HourPart(
            exceptions=(),
            differences=first.differences,
            hour=prove_hour(hour_at, first.audited, ledger, why_gone=first.why_gone),
        )

    async def _hour_unrun(self, period: ProofPeriod, hour_at: int) -> AsyncIterator[HourPart]:
        """The instants of an hour without a run, page by page."""
        loop = asyncio.get_running_loop()
        after: UnrunKey | None = None
        while True:
            began = loop.time()
            found = await self._store.read(
                read_unrun,
                hour_at,
                executors=period.executors,
                after=after,
                limit=UNRUN_PER_PAGE,
                with_runs=False,
            )
            if found:
                yield HourPart(exceptions=(), unrun=[each for _, each in found])
            if len(found) < UNRUN_PER_PAGE:
                return
            after = found[-1][0]
            await asyncio.sleep(min(loop.time() - began, MAX_REST_SECONDS))


def _read_audited(
    conn: sa.Connection, period: ProofPeriod, hour_at: int
) -> tuple[AuditedSums, GoneReason]:
    """What the self-audit counted in an hour, and why runs that it saw may be gone."""
    audited = audited_sums(
        conn, from_at=hour_at, to_at=hour_at + HOUR_MS, executors=period.executors
    )
    unknown = AuditedSums(status=HourStatus.NOT_AUDITED)
    return audited.get(hour_at, unknown), why_gone(conn, hour_at)


def _read_page(
    conn: sa.Connection, period: ProofPeriod, hour_at: int, after: FirePosition | None
) -> _HourPage:
    to_at = hour_at + HOUR_MS
    fires = page_fires(
        conn,
        from_at=hour_at,
        to_at=to_at,
        executors=period.executors,
        after=after,
        limit=FIRES_PER_PAGE,
    )
    exceptions = [each for each in fires if each.is_exception(period.late_ms)]
    page = _HourPage(fires=fires, exceptions=_told(conn, exceptions, late_ms=period.late_ms))
    if after is None:
        page.audited, page.why_gone = _read_audited(conn, period, hour_at)
        page.differences = [
            each
            for each in read_differences(
                conn,
                from_at=hour_at,
                to_at=to_at,
                executors=period.executors,
                limit=MAX_DIFFERENCES,
            )
            if each.closed_at is None
        ]
    return page


def _told(
    conn: sa.Connection, fires: Sequence[ProvenFire], *, late_ms: int
) -> list[ProofException]:
    """With names, owners and what people did; so many statements however many runs there are."""
    if not fires:
        return []
    jobs = jobs_with_owners(conn, {each.job_id for each in fires})
    executors = executor_names(conn, {each.executor_id for each in fires})
    groups = groups_by_id(conn, {each.error_id for each in fires if each.error_id is not None})
    retries = retries_of(conn, [each.id for each in fires])
    return [_exception(each, jobs, executors, groups, retries, late_ms) for each in fires]


def _exception(
    fire: ProvenFire,
    jobs: Mapping[int, NamedJob],
    executors: Mapping[int, str],
    groups: Mapping[int, FailureGroup],
    retries: Mapping[int, RetryOutcome],
    late_ms: int,
) -> ProofException:
    job = jobs.get(fire.job_id)
    group = groups.get(fire.error_id or 0)
    # A group that was resolved and came back forgets who looked after it before.
    is_of_group = group is not None and (fire.ended_at or fire.scheduled_at) >= group.since
    owner = group.owner if group is not None and is_of_group else None
    return ProofException(
        fire=fire,
        is_late=fire.is_late(late_ms),
        job_name=None if job is None else job.name,
        executor_name=executors.get(fire.executor_id),
        owner=owner or (None if job is None else job.owner) or None,
        group=group,
        is_of_group=is_of_group,
        retry=retries.get(fire.id),
    )


def _hour_of(at: int) -> int:
    return at - at % HOUR_MS
