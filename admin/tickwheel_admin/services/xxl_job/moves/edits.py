"""The steps of a move in our database, each one transaction.

A step names the token of the record that it follows: one that another command has written meanwhile
makes it void. It writes a token of its own, by which a repeat of its transaction knows that it was
committed although the answer never came.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.domain.xxl_job.take_over import MoveRecord, MoveState
from tickwheel_admin.services.triggers.cutover import cut_over, rearm
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.system.audit import write_audit
from tickwheel_admin.store.triggers import triggers as job_triggers
from tickwheel_admin.store.triggers.pauses import read_pauses
from tickwheel_admin.store.triggers.triggers import StoredTrigger
from tickwheel_admin.store.xxl_job.moves import StoredMove, read_moves, write_moves


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRefusal:
    """Why a job stays where it is."""

    code: str
    text: str  # for people


class MoveRefusedError(Exception):
    """Rolls a step back that cannot be taken to its end."""

    def __init__(self, refusal: MoveRefusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.text)


STALE = MoveRefusal(
    code="moved_meanwhile", text="Another command moved it meanwhile; run this one again."
)
GONE = MoveRefusal(code="gone_here", text="It was deleted here.")


@dataclass(frozen=True, slots=True, kw_only=True)
class OurJob:
    """A job here as it was read before a move."""

    job_id: int
    executor_id: int
    name: str
    is_paused: bool
    triggers: Sequence[StoredTrigger]
    held_back: bool  # its executor, or everything, is paused

    @property
    def is_active(self) -> bool:
        """Whether any of its triggers may fire."""
        return not self.is_paused and any(not each.trigger.paused for each in self.triggers)


def read_our_jobs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, OurJob]:
    """Jobs by id, those that are not deleted."""
    ids = sorted(set(job_ids))
    triggers = job_triggers.triggers_of_jobs(conn, ids)
    pauses = read_pauses(conn)
    return {
        job.id: OurJob(
            job_id=job.id,
            executor_id=job.executor_id,
            name=job.name,
            is_paused=job.paused,
            triggers=triggers.get(job.id, []),
            held_back=pauses.of(job.executor_id) is not None,
        )
        for job in store_jobs.brief_jobs(conn, ids).values()
    }


def refusal_to_start(
    ours: OurJob, at: int, calendars: Mapping[str, Calendar], *, now: int
) -> tuple[StoredTrigger, int] | MoveRefusal:
    """The trigger that goes on where XXL-JOB stops, and from which instant on.

    Args:
        at: XXL-JOB's next fire; 0: it had none yet, so that nothing can be lost before `now`.
    """
    if ours.held_back:
        return MoveRefusal(
            code="paused_here",
            text="Its executor is paused here, so its fires would be skipped; resume that first.",
        )
    if len(ours.triggers) != 1:
        return MoveRefusal(
            code="not_one_trigger",
            text=f"It has {len(ours.triggers)} triggers here; with exactly one, that goes on where"
            " XXL-JOB stops.",
        )
    (stored,) = ours.triggers
    spec = stored.trigger.spec
    if spec.follows_runs:
        return MoveRefusal(
            code="fixed_delay", text="Its trigger counts from the end of runs, XXL-JOB's does not."
        )
    try:
        calendar = calendar_of(spec, calendars)
        saved_at = at if spec.counts_from_save and at else stored.saved_at
        schedule = parse(spec, saved_at=saved_at, calendar=calendar)
    except ScheduleError as error:
        return MoveRefusal(code="schedule_error", text=str(error))
    if at == 0:
        first = schedule.next_after(now)
        if first is None:
            return MoveRefusal(code="never_fires", text="It never fires again.")
        return stored, first
    if schedule.next_after(at - 1) != at:
        return MoveRefusal(
            code="other_instants",
            text="XXL-JOB's next fire is no instant of its trigger here: the schedule was changed"
            " on one side, or the time zone of cron is not the right one.",
        )
    return stored, at


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMove:
    """A job that XXL-JOB is about to lose."""

    job_id: int
    trigger_id: int
    at: int
    their_next_at: int
    follows: int | None  # token of the record that was read; None: there was none
    token: int

    def as_stored(self) -> StoredMove:
        """What is kept of it."""
        record = MoveRecord(
            state=MoveState.PREPARED,
            next_at=self.at,
            their_next_at=self.their_next_at,
            token=self.token,
        )
        return StoredMove(record=record, job_id=self.job_id, trigger_id=self.trigger_id)


def prepare(
    conn: sa.Connection, source: str, wanted: Mapping[int, NewMove]
) -> dict[int, MoveRefusal | None]:
    """Keep from which instants on jobs fire here, before XXL-JOB lets go of them.

    Returns by XXL-JOB's id why it must not; None: it may.
    """
    present = read_moves(conn, source, wanted, lock=True)
    outcomes: dict[int, MoveRefusal | None] = {}
    written: dict[int, StoredMove] = {}
    for their_id, new in wanted.items():
        before = present.get(their_id)
        token = None if before is None else before.record.token
        outcomes[their_id] = None if token in (new.follows, new.token) else STALE
        if token == new.follows:
            written[their_id] = new.as_stored()
    write_moves(conn, source, written, present=present, now=now_ms(conn))
    return outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class ToArm:
    """A job that XXL-JOB has let go of."""

    move: StoredMove
    token: int
    audit_id: int


def arm_jobs(
    conn: sa.Connection, source: str, wanted: Mapping[int, ToArm], *, actor: Actor
) -> dict[int, MoveRefusal | None]:
    """Let jobs fire here from the instants on that were kept; returns as `prepare`."""
    present = read_moves(conn, source, wanted, lock=True)
    outcomes: dict[int, MoveRefusal | None] = {}
    done: dict[int, StoredMove] = {}
    for their_id, each in sorted(wanted.items(), key=lambda item: item[1].move.job_id):
        found = present.get(their_id)
        if found is not None and found.record.token == each.token:
            outcomes[their_id] = None  # an earlier try of this transaction was committed
        elif found is None or found.record.token != each.move.record.token:
            is_done = found is not None and found.record.state is MoveState.DONE
            outcomes[their_id] = None if is_done else STALE
        elif (job := store_jobs.lock_job(conn, found.job_id)) is None:
            outcomes[their_id] = GONE
        elif (trigger_id := _arm(conn, job, found)) is None:
            outcomes[their_id] = _NO_TRIGGER
        else:
            outcomes[their_id] = None
            record = replace(found.record, state=MoveState.DONE, token=each.token)
            done[their_id] = replace(found, record=record, trigger_id=trigger_id)
            detail = {"name": job.config.name, "xxl_job": their_id, "from_at": record.next_at}
            _note(conn, actor, each.audit_id, "job.taken_over", job, detail)
    write_moves(conn, source, done, present=present, now=now_ms(conn))
    return outcomes


_NOT_ONE = MoveRefusal(
    code="not_one_trigger", text="It does not have exactly one trigger here that can be computed."
)
_NO_TRIGGER = MoveRefusal(
    code="trigger_gone", text="Its trigger was removed here meanwhile; give it another one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToReturn:
    """A job that is given back to XXL-JOB."""

    move: StoredMove
    from_at: int | None  # it stands paused here at this instant; None: it fires here
    their_next_at: int  # what XXL-JOB's row says now
    token: int
    audit_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A job that does not fire here any more."""

    next_at: int | None  # XXL-JOB is to fire it from then on; None: nobody is
    token: int


