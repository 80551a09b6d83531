"""Scenarios of alarms: evaluators of several admins, and messages that are claimed as they grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import sqlalchemy as sa

from tests.interleavings.admins import Admin
from tests.interleavings.props import EXECUTOR, FIRST_NEW_ID
from tests.interleavings.stage import Stage, result_of
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
from tickwheel_admin.store.alarms import deliveries, outbox
from tickwheel_admin.store.alarms.channels import StoredChannel, add_channel
from tickwheel_admin.store.alarms.rules import add_rule
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_shared.protocol import Outcome

CHANNEL = 1


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


SCENARIOS = (evaluators_share_signals, messages_grow_as_they_are_claimed)
