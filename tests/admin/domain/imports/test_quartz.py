"""What Quartz wrote into its tables, read and mapped: fires, calendars, data, and what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.quartz import fires, write_tables
from tests.support.quartz.compare import ReadQuartz, differing_triggers, read_quartz
from tickwheel_admin.domain.imports.quartz.java_stream import BadJavaStream, read_java
from tickwheel_admin.domain.imports.quartz.job_data import read_job_data
from tickwheel_admin.domain.imports.quartz.jobs import QuartzRules, map_quartz_job
from tickwheel_admin.domain.imports.quartz.time_zones import zone_name
from tickwheel_admin.domain.imports.quartz.triggers import (
    CalendarZones,
    NotCarried,
    map_trigger,
)
from tickwheel_admin.domain.input.job import read_job


@pytest.fixture(scope="module")
def quartz(tmp_path_factory: pytest.TempPathFactory) -> ReadQuartz:
    url = f"sqlite:///{tmp_path_factory.mktemp('quartz') / 'quartz.db'}"
    write_tables(url)
    return read_quartz(url)


def test_the_next_50_fires_of_each_trigger_are_those_of_quartz(quartz: ReadQuartz) -> None:
    assert differing_triggers(quartz, fires()) == []


def test_a_month_that_was_short_once_is_counted_from_there(quartz: ReadQuartz) -> None:
    (trigger,) = (each for each in quartz.triggers() if each.name == "month-end")
    expected = [at // 1_000 for at in fires()[trigger.label]][2:]
    later = replace(trigger, next_fire_at=expected[0] * 1_000)
    assert quartz.next_fires(later, expected[0] * 1_000 - 1, 48) == expected


def test_states_priorities_and_misfires(quartz: ReadQuartz) -> None:
    found = {}
    for trigger in quartz.jobs["states"].triggers:
        mapped = map_trigger(trigger, quartz.mapped.zones)
        assert mapped is not None
        raw = mapped.raw
        found[trigger.name] = (raw["misfire"], raw.get("priority"), mapped.is_paused)
    assert found == {
        "policy-0": ("fire_once", 9, False),
        "policy-1": ("skip", 6, True),
        "policy-2": ("fire_once", 2, False),
        "policy-3": ("fire_all", 1, False),
        "in-paused-group": ("skip", None, True),
    }


def test_jobs(quartz: ReadQuartz) -> None:
    rules = QuartzRules(
        source="quartz:test",
        known=quartz.mapped.zones,
        handlers={"interop.Jobs$OneByOne": "close-books"},
    )
    (states,) = map_quartz_job(quartz.jobs["states"], rules)
    config, problems = read_job({"name": states.name, **states.raw})
    assert not problems
    assert (config.name, config.handler, config.blocking.strategy) == (
        "nightly.states",
        "close-books",
        "serial",
    )
    assert config.description.startswith("Closes the books\nnightly.policy-0: number 0\n")
    assert (config.retry.retries, config.retry.outcomes, config.retry.on_lost) == (3, (), True)
    assert config.tags == ("quartz", "nightly")
    assert [each.parameters for each in config.triggers][1:3] == ['{"number":0}', '{"number":1}']
    assert len(states.paused) == 2
    assert {each.code for each in states.notes} == {"keeps_data", "recovery"}

    refused, by_hand = map_quartz_job(quartz.jobs["by-hand"], rules)
    assert refused.reasons[0].code == "kind"
    assert (by_hand.name, by_hand.raw["triggers"]) == ("by-hand", [])
    assert by_hand.raw["handler"] == "interop.Jobs$Report"


def test_data_of_jobs(quartz: ReadQuartz) -> None:
    data, notes = read_job_data(quartz.jobs["data"].data)
    assert not notes
    assert data == {
        "text": "Grüße, 世界 🌍",
        "number": 42,
        "big": 9_007_199_254_740_993,
        "ratio": 0.25,
        "price": "12.50",
        "yes": True,
        "letter": "x",
        "nothing": None,
        "when": "2026-03-20T10:00:00.250000Z",
        "day": "2026-03-20",
        "list": ["a", 1, [True]],
        "fixed": ["b", 2],
        "array": ["c", "d"],
        "numbers": [1, 2],
        "unit": "DAY",
        "id": "123e4567-e89b-12d3-a456-426614174000",
        "nested": {"key": {"deep": 1}},
    }
    data, (left_out,) = read_job_data(quartz.jobs["odd-data"].data)
    assert data == {"fine": "yes"}
    assert "“money” is left out: it is interop.Jobs$Money" in left_out.text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            rb"""#
#Mon Nov 23
city=K\u00F6ln \= "C"\n\:
empty=
""",
            {"city": 'Köln = "C"\n:', "empty": ""},
        ),
        (b"a : 1\\\n  2\r\n! no\nb c", {"a": "12", "b": "c"}),
        (b"", {}),
        (None, {}),
    ],
)
def test_data_as_properties(content: bytes | None, expected: dict[str, Any]) -> None:
    assert read_job_data(content) == (expected, [])


def test_damaged_objects_end_as_a_remark_and_never_run_away(quartz: ReadQuartz) -> None:
    whole = quartz.jobs["data"].data or b""
    for end in range(len(whole)):
        read_job_data(whole[:end])
    for place in range(6, len(whole), 3):
        read_job_data(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
    nested = b"\xac\xed\x00\x05" + b"\x75\x72\x00\x01[" + bytes(8) + b"\x02\x00\x00\x78\x70"
    for hostile in (nested + b"\x7f\xff\xff\xff", b"\xac\xed\x00\x05" + b"\x79" * 1_000_000):
        with pytest.raises(BadJavaStream):
            read_java(hostile)


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("CTT", "Asia/Shanghai"),
        ("GMT+08:00", "Etc/GMT-8"),
        ("GMT-3", "Etc/GMT+3"),
        ("GMT+00:00", "UTC"),
    ],
)
def test_time_zones_of_java(java: str, expected: str) -> None:
    assert zone_name(java) == expected


def test_what_needs_the_zone_of_the_jvm_says_so(quartz: ReadQuartz) -> None:
    (trigger, *_) = quartz.jobs["daily"].triggers
    with pytest.raises(NotCarried, match="--timezone"):
        map_trigger(trigger, CalendarZones(jvm=None))
