"""Rules of alarms: what is refused, which of them apply, deadlines, quiet hours, rates."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tickwheel_admin.domain.alarms import pace
from tickwheel_admin.domain.alarms.deadlines import counts_from, deadline_schedule
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.matching import AlarmPlace, RuleBook
from tickwheel_admin.domain.alarms.notification import MAX_PAUSE_MS, pause_ms
from tickwheel_admin.domain.alarms.own_text import OwnTextError, check_own_text, render_own_text
from tickwheel_admin.domain.alarms.quiet import quiet_until
from tickwheel_admin.domain.alarms.rule import (
    RULE_KINDS,
    AlarmRule,
    QuietHours,
    RuleLimits,
    RuleScope,
    limits_from_json,
    limits_to_json,
    quiet_from_json,
    quiet_to_json,
    scopes_of,
)
from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSense, CalendarSpec
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.alarm_rule import alarm_rule_to_raw, parse_alarm_rule

BERLIN = "Europe/Berlin"
WORKDAYS = Calendar(
    name="workdays",
    version=1,
    spec=CalendarSpec(sense=CalendarSense.INCLUDE, weekdays=(1, 2, 3, 4, 5)),
)


def at(text: str, zone: str = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


# --- input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RULE_KINDS)
def test_every_kind_is_read_as_it_was_written(kind: AlarmKind) -> None:
    limits = {
        AlarmKind.STARTED_LATE: {"seconds": 60},
        AlarmKind.SLOW: {"factor": 2.5},
        AlarmKind.DEADLINE_MISSED: {"by": "7:30", "timezone": BERLIN, "calendar": "workdays"},
    }.get(kind, {})
    raw: dict[str, Any] = {"name": "a", "kind": kind.value, "limits": limits}
    if RuleScope.INSTALLATION not in scopes_of(kind):
        with pytest.raises(InvalidInput, match="can only be about"):
            parse_alarm_rule(raw)
        raw |= {"scope": "executor", "executor_id": 7}
    rule = parse_alarm_rule(raw)
    assert rule.kind is kind
    assert parse_alarm_rule(alarm_rule_to_raw(rule)) == rule
    assert limits_from_json(limits_to_json(rule.limits)) == rule.limits


def test_a_full_rule_is_read_as_it_was_written() -> None:
    raw = {
        "name": "nightly",
        "kind": "failed",
        "scope": "tag",
        "tag": "night",
        "executor_id": 7,
        "additional": True,
        "severity": "warning",
        "channels": [1, 2],
        "limits": {},
        "own_text": "Call {{ owner }}.",
        "quiet": {
            "from_time": "22:00:00",
            "to_time": "06:00:00",
            "calendar": "workdays",
            "timezone": BERLIN,
            "pierced_by_errors": True,
        },
        "repeat_every_seconds": 3600,
        "escalate_after_seconds": 900,
        "escalate_to": [3],
        "tell_recovery": False,
        "group_window_seconds": 30,
        "enabled": False,
    }
    rule = parse_alarm_rule(raw)
    assert alarm_rule_to_raw(rule) == raw | {"job_id": None}
    assert quiet_from_json(quiet_to_json(rule.quiet)) == rule.quiet


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_alarm_rule(
            {
                "name": "",
                "kind": "slow",
                "scope": "executor",
                "tag": "x",
                "quiet": {"from_time": "22:00"},
                "limits": {"by": "25:00"},
                "escalate_to": ["a"],
                "channels": "mail",
                "own_text": "{{ secrets }}",
                "sevrity": "error",
            }
        )
    assert {each.field for each in refused.value.problems} >= {
        "name", "tag", "executor_id", "quiet.to_time", "limits.by", "limits.seconds",
        "escalate_to[0]", "channels", "own_text", "sevrity",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"kind": "admin_gone", "scope": "job", "job_id": 1}, "scope"),
        ({"kind": "no_nodes", "scope": "tag", "tag": "x"}, "scope"),
        ({"kind": "approval"}, "kind"),
        ({"kind": "failed", "escalate_after_seconds": 60}, "escalate_to"),
        ({"kind": "failed", "quiet": {"from_time": "1:00", "to_time": "1:00"}}, "quiet.to_time"),
        ({"kind": "failed", "quiet": {}}, "quiet.from_time"),
        ({"kind": "failed", "quiet": {"calendar": "a", "timezone": "Mars"}}, "quiet.timezone"),
        ({"kind": "deadline_missed"}, "limits.by"),
        ({"kind": "failed", "limits": {"count": 3}}, "limits.count"),
        ({"kind": "failed", "repeat_every_seconds": 1}, "repeat_every_seconds"),
    ],
)
def test_what_does_not_fit_together_is_refused(raw: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_alarm_rule({"name": "a", **raw})
    assert [each.field for each in refused.value.problems] == [field]


# --- matching ------------------------------------------------------------------------------------


def rule(id_: int, scope: RuleScope = RuleScope.INSTALLATION, **more: Any) -> AlarmRule:
    return AlarmRule(id=id_, name=f"rule {id_}", kind=AlarmKind.FAILED, scope=scope, **more)


def test_the_nearest_rule_wins_and_additional_ones_count_beside_it() -> None:
    rules = [
        rule(1),
        rule(2, RuleScope.EXECUTOR, executor_id=7),
        rule(3, RuleScope.TAG, tag="night"),
        rule(4, RuleScope.JOB, job_id=70),
        rule(5, additional=True),
        rule(6, RuleScope.JOB, job_id=71, enabled=False),
        rule(7, RuleScope.TAG, tag="night", executor_id=8),
    ]
    book = RuleBook(rules)

    def ids(**place: Any) -> list[int]:
        return sorted(each.id for each in book.of(AlarmKind.FAILED, AlarmPlace(**place)))

    assert ids(executor_id=7, job_id=70, tags=("night",)) == [4, 5]
    assert ids(executor_id=7, job_id=72, tags=("night",)) == [3, 5]
    assert ids(executor_id=8, job_id=72, tags=("night", "day")) == [3, 5, 7]
    assert ids(executor_id=7, job_id=71) == [2, 5]
    assert ids(executor_id=9, job_id=1) == [1, 5]
    assert book.of(AlarmKind.LOST, AlarmPlace(executor_id=7, job_id=70)) == []


# --- deadlines -----------------------------------------------------------------------------------


def test_deadlines_follow_wall_time_calendar_and_clock_changes() -> None:
    limits = RuleLimits(by="02:30:00", timezone=BERLIN, calendar="workdays")
    every_day = deadline_schedule(limits)
    # Clocks jump from 02:00 to 03:00: due where they go on. Shown twice: the first counts.
    assert every_day.next_after(at("2026-03-28T03:00")) == at("2026-03-29T03:00")
    first = int(datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp() * 1000)
    assert every_day.next_after(at("2026-10-24T03:00")) == first
    assert every_day.next_after(first) == at("2026-10-26T02:30")
    workdays = deadline_schedule(limits, WORKDAYS)
    assert workdays.next_after(at("2026-10-23T03:00")) == at("2026-10-26T02:30")  # a Friday


def test_a_success_counts_from_the_start_of_the_day_or_as_long_before_as_is_said() -> None:
    limits = RuleLimits(by="07:30:00", timezone=BERLIN)
    assert counts_from(limits, at("2026-03-29T07:30")) == at("2026-03-29T00:00")
    shorter = RuleLimits(by="07:30:00", timezone=BERLIN, seconds=3600)
    assert counts_from(shorter, at("2026-03-29T07:30")) == at("2026-03-29T06:30")
    # Clocks in Santiago go forward at midnight: the day begins at one.
    there = RuleLimits(by="07:30:00", timezone="America/Santiago")
    day = at("2026-09-06T07:30", "America/Santiago")
    assert counts_from(there, day) == at("2026-09-06T01:00", "America/Santiago")


# --- quiet hours ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-06-01T21:59", "2026-06-01T21:59"),
        ("2026-06-01T22:00", "2026-06-02T06:00"),
        ("2026-06-02T05:59", "2026-06-02T06:00"),
        ("2026-06-02T06:00", "2026-06-02T06:00"),
        ("2026-03-29T23:00", "2026-03-30T06:00"),
        ("2026-06-06T12:00", "2026-06-08T06:00"),  # a Saturday: until Monday, and its window
    ],
)
def test_quiet_hours_end(now: str, until: str) -> None:
    quiet = QuietHours(from_time="22:00:00", to_time="06:00:00", timezone=BERLIN)
    assert quiet_until(quiet, at(now), calendar=WORKDAYS) == at(until)


@pytest.mark.parametrize(
    ("to_time", "now", "until"),
    [
        # Clocks jump from 02:00 to 03:00, which is 01:00 UTC.
        ("06:00:00", "2026-03-28T22:30", "2026-03-29T04:00"),
        ("06:00:00", "2026-03-29T01:00", "2026-03-29T04:00"),
        ("02:30:00", "2026-03-28T22:30", "2026-03-29T01:00"),  # not shown: where they go on
        ("02:30:00", "2026-03-29T01:00", "2026-03-29T01:00"),
        # From 03:00 back to 02:00, which is 01:00 UTC: 02:30 is shown twice.
        ("06:00:00", "2026-10-24T21:00", "2026-10-25T05:00"),
        ("02:30:00", "2026-10-24T21:00", "2026-10-25T00:30"),
        ("02:30:00", "2026-10-25T00:45", "2026-10-25T00:45"),
        ("02:30:00", "2026-10-25T01:10", "2026-10-25T01:30"),  # they show 02:10 once more
    ],
)
def test_quiet_hours_in_nights_in_which_clocks_change(to_time: str, now: str, until: str) -> None:
    quiet = QuietHours(from_time="22:00:00", to_time=to_time, timezone=BERLIN)
    assert quiet_until(quiet, at(now, "UTC")) == at(until, "UTC")


def test_hours_that_never_end_hold_nothing_back() -> None:
    spec = CalendarSpec(sense=CalendarSense.INCLUDE, dates=("1990-01-01",))
    never = Calendar(name="never", version=1, spec=spec)
    now = at("2026-06-01T12:00")
    assert quiet_until(QuietHours(calendar="never"), now, calendar=never) == now
    assert quiet_until(QuietHours(calendar="gone"), now) == now


# --- rates and pauses ----------------------------------------------------------------------------


@pytest.mark.parametrize("per_minute", [1, 2, 3, 18, 20, 600])
def test_no_minute_has_more_messages_than_allowed(per_minute: int) -> None:
    sent: list[int] = []
    paced_to = 0
    for now in range(1_000_000, 1_300_000, 50):
        messages = pace.allowed(per_minute, paced_to=paced_to, now=now)
        if messages:
            paced_to = pace.paced(per_minute, paced_to=paced_to, now=now, messages=messages)
            sent += [now] * messages
        elif not pace.allowed(
            per_minute, paced_to=paced_to, now=pace.next_at(per_minute, paced_to=paced_to, now=now)
        ):
            raise AssertionError("nothing may be sent when it was said to be")
    within = [sum(1 for at in sent if start <= at < start + 60_000) for start in sent]
    assert max(within) <= per_minute
    assert len(sent) >= 2 * per_minute  # in five minutes


def test_pauses_grow_to_an_hour_and_follow_the_provider() -> None:
    assert [pause_ms(n) for n in (1, 2, 3, 4)] == [1_000, 2_000, 4_000, 8_000]
    assert pause_ms(40) == MAX_PAUSE_MS
    assert pause_ms(1, asked_seconds=30) == 30_000
    assert pause_ms(1, asked_seconds=-5) == 1_000
    assert pause_ms(1, asked_seconds=1e12) == MAX_PAUSE_MS


# --- own texts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "{% for x in job %}{{ x }}{% endfor %}",
        "{{ 'a' * 10**9 }}",
        "{{ job.__class__ }}",
        "{{ job['x'] }}",
        "{{ secrets }}",
        "{{ job|center(99999) }}",
        "{{ job() }}",
        "{% set x = 1 %}",
        "{% include 'x' %}",
        "{{ job",
        "{{ " + "(" * 500 + "job" + ")" * 500 + " }}",
    ],
)
def test_own_texts_hold_nothing_that_could_run_long_or_reach_out(source: str) -> None:
    if source.count("(") > 100:  # refused for its depth, or harmless; never an error of ours
        render_own_text(source, {"job": "x"})
        return
    with pytest.raises(OwnTextError):
        check_own_text(source)
    assert render_own_text(source, {"job": "x"}) == ""


def test_an_own_text_is_rendered_and_bounded() -> None:
    source = "{{ job|upper }}{% if count > 2 %} again{% endif %}{{ error|default('') }}"
    assert render_own_text(source, {"job": "bills", "count": 3}) == "BILLS again"
    assert render_own_text("{{ count > job }}", {"job": "bills", "count": 3}) == ""
    assert len(render_own_text("{{ error }}" * 150, {"error": "x" * 10_000})) == 2_000
