"""Rules, alarms and the outbox as they are stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import World
from tickwheel_admin.domain.alarms.alarm import Alarm, Told
from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.notification import (
    LEASE_MS,
    Notification,
    NotificationItem,
    NotificationState,
)
from tickwheel_admin.domain.alarms.rule import AlarmRule, QuietHours, RuleLimits, RuleScope
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.store.alarms import (
    alarms,
    channels,
    deliveries,
    evaluation,
    outbox,
    rules,
    signals,
)
from tickwheel_admin.store.alarms.channels import StoredChannel
from tickwheel_admin.store.alarms.deliveries import Claim, FailedAttempt

pytestmark = pytest.mark.every_database

NOW = 1_800_000_000_000
P = ParamSpec("P")
T = TypeVar("T")


def channel(id_: int, **more: Any) -> StoredChannel:
    values: dict[str, Any] = {
        "id": id_,
        "name": f"channel {id_}",
        "kind": ChannelKind.WEBHOOK,
        "language": "en",
        "time_zone": "UTC",
        "settings": {"url": "https://example.com"},
        "secrets": "1.key.sealed",
        "per_minute": 4,
    }
    return StoredChannel(**values | more)


def alarm(id_: int, **more: Any) -> Alarm:
    values: dict[str, Any] = {
        "id": id_,
        "rule_id": 1,
        "subject": f"job:{id_}",
        "kind": AlarmKind.FAILED,
        "severity": Severity.ERROR,
        "executor_id": 7,
        "job_id": id_,
        "run_id": 70,
        "told": Told(template="“%(job)s” failed.", params={"job": "bills"}),
        "count": 1,
        "since": NOW,
        "last_at": NOW,
        "opened_at": NOW,
    }
    return Alarm(**values | more)


def notification(id_: int, **more: Any) -> Notification:
    values: dict[str, Any] = {
        "id": id_,
        "channel_id": 1,
        "executor_id": 7,
        "message_id": f"m-{id_}",
        "state": NotificationState.WAITING,
        "items": 1,
        "due_at": NOW,
        "attempts": 0,
        "written_at": NOW,
    }
    return Notification(**values | more)


@pytest.fixture
def run(world: World) -> Callable[..., Any]:
    def run(work: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kw: P.kwargs) -> T:
        return world.database.run_sync(work, *args, **kw)

    return run


def test_rules_are_read_as_they_were_written_and_found_by_place(run: Callable[..., Any]) -> None:
    full = AlarmRule(
        id=1,
        name="one",
        kind=AlarmKind.DEADLINE_MISSED,
        scope=RuleScope.JOB,
        job_id=70,
        severity=Severity.WARNING,
        channels=(1, 2),
        limits=RuleLimits(by="07:30:00", calendar="workdays"),
        quiet=QuietHours(from_time="22:00:00", to_time="06:00:00", pierced_by_errors=True),
        escalate_to=(3,),
        escalate_after_s=900,
        next_at=NOW,
    )
    others = [
        AlarmRule(id=2, name="two", kind=AlarmKind.FAILED, channels=(1,)),
        AlarmRule(id=3, name="3", kind=AlarmKind.LOST, scope=RuleScope.EXECUTOR, executor_id=7),
        AlarmRule(id=4, name="4", kind=AlarmKind.LOST, scope=RuleScope.TAG, tag="night"),
        AlarmRule(id=5, name="5", kind=AlarmKind.LOST, scope=RuleScope.JOB, job_id=71),
    ]
    for each in (full, *others):
        run(rules.add_rule, each, now=NOW)
    assert run(rules.get_rule, 1) == full

    def of(**place: Any) -> list[int]:
        values: dict[str, Any] = {"executor_ids": (), "job_ids": (), "tags": ()}
        return sorted(each.id for each in run(rules.rules_of_places, **values | place))

    assert of() == [2]
    assert of(executor_ids=[7, 8], job_ids=[70], tags=["night"]) == [1, 2, 3, 4]
    assert [r.id for r in run(rules.rules_of_kinds, [AlarmKind.LOST])] == [3, 4, 5]
    assert [r.id for r in run(rules.rules_with_deadlines, before=NOW, limit=9)] == [1]
    assert run(rules.set_next_deadline, full, NOW + 1)
    assert not run(rules.set_next_deadline, full, NOW + 2)  # somebody else was faster
    renamed = replace(full, name="uno")
    assert run(rules.change_rule, renamed, now=NOW)
    assert not run(rules.change_rule, renamed, now=NOW)  # it has another version by now
    assert run(rules.get_rule, 1).next_at is None
    assert run(rules.delete_rule, 1, now=NOW)
    assert run(rules.get_rule, 1) is None
    assert run(rules.rule_names, [1]) == {1: "uno"}


def test_a_signal_is_kept_once_and_taken_alone(run: Callable[..., Any]) -> None:
    first = AlarmSignal(kind=AlarmKind.FAILED, subject_id=1, number=1, at=NOW, job_id=7)
    again = AlarmSignal(kind=AlarmKind.FAILED, subject_id=1, number=2, at=NOW + 1)
    other = AlarmSignal(kind=AlarmKind.LOST, subject_id=1, number=1, at=NOW + 2, text="node")
    run(signals.add_signals, [first, again])
    run(signals.add_signals, [first, other])
    assert run(signals.oldest_signals, limit=9) == [first, again, other]
    run(signals.delete_signals, [first])
    assert run(signals.oldest_signals, limit=9) == [again, other]
    assert run(signals.remove_stale_signals, before=NOW + 2, limit=9) == 1
    assert run(signals.oldest_signals, limit=9) == [other]


def test_there_is_one_open_alarm_for_each_rule_and_subject(run: Callable[..., Any]) -> None:
    run(alarms.insert_alarms, [alarm(1), alarm(2)])
    with pytest.raises(sa.exc.IntegrityError):
        run(alarms.insert_alarms, [alarm(3, subject="job:1")])
    found = run(alarms.lock_open_alarms, [(1, "job:1"), (1, "job:9"), (2, "job:1")])
    assert found == {(1, "job:1"): alarm(1)}
    assert run(alarms.acknowledge_alarm, 1, by="ada", now=NOW + 1)
    assert not run(alarms.acknowledge_alarm, 1, by="bob", now=NOW + 2)
    counted = replace(alarm(1), count=5, last_at=NOW + 9, run_id=71)
    run(alarms.update_alarms, [counted])
    kept = run(alarms.get_alarm, 1)
    assert (kept.count, kept.run_id, kept.acknowledged_by) == (5, 71, "ada")
    assert run(alarms.close_alarms, [1], now=NOW + 10) == 1
    assert run(alarms.close_alarms, [1], now=NOW + 11) == 0
    run(alarms.insert_alarms, [alarm(3, subject="job:1")])  # it happens again
    assert [a.id for a in run(alarms.page_alarms, limit=9)] == [3, 2]
    assert [a.id for a in run(alarms.page_alarms, only_open=False, limit=9)] == [1, 3, 2]
    assert run(alarms.page_alarms, executor_ids=[8], limit=9) == []
    assert [a.id for a in run(alarms.page_alarms, before=(NOW, 3), limit=9)] == [2]
    assert run(alarms.count_open_alarms) == 2
    assert run(alarms.remove_old_alarms, before=NOW + 99, limit=9) == [1]


def items(*pairs: tuple[int, int]) -> list[NotificationItem]:
    return [
        NotificationItem(
            channel_id=1,
            alarm_id=alarm_id,
            occasion=Occasion.OPENED,
            number=0,
            notification_id=notification_id,
        )
        for alarm_id, notification_id in pairs
    ]


def claim(now: int, token: str = "a", most: int = 9) -> Claim:
    return Claim(admin_id=1, token=token, now=now, most=most)


def test_a_message_is_claimed_once_and_its_lease_ends(run: Callable[..., Any]) -> None:
    run(channels.add_channel, channel(1), now=NOW)
    assert run(channels.get_channel, 1) == channel(1, created_at=NOW, updated_at=NOW)
    run(outbox.add_notifications, [notification(1)])
    assert run(outbox.add_to_notification, 1, items=1)
    run(outbox.add_items, items((5, 1), (6, 1)))
    run(outbox.add_items, items((5, 1)))  # told already
    assert run(deliveries.claim_notifications, claim(NOW - 1)) == ([], None)
    claimed, _ = run(deliveries.claim_notifications, claim(NOW))
    assert [each.id for each in claimed] == [1]
    assert not run(outbox.add_to_notification, 1, items=1)  # it takes no more
    assert run(deliveries.claim_notifications, claim(NOW, "b")) == ([], None)
    late, _ = run(deliveries.claim_notifications, claim(NOW + LEASE_MS, "b"))
    assert [each.message_id for each in late] == ["m-1"]
    mark = deliveries.mark_delivered
    assert not run(mark, 1, token="a", answer="ok", now=NOW)
    assert run(mark, 1, token="b", answer="ok", now=NOW)
    assert run(deliveries.next_delivery_at) is None
    assert {each.alarm_id for each in run(deliveries.items_of, 1, limit=9)} == {5, 6}
    assert run(deliveries.count_items, 1) == 2
    assert run(deliveries.remove_old_notifications, before=NOW + 1, limit=9) == 1


def test_what_is_beyond_the_rate_becomes_one_message(run: Callable[..., Any]) -> None:
    run(channels.add_channel, channel(1), now=NOW)
    run(outbox.add_notifications, [notification(n, due_at=NOW + n) for n in range(1, 8)])
    run(outbox.add_items, items(*((10 + n, n) for n in range(1, 8))))
    claimed, next_at = run(deliveries.claim_notifications, claim(NOW + 10))
    assert [each.id for each in claimed] == [1, 2]  # half of a minute's four at once
    assert next_at is None
    assert {i.alarm_id for i in run(deliveries.items_of, 2, limit=9)} == set(range(12, 18))
    run(outbox.add_notifications, [notification(8, due_at=NOW)])
    assert run(deliveries.claim_notifications, claim(NOW + 10, "b")) == ([], NOW + 30_010)
    claimed, _ = run(deliveries.claim_notifications, claim(NOW + 30_010, "b"))
    assert [each.id for each in claimed] == [8]


def test_failures_are_tried_again_and_given_up_after_a_day(run: Callable[..., Any]) -> None:
    run(channels.add_channel, channel(1, per_minute=600), now=NOW)
    run(outbox.add_notifications, [notification(1)])
    now = NOW
    pauses: list[int] = []
    while True:
        [sent], _ = run(deliveries.claim_notifications, claim(now))
        failure = FailedAttempt(why="no answer")
        assert run(deliveries.mark_failed, sent, token="a", failure=failure, now=now)
        due_at = run(deliveries.next_delivery_at)
        if due_at is None:
            break
        pauses.append(due_at - now)
        now = due_at
    assert pauses[:3] == [1_000, 2_000, 4_000]
    assert max(pauses) == 3_600_000
    assert sum(pauses) >= 86_400_000
    dead = run(deliveries.get_notification, 1)
    assert (dead.state, dead.error) == (NotificationState.DEAD, "no answer")
    assert run(deliveries.send_again, 1, now=now)
    [sent], _ = run(deliveries.claim_notifications, claim(now))
    assert sent.message_id == "m-1"
    permanent = FailedAttempt(why="wrong address", permanent=True)
    run(deliveries.mark_failed, sent, token="a", failure=permanent, now=now)
    assert run(deliveries.next_delivery_at) is None


def test_a_deleted_channel_ends_its_messages(run: Callable[..., Any]) -> None:
    run(channels.add_channel, channel(1), now=NOW)
    run(outbox.add_notifications, [notification(1)])
    assert run(channels.delete_channel, 1, now=NOW)
    assert run(channels.get_channel, 1) is None
    assert run(deliveries.claim_notifications, claim(NOW)) == ([], None)
    assert run(deliveries.get_notification, 1).error == deliveries.UNUSABLE


def test_what_looks_remember_is_replaced_as_a_whole(run: Callable[..., Any]) -> None:
    assert run(evaluation.read_seen_since) == {}
    for seen in ({"full": {7: NOW}, "no_nodes": {8: NOW}}, {"full": {9: NOW + 1}}, {}):
        run(evaluation.write_seen_since, seen)
        assert run(evaluation.read_seen_since) == seen


def test_lists_of_some_executors_and_what_a_message_tells_of_them(run: Callable[..., Any]) -> None:
    run(alarms.insert_alarms, [alarm(n, executor_id=n % 3, last_at=NOW + n) for n in range(1, 10)])
    first = run(alarms.page_alarms, executor_ids=[1, 2], limit=4)
    assert [each.id for each in first] == [8, 7, 5, 4]
    rest = run(alarms.page_alarms, executor_ids=[1, 2], before=(NOW + 4, 4), limit=4)
    assert [each.id for each in rest] == [2, 1]
    run(alarms.close_alarms, [7], now=NOW)
    assert [each.id for each in run(alarms.page_alarms, executor_ids=[1], limit=9)] == [4, 1]
    of_all = run(alarms.page_alarms, executor_ids=[1], only_open=False, limit=9)
    assert [each.id for each in of_all] == [7, 4, 1]
    assert run(alarms.count_open_alarms, executor_ids=[1, 2]) == 5

    told = [(n, occasion) for n in (1, 2, 4) for occasion in (Occasion.OPENED, Occasion.RECOVERED)]
    items = [
        NotificationItem(channel_id=5, alarm_id=n, occasion=occasion, number=0, notification_id=9)
        for n, occasion in told
    ]
    run(outbox.add_items, items)
    seen, before = [], None
    while page := run(deliveries.items_of, 9, executor_ids=[1], before=before, limit=1):
        before = (page[0].alarm_id, page[0].occasion.value)
        seen.append((page[0].alarm_id, page[0].occasion))
    assert seen == [(n, each) for n in (4, 1) for each in (Occasion.OPENED, Occasion.RECOVERED)]
    assert run(deliveries.count_items, 9, executor_ids=[1]) == 2
    assert run(deliveries.count_items, 9) == 3
