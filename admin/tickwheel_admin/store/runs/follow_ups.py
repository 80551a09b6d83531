"""What follows from moves of runs, written in the same transaction (guarantee G4).

A whole fire ends with its last shard, child jobs are asked for, a fixed delay is armed again, the
next run in line may be claimed, alarms get their signals, and workflows go on. Rows are locked in
the order job, trigger, run, node; the runs that are moved are locked already, then their fires,
then the workflows that they are steps of, then what follows, and the nodes last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.run_signals import signals_of_moves
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.jobs.children import follows, parameters_of_child, request_key_of
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import new_run
from tickwheel_admin.domain.planning.plan import next_after_end
from tickwheel_admin.domain.routing.strategy import Split
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.runs.run import FINAL, LIVE, Move, Origin, Run, RunState
from tickwheel_admin.domain.runs.trace import trace_of_follower
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.schedule import calendar_of
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.database.batch import update_rows
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.database.tables import ALIVE, job, trigger
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.inserts import insert_requested_runs, unused_run_ids
from tickwheel_admin.store.runs.lanes import BlockingLane, lane_of, lock_parked
from tickwheel_admin.store.runs.runs import lock_runs, move_runs, move_slots
from tickwheel_admin.store.runs.shards import count_shards, set_fire_progress
from tickwheel_admin.store.runs.workflows.advance import advance_workflows, workflows_concerned


@dataclass(slots=True, kw_only=True)
class FollowUpResult:
    """What a transaction caused beside the moves themselves."""

    queued: int = 0  # runs that may be claimed now
    steps: int = 0  # those of them that are steps of workflows
    armed: int = 0  # triggers that will fire again


def move_with_follow_ups(
    conn: sa.Connection,
    moves: Sequence[Move],
    *,
    configs: JobConfigs,
    now: int,
    run_ids: Sequence[int] = (),
) -> FollowUpResult:
    """Move locked runs, at most one move each, and do what follows from it.

    Args:
        run_ids: new ids for child runs and runs of steps.

    Raises:
        TooFewIds: more such runs are due than there are ids.
        Repeat: as `move_runs`.
    """
    followed = FollowUpResult()
    all_written: list[Move] = []
    while moves:
        written = _move_and_follow(conn, moves, followed, configs=configs, now=now, run_ids=run_ids)
        all_written += written
        ended, begun = workflows_concerned(written)
        if not ended and not begun:  # nearly always
            break
        advanced = advance_workflows(
            conn, ended=ended, begun=begun, configs=configs, now=now, run_ids=run_ids
        )
        followed.queued += advanced.queued
        followed.steps += advanced.queued
        moves = advanced.moves  # of workflows that are over, which may be steps of others
    move_slots(conn, all_written)
    return followed


def _move_and_follow(
    conn: sa.Connection,
    moves: Sequence[Move],
    followed: FollowUpResult,
    *,
    configs: JobConfigs,
    now: int,
    run_ids: Sequence[int],
) -> list[Move]:
    """All that follows but the steps of workflows; returns what was moved."""
    ended = [move for move in moves if _ends(move)]
    known = configs.get_many(conn, {_revision(move.after) for move in moves if _matters(move)})
    fire_moves, progress = _fires_of_shards(conn, ended, now=now)
    ended += [move for move in fire_moves if _ends(move)]
    if fire_moves:
        known |= configs.get_many(conn, {_revision(move.after) for move in fire_moves})
    followed.queued += _ask_children(conn, ended, known, configs, now=now, ids=run_ids)
    move_runs(conn, [*moves, *fire_moves])
    all_moves = [*moves, *fire_moves]
    signals = signals_of_moves(all_moves, now=now)
    add_signals(conn, signals + configs.watch.signals(conn, all_moves, now=now))
    set_fire_progress(conn, progress)
    followed.armed += _arm_fixed_delays(conn, ended, known, now=now)
    followed.queued += _unpark_next(conn, [*moves, *fire_moves], known, now=now)
    return [*moves, *fire_moves]


def _ends(move: Move) -> bool:
    return move.before.state not in FINAL and move.after.state in FINAL


def _matters(move: Move) -> bool:
    """Whether anything may follow, so that the job's configuration is needed."""
    return _ends(move) or _leaves_its_place(move)


