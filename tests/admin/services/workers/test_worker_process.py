"""Files are read by a process of its own, which is ended when it takes too long."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.domain.errors import InvalidInput, TooMany
from tickwheel_admin.services.calendars.service import CalendarFormat, Calendars
from tickwheel_admin.services.calendars.worker.process import WorkerProcess
from tickwheel_admin.store.database.ids import Ids

# The library looks for an instance until the year 9999, for two seconds each.
BARREN = "BEGIN:VEVENT\nUID:1\nDTSTART:19000101T000000\nRRULE:{rule}\nEND:VEVENT\n"
NEVER = BARREN.format(rule="FREQ=WEEKLY;BYSETPOS=200;BYDAY=MO")
SOUND = BARREN.format(rule="FREQ=YEARLY")
SECONDLY_ZONE = (
    "BEGIN:VTIMEZONE\nTZID:X\nBEGIN:STANDARD\nDTSTART:19700101T000000\n"
    "TZOFFSETFROM:+0100\nTZOFFSETTO:+0100\nRR\n ULE:FREQ=SECONDLY\nEND:STANDARD\nEND:VTIMEZONE\n"
)


def calendar(*parts: str) -> str:
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:t\n{''.join(parts)}END:VCALENDAR\n"


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


@pytest.fixture
def calendars(world: World) -> Iterator[Calendars]:
    calendars = Calendars(
        world.database, Ids(world.database), world.events, worker=WorkerProcess(seconds=0.5)
    )
    yield calendars
    calendars.close()


async def test_a_rule_without_measure_is_stopped_and_named(calendars: Calendars) -> None:
    reading = asyncio.create_task(
        calendars.import_preview(ADMIN, calendar(NEVER, NEVER, NEVER), format=CalendarFormat.ICAL)
    )
    await asyncio.sleep(0)
    with pytest.raises(InvalidInput) as refused:
        await reading
    (problem,) = refused.value.problems
    assert problem.code == "import.takes_too_long"
    assert "RRULE:FREQ=WEEKLY;BYDAY=MO;BYSETPOS=200" in problem.message
    found = await calendars.import_preview(ADMIN, calendar(SOUND), format=CalendarFormat.ICAL)
    assert len(found.dates) == 21  # the next file is read by a new process


async def test_a_zone_of_every_second_is_refused_with_its_line(calendars: Calendars) -> None:
    with pytest.raises(InvalidInput) as refused:
        await calendars.import_preview(
            ADMIN, calendar(SECONDLY_ZONE, SOUND), format=CalendarFormat.ICAL
        )
    (problem,) = refused.value.problems
    assert (problem.code, problem.params["line"]) == ("import.zone_rule", 10)
    assert "FREQ=SECONDLY" in problem.message


async def test_one_file_of_a_person_at_a_time(calendars: Calendars) -> None:
    async def read() -> object:
        return await calendars.import_preview(ADMIN, "2026-10-01", format=CalendarFormat.CSV)

    answers = await asyncio.gather(read(), read(), return_exceptions=True)
    assert sorted(type(each).__name__ for each in answers) == ["ImportedDays", "TooMany"]
    assert next(each for each in answers if isinstance(each, TooMany)).retry_after_seconds > 0
    await read()


async def test_the_process_is_told_no_secrets_and_ends_with_the_admin(
    calendars: Calendars, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKWHEEL_DATABASE_URL", "mysql://root:canary@localhost/x")
    await calendars.import_preview(ADMIN, "2026-10-01", format=CalendarFormat.CSV)
    process = calendars._worker._child._process
    assert process is not None
    assert b"canary" not in environment_of(process.pid)
    calendars.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
