"""Scenarios of alarms: evaluators of several admins, and messages that are claimed as they grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import sqlalchemy as sa

from tests.interleavings.admins import Admin
from tests.interleavings.props import EXECUTOR, FIRST_NEW_ID
from tests.interleavings.stage import PERSON, Stage, result_of
from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.notification import (
    Notification,
    NotificationItem,
    NotificationState,
)
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.runs.error import RunError
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.store.alarms import deliveries, outbox
from tickwheel_admin.store.alarms.channels import StoredChannel, add_channel
from tickwheel_admin.store.alarms.rules import add_rule
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.failures.groups import GroupJob, end_jobs
from tickwheel_admin.store.runs.errors import insert_errors
from tickwheel_shared.protocol import Outcome

CHANNEL = 1
FAILURE = 77


def _channel(stage: Stage) -> None:
    stored = StoredChannel(
        id=CHANNEL,
        name="chat",
        kind=ChannelKind.WEBHOOK,
        language="en",
        time_zone="UTC",
        settings={},
        secrets=None,
        per_minute=600,
    )
    add_channel(stage._conn, stored, now=stage.began_at)
    for name in ("alarm", "alarm_rule"):
        stage._conn.execute(sa.insert(tables.id_block).values(name=name, next_id=FIRST_NEW_ID))


async def _evaluates(admin: Admin) -> None:
    admin.engine.evaluator._needs_rules = False
    await admin.engine.evaluator.run_once()


def evaluators_share_signals(stage: Stage) -> Iterator[None]:
    """Two evaluators, and a recorder that brings more: each signal counts once."""
    first, second, recorder = [stage.admin() for _ in range(3)]
    node_id = stage.node(heard_by=stage.admins)
    job, other = stage.job(), stage.job()
    _channel(stage)
    rule = AlarmRule(id=1, name="failed", kind=AlarmKind.FAILED, channels=(CHANNEL,))
    add_rule(stage._conn, rule, now=stage.began_at)
    before = [
        AlarmSignal(
            kind=AlarmKind.FAILED,
            subject_id=900 + number,
            at=stage.began_at,
            executor_id=EXECUTOR,
            job_id=job.id,
        )
        for number in range(3)
    ]
    add_signals(stage._conn, before[:1])
    stage.afterwards(partial(_evaluates, first))  # its alarm is open
    add_signals(stage._conn, before[1:])
    runs = [stage.running(each, node_id) for each in (job, other)]
    session = recorder.links.sessions[node_id]
    said = [(session, result_of(run, Outcome.FAILED)) for run in runs]
    stage.acts(recorder, "records", recorder.records, *said)
    for admin in (first, second):
        stage.acts(admin, "evaluates", _evaluates, admin)
    yield
    recorded = sum(stage.run(run.id).state == "failed" for run in runs)
    stage.afterwards(partial(_evaluates, first), partial(_evaluates, first))
    counts = {row.job_id: row.count_ for row in stage.rows(_COUNTS)}
    expected = {job.id: len(before) + (recorded == 2), other.id: 1} if recorded else None
    if expected is not None:
        stage.expect(counts == expected, f"alarms count {counts}, not {expected}")
    stage.expect(not stage.rows(sa.select(tables.alarm_signal)), "signals are left")
    told = Counter(row.alarm_id for row in stage.rows(sa.select(tables.notification_item)))
    stage.expect(set(told.values()) == {1} and len(told) == len(counts), f"alarms are told {told}")


_COUNTS = sa.select(tables.alarm.c.job_id, tables.alarm.c["count"].label("count_"))


def messages_grow_as_they_are_claimed(stage: Stage) -> Iterator[None]:
    """What is added to a message is told by it, or by another one; nothing is told twice."""
    evaluator, *senders = [stage.admin() for _ in range(3)]
    _channel(stage)
    at = stage.began_at
    outbox.add_notifications(stage._conn, [_message(1, at), _message(2, at)])
    outbox.add_items(stage._conn, [_item(11, 1), _item(12, 2)])
    told: list[tuple[int, int]] = []  # (message, alarm), as providers saw them
    added = [stage.random.choice((1, 2)) for _ in range(2)]

    def add(conn: sa.Connection, alarm_id: int, message_id: int, spare_id: int) -> None:
        """As `engine.alarms.outbox.tell` does it."""
        items = tables.notification_item
        if conn.execute(sa.select(items).where(items.c.alarm_id == alarm_id)).first() is not None:
            return  # a commit whose answer was lost, as the evaluator finds no signal then
        if not outbox.add_to_notification(conn, message_id, items=1):
            message_id = spare_id
            outbox.add_notifications(conn, [_message(spare_id, at)])
        outbox.add_items(conn, [_item(alarm_id, message_id)])

    async def tells() -> None:
        for number, message_id in enumerate(added):
            await evaluator.seat.store.run(add, 21 + number, message_id, 31 + number)

    async def sends(admin: Admin, token: str) -> None:
        store = admin.seat.store

        def claim(conn: sa.Connection) -> list[Notification]:
            wanted = deliveries.Claim(
                admin_id=admin.admin_id, token=token, now=now_ms(conn), most=1
            )
            return deliveries.claim_notifications(conn, wanted)[0]

        for each in await store.run(claim):
            items = await store.read(deliveries.items_of, each.id, limit=99)
            told.extend((each.id, item.alarm_id) for item in items)
            await store.run(
                lambda conn, each=each: deliveries.mark_delivered(
                    conn, each.id, token=token, answer="", now=now_ms(conn)
                )
            )

    stage.acts(evaluator, "tells", tells)
    for number, admin in enumerate(senders):
        stage.acts(admin, "sends", sends, admin, f"token-{number}")
    yield
    for number in range(4):
        stage.afterwards(partial(sends, evaluator, f"after-{number}"))
    seen = Counter(alarm_id for _, alarm_id in told)
    stored = {row.alarm_id for row in stage.rows(sa.select(tables.notification_item))}
    sending = [row for row in stage.rows(sa.select(tables.notification)) if row.state == "sending"]
    if not sending:  # a claim whose answer was lost is sent again when its lease is over
        stage.expect(set(seen) == stored, f"told of {dict(seen)}, to be told {stored}")
    stage.expect(not seen or max(seen.values()) == 1, f"told twice: {told}")


def _message(message_id: int, at: int) -> Notification:
    return Notification(
        id=message_id,
        channel_id=CHANNEL,
        executor_id=EXECUTOR,
        message_id=f"m-{message_id}",
        state=NotificationState.WAITING,
        items=1,
        due_at=at - 1,
        attempts=0,
        written_at=at,
    )


def _item(alarm_id: int, message_id: int) -> NotificationItem:
    return NotificationItem(
        channel_id=CHANNEL,
        alarm_id=alarm_id,
        occasion=Occasion.OPENED,
        number=0,
        notification_id=message_id,
    )


def failures_are_counted_edited_and_resolved(stage: Stage) -> Iterator[None]:
    """Two evaluators count one failure while one admin looks for its end, and two people edit and
    resolve it: every run counts once, and of two edits one holds.
    """
    first, second, looking, *people = [stage.admin() for _ in range(5)]
    jobs = [stage.job(), stage.job()]
    for name in ("alarm", "alarm_rule"):
        stage._conn.execute(sa.insert(tables.id_block).values(name=name, next_id=FIRST_NEW_ID))
    insert_errors(stage._conn, [RunError(id=FAILURE, executor_id=EXECUTOR, text="refused")])
    failed = [stage.queued(jobs[number % 2]) for number in range(4)]
    changes = {"state": "failed", "error_id": FAILURE, "ended_at": stage.began_at}
    for run in failed:
        stage._conn.execute(sa.update(tables.run).where(tables.run.c.id == run.id).values(changes))
    signals = [
        AlarmSignal(
            kind=AlarmKind.FAILED,
            subject_id=run.id,
            at=stage.began_at,
            executor_id=EXECUTOR,
            job_id=run.job_id,
        )
        for run in failed
    ]
    add_signals(stage._conn, signals[:1])
    stage.afterwards(partial(_evaluates, first))  # the group stands with one run of one job
    seen = _jobs_of_failure(stage)
    add_signals(stage._conn, signals[1:])

    async def ends() -> None:
        await looking.seat.store.run(end_jobs, seen, now=stage.began_at + 1)

    async def edits(admin: Admin, name: str) -> None:
        groups = FailureGroups(admin.seat.store, admin.ids, admin.events)
        with suppress(Conflict):
            await groups.edit(PERSON, FAILURE, owner=name, notes=f"of {name}", version=1)

    for admin in (first, second):
        stage.acts(admin, "evaluates", _evaluates, admin)
    stage.acts(looking, "ends", ends)
    for admin, name in zip(people, ("ann", "bo"), strict=True):
        stage.acts(admin, "edits", edits, admin, name)
    yield
    stage.afterwards(partial(_evaluates, first), partial(_evaluates, first))
    stage.expect(not stage.rows(sa.select(tables.alarm_signal)), "signals are left")
    [group] = stage.rows(sa.select(tables.failure_group))
    counted = {each.job_id: each.runs for each in _jobs_of_failure(stage)}
    # Ended before the others were counted, it came back with these.
    wanted = 3 if group.returns else 4
    stage.expect(group.runs == wanted, f"{group.runs} runs are counted, not {wanted}")
    stage.expect(sum(counted.values()) == group.runs, f"jobs count {counted} of {group.runs}")
    stage.expect(group.jobs == len(counted) == 2, f"{group.jobs} jobs, and rows of {counted}")
    stage.expect(not group.is_resolved, "it is resolved, and runs failed after that")
    if group.version > 1:  # neither was given up by the database
        stage.expect(group.version == 2, f"version 1 was edited to version {group.version}")
        stage.expect(group.notes == f"of {group.owner}", f"{group.owner}: {group.notes}")


def _jobs_of_failure(stage: Stage) -> list[GroupJob]:
    rows = stage.rows(sa.select(tables.failure_group_job))
    return [GroupJob(**row._asdict()) for row in rows]


SCENARIOS = (
    evaluators_share_signals,
    messages_grow_as_they_are_claimed,
    failures_are_counted_edited_and_resolved,
)