def _revision(each: Run) -> tuple[int, int]:
    return each.job_id, each.job_revision


# --- fires that end with their last shard --------------------------------------------------------


def _fires_of_shards(
    conn: sa.Connection, ended: Iterable[Move], *, now: int
) -> tuple[list[Move], list[tuple[int, int, int]]]:
    """(moves of fires that are over, (fire, ended shards, all shards) of the others).

    The fire's row is locked before its shards are counted, and is written in any case: of two
    shards that end at once on two admins, the second then sees the first.
    """
    by_fire: defaultdict[int, list[Move]] = defaultdict(list)
    for move in ended:
        if move.after.fire_id is not None:
            by_fire[move.after.fire_id].append(move)
    if not by_fire:
        return [], []
    fires = lock_runs(conn, by_fire)
    states = count_shards(conn, fires)
    moves: list[Move] = []
    progress: list[tuple[int, int, int]] = []
    for fire_id, fire in fires.items():
        if fire.state in FINAL:
            continue
        counts = states[fire_id]
        for move in by_fire[fire_id]:
            counts[move.before.state] -= 1
            counts[move.after.state] += 1
        left = sum(count for state, count in counts.items() if state not in FINAL)
        if left:
            progress.append((fire_id, fire.shard_total - left, fire.shard_total))
        else:
            moves.append(run_moves.fire_ended(fire, counts, now=now))
    return moves, progress


# --- children ------------------------------------------------------------------------------------


def _ask_children(
    conn: sa.Connection,
    ended: Iterable[Move],
    known: dict[tuple[int, int], JobConfig],
    configs: JobConfigs,
    *,
    now: int,
    ids: Sequence[int],
) -> int:
    """Write the child runs; one that exists already stays as it is. Returns how many there are."""
    wanted: list[tuple[Run, int]] = []
    for move in ended:
        parent = move.after
        if parent.fire_id is not None:
            continue  # the whole fire is the parent
        for link in known[_revision(parent)].children:
            if follows(link, parent.state):
                wanted.append((parent, link.job_id))
    if not wanted:
        return 0
    unused = unused_run_ids(conn, ids)
    if len(wanted) > len(unused):
        raise TooFewIds(len(wanted) + len(ids) - len(unused))
    jobs = {
        row.id: row
        for row in conn.execute(
            sa.select(job.c.id, job.c.executor_id, job.c.revision).where(
                job.c.id.in_(sorted({job_id for _, job_id in wanted})), job.c.deleted_at == ALIVE
            )
        )
    }
    current = configs.get_many(conn, {(row.id, row.revision) for row in jobs.values()})
    children = []
    for (parent, job_id), run_id in zip(wanted, unused, strict=False):
        row = jobs.get(job_id)
        if row is None:
            continue  # deleted since; the job's page says so
        config = current[row.id, row.revision]
        child = new_run(
            config,
            id=run_id,
            executor_id=row.executor_id,
            job_id=row.id,
            revision=row.revision,
            origin=Origin.CHILD,
            scheduled_at=now,
            now=now,
        )
        children.append(
            replace(
                child,
                request_key=request_key_of(parent.id),
                parent_run_id=parent.id,
                parameters=parameters_of_child(config.parameters, parent.result),
                trace=trace_of_follower(parent),
            )
        )
    insert_requested_runs(conn, children)
    return len(children)


# --- fixed delays --------------------------------------------------------------------------------


def _arm_fixed_delays(
    conn: sa.Connection,
    ended: Iterable[Move],
    known: dict[tuple[int, int], JobConfig],
    *,
    now: int,
) -> int:
    """Set the next fire of fixed-delay triggers whose run has ended."""
    fires = {
        (move.after.trigger_id, move.after.scheduled_at)
        for move in ended
        if move.after.trigger_id is not None
        and move.after.fire_id is None
        and known[_revision(move.after)].has_fixed_delay
    }
    return arm_fixed_delays(conn, fires, now=now) if fires else 0


