"""What Quartz wrote into its tables, read and mapped: fires, calendars, data, and what is left."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.domain.imports.java_writer import (
    MAGIC,
    block,
    bytes_array,
    java_object,
    job_data,
    shared_lists,
    text,
)
from tests.support.quartz import fires, write_tables
from tests.support.quartz.compare import ReadQuartz, differing_triggers, read_quartz
from tickwheel_admin.domain.imports.quartz.calendars import map_calendars
from tickwheel_admin.domain.imports.quartz.java_objects import BadJavaStream
from tickwheel_admin.domain.imports.quartz.java_stream import read_java
from tickwheel_admin.domain.imports.quartz.job_data import read_job_data
from tickwheel_admin.domain.imports.quartz.jobs import QuartzRules, map_quartz_job
from tickwheel_admin.domain.imports.quartz.records import QuartzCalendar
from tickwheel_admin.domain.imports.quartz.time_zones import zone_name
from tickwheel_admin.domain.imports.quartz.triggers import (
    CalendarZones,
    NotCarried,
    map_trigger,
)
from tickwheel_admin.domain.input.job import read_job
from tickwheel_admin.domain.jobs.secret_references import references_of, resolve


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


def test_what_looks_like_a_secret_is_text(quartz: ReadQuartz) -> None:
    trigger = replace(quartz.jobs["states"].triggers[0], data=b"url = ${secret.B}/$${secret.B}")
    stored = replace(quartz.jobs["states"], data=b"key: ${secret.A}", triggers=(trigger,))
    rules = QuartzRules(source="quartz:test", known=quartz.mapped.zones)
    (found,) = map_quartz_job(stored, rules)
    config, problems = read_job({"name": found.name, **found.raw})
    assert not problems
    assert references_of(config) == []
    given = resolve(config, config.triggers[0].parameters, {"A": "geheim", "B": "geheim"})
    assert json.loads(given) == {"url": "${secret.B}/$${secret.B}"}


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


def test_objects_that_share_others_cost_no_more_than_they_hold() -> None:
    few = job_data(shared_lists(3, first_handle=3))
    assert read_job_data(few) == (
        {"key": [[["x"] * 2] * 2] * 2},
        [],
    )
    many = shared_lists(49, first_handle=3)
    data, (told,) = read_job_data(job_data(many))
    assert (data, told.text) == ({}, "data “key” is left out: it is too much")
    large = java_object("java.util.ArrayList", None, text("x" * 60_000), *[SAME_TEXT] * 100)
    assert read_job_data(job_data(large))[0] == {}
    zone = java_object("sun.util.calendar.ZoneInfo", {"ID": ("L", many)})
    calendar = java_object("org.quartz.impl.calendar.HolidayCalendar", {"timeZone": ("L", zone)})
    (found,) = map_calendars([QuartzCalendar(name="c", content=MAGIC + calendar)], "UTC").calendars
    assert found.reasons[0].text == "it holds an object where a text belongs"


SAME_TEXT = b"\x71\x00\x7e\x00\x05"


@pytest.mark.parametrize(
    "value",
    [
        java_object("java.io.File", {"path": ("L", java_object("java.lang.Object"))}),
        java_object("java.io.File"),
        java_object("java.time.Ser", None, b"\x70"),
        java_object("java.time.Ser", None, block(b"\x03" + b"\x7f" * 6)),
        java_object("java.time.Ser", None, block(b"\x02" + b"\x7f" * 12)),
        java_object("java.util.Date", None, block(b"\x7f" * 8)),
        java_object(
            "java.math.BigDecimal",
            {
                "scale": ("I", b"\x80\x00\x00\x00"),
                "intVal": (
                    "L",
                    java_object(
                        "java.math.BigInteger",
                        {
                            "signum": ("I", b"\x00\x00\x00\x01"),
                            "magnitude": ("L", bytes_array(b"\x7f" * 8)),
                        },
                    ),
                ),
            },
        ),
        java_object(
            "java.util.UUID", {"mostSigBits": ("L", text("x")), "leastSigBits": ("L", b"p")}
        ),
        java_object("java.util.CollSer", {"tag": ("L", text("x"))}),
        java_object(
            "java.util.Vector", {"elementData": ("L", b"p"), "elementCount": ("I", b"abcd")}
        ),
        b"\x7e\x72\x00\x01E" + bytes(8) + b"\x12\x00\x00\x78\x70" + java_object("java.lang.Object"),
        b"\x71\x00\x00\x00\x00",
        b"\x73\x72\x00\x01A" + bytes(8) + b"\x02\x00\x01\xff",
    ],
)
def test_odd_values_are_named_and_left_out(value: bytes) -> None:
    data, (told,) = read_job_data(job_data(value))
    assert data == {}
    assert "left out: it is" in told.text


ODD = (None, "", "x", "1,2", -1, 10**30, 2**63 - 1, float("inf"), b"\xff", Decimal("1E+40"))


def test_odd_columns_concern_their_trigger_only(quartz: ReadQuartz) -> None:
    rules = QuartzRules(source="quartz:test", known=quartz.mapped.zones)
    good, *_ = quartz.jobs["states"].triggers
    for trigger in quartz.triggers():
        odd = [replace(trigger, own={**trigger.own, name: v}) for name in trigger.own for v in ODD]
        for field in ("start_at", "end_at", "next_fire_at"):
            odd += [replace(trigger, **{field: at}) for at in (-1, 2**63, -(2**70))]
        for each in odd:
            stored = replace(quartz.jobs["states"], triggers=(each, good))
            *refused, found = map_quartz_job(stored, rules)
            assert len(refused) < 2
            assert found.raw["triggers"], "the good one is there"
            read_job({"name": found.name, **found.raw})


def test_a_row_that_cannot_be_read_concerns_its_trigger_only(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'quartz.db'}"
    write_tables(url)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE QRTZ_TRIGGERS SET NEXT_FIRE_TIME = 'soon' WHERE TRIGGER_NAME = 'policy-1'"
        )
        connection.exec_driver_sql(
            "UPDATE QRTZ_TRIGGERS SET JOB_DATA = 'a=1' WHERE TRIGGER_NAME = 'policy-2'"
        )
    engine.dispose()
    read = read_quartz(url)
    rules = QuartzRules(source="quartz:test", known=read.mapped.zones)
    refused, found = map_quartz_job(read.jobs["states"], rules)
    assert refused.place == "job nightly.states, trigger nightly.policy-1"
    assert refused.reasons[0].text == "a number in its row cannot be read"
    assert [each.get("parameters") for each in found.raw["triggers"]] == [
        None,
        {"number": 0},
        {"a": "1"},
        {"number": 3},
    ]


def test_damaged_calendars_are_named(quartz: ReadQuartz) -> None:
    for stored in quartz.stored_calendars:
        for place in range(4, len(stored.content), 13):
            for content in (
                stored.content[:place],
                stored.content[:place] + b"\xff" + stored.content[place + 1 :],
                stored.content[:place] + b"\x7e" + stored.content[place + 1 :],
            ):
                map_calendars([replace(stored, content=content)], "Europe/Berlin")


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