def return_job(
    conn: sa.Connection,
    source: str,
    their_id: int,
    wanted: ToReturn,
    *,
    run_ids: Sequence[int],
    actor: Actor,
) -> Returned | MoveRefusal:
    """Pause a job; what was due by now is planned here, and what comes next is XXL-JOB's.

    Raises:
        TooFewIds: more runs are overdue.
        Refused: its trigger cannot be computed.
    """
    found = read_moves(conn, source, [their_id], lock=True).get(their_id)
    if found is None:
        return STALE
    if found.record.token == wanted.token:  # an earlier try of this transaction was committed
        is_over = found.record.state is MoveState.GIVEN_BACK
        return Returned(next_at=None if is_over else found.record.next_at, token=wanted.token)
    if found.record.token != wanted.move.record.token:
        return STALE
    job = store_jobs.lock_job(conn, found.job_id)
    if job is None:
        return GONE
    next_at = wanted.from_at
    if next_at is not None and next_at <= now_ms(conn):
        # It stood paused while fires became due: they are planned as if it had never stood still.
        if _arm(conn, job, found) is None:
            return _NO_TRIGGER
        job = replace(job, paused=False)
    if not job.paused:
        cutovers, now = cut_over(conn, job, run_ids)
        if len(cutovers) != 1:
            raise MoveRefusedError(_NOT_ONE)
        (cutover,) = cutovers
        is_paused = wanted.from_at is None and cutover.stored.trigger.paused
        rearm(conn, cutover, job_paused=True, paused=is_paused)
        store_jobs.set_paused(conn, job.id, paused=True, now=now)
        next_at = None if is_paused else cutover.next_fire_at
    state = MoveState.GIVEN_BACK if next_at is None else MoveState.RETURNING
    record = MoveRecord(
        state=state,
        next_at=next_at or 0,
        their_next_at=wanted.their_next_at,
        token=wanted.token,
    )
    moves = {their_id: replace(found, record=record)}
    write_moves(conn, source, moves, present=moves, now=now_ms(conn))
    detail = {"name": job.config.name, "xxl_job": their_id, "from_at": next_at}
    _note(conn, actor, wanted.audit_id, "job.given_back", job, detail)
    return Returned(next_at=next_at, token=wanted.token)