def arm_fixed_delays(
    conn: sa.Connection, fires: Collection[tuple[int, int | None]], *, now: int
) -> int:
    """Let fixed-delay triggers that wait for the end of a run fire again; returns how many.

    One that an edit has armed meanwhile, or that is paused, is left alone, and so is one that
    waits for another fire than the one that has ended. One whose time is over is complete.

    Args:
        fires: (trigger, instant of the fire that has ended).
    """
    rows = conn.execute(
        sa.select(
            trigger.c.id,
            trigger.c.version,
            trigger.c.spec,
            trigger.c.last_fire_at,
            trigger.c.fires,
        )
        .join(job, job.c.id == trigger.c.job_id)
        .where(
            trigger.c.id.in_(sorted({trigger_id for trigger_id, _ in fires})),
            trigger.c.next_fire_at.is_(None),
            trigger.c.state == TriggerState.ACTIVE.value,
            trigger.c.paused.is_(False),
            job.c.paused.is_(False),
        )
    )
    waiting = [
        (row, spec)
        for row in rows
        if (row.id, row.last_fire_at) in fires and (spec := spec_from_json(row.spec)).follows_runs
    ]
    calendars = read_calendars(conn, {s.calendar for _, s in waiting if s.calendar is not None})
    armed = [
        {"id": row.id, "version": row.version} | _after_end(spec, row.fires, calendars, now=now)
        for row, spec in waiting
    ]
    add_signals(
        conn,
        [
            AlarmSignal(
                kind=AlarmKind.TRIGGER_ERROR,
                subject_id=each["id"],
                number=each["version"],
                at=now,
                text=each["reason"],
            )
            for each in armed
            if each["state"] == TriggerState.ERROR.value
        ],
    )
    return update_rows(
        conn,
        trigger,
        sorted(armed, key=lambda each: each["id"]),
        # An edit or a pause meanwhile has decided otherwise; planning leaves the version alone.
        match=("id", "version"),
        values=("next_fire_at", "calendar_version", "state", "reason"),
        where="t.next_fire_at IS NULL",
    )


def _after_end(
    spec: TriggerSpec, fires: int, calendars: Mapping[str, Calendar], *, now: int
) -> dict[str, Any]:
    """A fixed delay after the end of its run."""
    try:
        calendar = calendar_of(spec, calendars)
        at = next_after_end(spec, ended_at=now, fires=fires, calendar=calendar)
    except ScheduleError as error:
        return {"state": TriggerState.ERROR.value, "reason": str(error)[:500]}
    state = TriggerState.COMPLETE if at is None else TriggerState.ACTIVE
    version = None if calendar is None else calendar.version
    return {"next_fire_at": at, "calendar_version": version, "state": state.value}


# --- parked runs ---------------------------------------------------------------------------------


def _leaves_its_place(move: Move) -> bool:
    """Whether another run of the job may start, or must be looked at, because of this move."""
    before, after = move.before, move.after
    if before.blocking_key is None or before.is_parked:
        return False
    return after.state in FINAL or (before.state in LIVE and after.state is RunState.QUEUED)


def _unpark_next(
    conn: sa.Connection,
    moves: Iterable[Move],
    known: dict[tuple[int, int], JobConfig],
    *,
    now: int,
) -> int:
    freed: defaultdict[bool, Counter[BlockingLane]] = defaultdict(Counter)
    for move in moves:
        if _leaves_its_place(move):
            config = known[_revision(move.before)]
            lane = lane_of(move.before, broadcast=config.routing.record.split is Split.PER_NODE)
            freed[config.blocking.strategy is Blocking.COVER_EARLY][lane] += 1
    unparked = 0
    for newest, lanes in freed.items():
        unparked += unpark(conn, lanes, newest=newest, now=now)
    return unparked


def unpark(
    conn: sa.Connection, lanes: dict[BlockingLane, int], *, newest: bool = False, now: int
) -> int:
    """Let the next parked runs of these lanes be claimed; returns how many.

    One too many does no harm: the claim decides again.
    """
    waiting = lock_parked(conn, lanes, newest=newest)
    move_runs(conn, [run_moves.unparked(each, now=now) for each in waiting])
    return len(waiting)