def settle(conn: sa.Connection, source: str, follows: Mapping[int, int]) -> None:
    """Note that XXL-JOB has jobs again.

    Args:
        follows: the token of each job's record; those that have another one by now are left.
    """
    present = read_moves(conn, source, follows, lock=True)
    settled = {
        their_id: replace(move, record=replace(move.record, state=MoveState.GIVEN_BACK))
        for their_id, move in present.items()
        if move.record.token == follows[their_id]
    }
    write_moves(conn, source, settled, present=present, now=now_ms(conn))


def _arm(conn: sa.Connection, job: Job, move: StoredMove) -> int | None:
    """Let the job's trigger fire from the kept instant on; None: it has none to let fire."""
    triggers = job_triggers.lock_triggers(conn, job.id)
    known = [each for each in triggers if each.trigger.id == move.trigger_id]
    # An edit may have put another one in its place.
    stored = known[0] if known else triggers[0] if len(triggers) == 1 else None
    if stored is None:
        return None
    at, trigger = move.record.next_at, stored.trigger
    now = now_ms(conn)
    calendar = None
    if trigger.spec.calendar is not None:
        calendar = read_calendars(conn, {trigger.spec.calendar}).get(trigger.spec.calendar)
    job_triggers.reset_trigger(
        conn,
        trigger,
        paused=False,
        state=TriggerState.ACTIVE,
        next_fire_at=at,
        last_fire_at=trigger.last_fire_at,
        fires=trigger.fires,
        calendar_version=None if calendar is None else calendar.version,
        now=now,
        since_at=at - 1,
        anchor=at if trigger.spec.counts_from_save else None,
    )
    store_jobs.set_paused(conn, job.id, paused=False, now=now)
    return trigger.id


def _note(
    conn: sa.Connection,
    actor: Actor,
    audit_id: int,
    action: str,
    job: Job,
    detail: Mapping[str, object],
) -> None:
    write_audit(
        conn,
        id=audit_id,
        actor=actor,
        action=action,
        executor_id=job.executor_id,
        object_id=job.id,
        detail=detail,
    )
