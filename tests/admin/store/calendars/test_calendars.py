"""Calendars in the database: versions, chains, and who uses them."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import new_executor_id
from tests.admin.kit.rows import add_calendar, add_job, change, change_calendar
from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.store.calendars.calendars import (
    MAX_CHAIN,
    CalendarCache,
    based_on,
    calendar_of_name,
    count_users,
    page_calendars,
    read_calendars,
    users_of,
)
from tickwheel_admin.store.calendars.edits import hold_calendars
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database


def new_name() -> str:
    return f"calendar-{new_executor_id()}"


async def read(database: Database, name: str) -> Calendar | None:
    return (await database.read(read_calendars, [name])).get(name)


@pytest.mark.every_database
async def test_a_calendar_comes_with_those_it_is_based_on(database: Database) -> None:
    low, middle, high = new_name(), new_name(), new_name()
    await add_calendar(database, low, dates=("2026-01-01",))
    await add_calendar(database, middle, weekdays=(7,), base=low)
    await add_calendar(database, high, yearly=("12-25",), base=middle)

    found = await read(database, high)

    assert found is not None
    assert found.base is not None
    assert (found.name, found.spec.yearly, found.version) == (high, ("12-25",), 1)
    assert (found.base.name, found.base.spec.weekdays) == (middle, (7,))
    assert found.base.base is not None
    assert found.base.base.spec == CalendarSpec(dates=("2026-01-01",))
    assert found.changed_at > 0
    assert await read(database, "nowhere") is None


@pytest.mark.every_database
async def test_a_change_is_a_new_version_of_all_that_are_based_on_it(
    database: Database,
) -> None:
    names = [new_name() for _ in range(4)]
    base_id = await add_calendar(database, names[0], dates=("2026-01-01",))
    await add_calendar(database, names[1], dates=("2026-01-02",), base=names[0])
    await add_calendar(database, names[2], dates=("2026-01-03",), base=names[1])
    await add_calendar(database, names[3], dates=("2026-01-04",))

    await change_calendar(database, base_id, names[0], dates=("2026-02-01",))

    found = await database.read(read_calendars, names)
    assert [found[name].version for name in names] == [2, 2, 2, 1]
    assert len({found[name].changed_at for name in names[:3]}) == 1


@pytest.mark.every_database
async def test_circles_made_by_hand_end(database: Database) -> None:
    one, two = new_name(), new_name()
    await add_calendar(database, one, dates=("2026-01-01",), base=two)
    await add_calendar(database, two, dates=("2026-01-02",), base=one)

    found: Calendar | None = await read(database, one)

    length = 0
    while found is not None:
        found, length = found.base, length + 1
    assert length == MAX_CHAIN


@pytest.mark.every_database
async def test_what_is_known_is_not_read_again(database: Database) -> None:
    database, name = database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2026-01-01",))
    calendars = CalendarCache()
    made: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        made.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    try:
        first = await database.read(calendars.get_many, [name, None])
        made.clear()
        again = await database.read(calendars.get_many, [name])
        nothing = await database.read(calendars.get_many, [None])
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", note)
    assert again[name] is first[name]
    assert nothing == {}
    assert len([text for text in made if "calendar" in text]) == 1  # its version

    await change_calendar(database, calendar_id, name, dates=("2026-01-02",))
    changed = (await database.read(calendars.get_many, [name]))[name]
    assert (changed.version, changed.spec.dates) == (2, ("2026-01-02",))
    await change(database, tables.calendar, calendar_id, deleted_at=5)
    assert await database.read(calendars.get_many, [name]) == {}


@pytest.mark.every_database
async def test_a_name_that_is_used_again_goes_on_with_its_versions(
    database: Database,
) -> None:
    """Else a trigger would take the new calendar for the old one."""
    database, name = database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2026-01-01",))
    await change_calendar(database, calendar_id, name, dates=("2026-01-02",))
    await change(database, tables.calendar, calendar_id, deleted_at=5)
    await add_calendar(database, name, dates=("2026-01-03",))
    found = await read(database, name)
    assert found is not None
    assert found.version == 3

    # Also when no row is left of the old one, and only a trigger remembers it.
    other = new_name()
    spec = FixedRateSpec(every_ms=1_000, calendar=other)
    await add_job(database, triggers=[(spec, 4_000_000_000_000)])
    await add_calendar(database, other, dates=("2026-01-01",))
    found = await read(database, other)
    assert found is not None
    assert found.version == 2


@pytest.mark.every_database
async def test_users_are_named_and_counted(database: Database) -> None:
    database, name, executor_id = database, new_name(), new_executor_id()
    await add_calendar(database, name, dates=("2026-01-01",))
    follows = FixedRateSpec(every_ms=1_000, calendar=name)
    another = FixedRateSpec(every_ms=2_000, calendar=name)
    far = 4_000_000_000_000
    job_id = await add_job(
        database, executor_id=executor_id, triggers=[(follows, far), (another, far)]
    )
    await add_job(database, executor_id=new_executor_id(), triggers=[(follows, far)])

    everybody = await database.read(users_of, name, limit=10)
    [mine] = await database.read(users_of, name, limit=10, scope=frozenset({executor_id}))

    assert sorted(user.triggers for user in everybody) == [1, 2]
    assert (mine.job_id, mine.executor_id, mine.triggers) == (job_id, executor_id, 2)
    assert await database.read(count_users, [name, "nowhere"]) == {name: 3}
    assert await database.read(users_of, "nowhere", limit=10) == []


@pytest.mark.every_database
async def test_calendars_are_found_by_name(database: Database) -> None:
    prefix = new_name()
    for suffix in ("b", "a", "c_%"):
        await add_calendar(database, f"{prefix}-{suffix}", dates=("2026-01-01",))

    async def names(**wanted: Any) -> list[str]:
        found = await database.read(page_calendars, limit=10, **wanted)
        return [each.name.removeprefix(f"{prefix}-") for each in found]

    assert await names(text=prefix.upper()) == ["a", "b", "c_%"]
    assert await names(text=prefix, after=f"{prefix}-a") == ["b", "c_%"]
    assert await names(text="c_%") == ["c_%"]
    assert await names(text="C\\_%") == []


@pytest.mark.every_database
async def test_a_calendar_that_is_held_is_written(database: Database) -> None:
    """So that its deletion and a job that begins to follow it cannot both be committed."""
    database, name = database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2026-01-01",))

    def created_at(conn: sa.Connection) -> int:
        row = sa.select(tables.calendar.c.created_at).where(tables.calendar.c.id == calendar_id)
        return int(conn.execute(row).scalar_one())

    before = await database.read(created_at)
    await database.run(hold_calendars, [name, name, "nowhere"])
    held = await database.read(created_at)
    await database.run(hold_calendars, [name])

    assert abs(held - before) == 1
    assert await database.read(created_at) == before
    found = await database.read(calendar_of_name, name)
    assert found is not None
    assert found.version == 1


@pytest.mark.every_database
@pytest.mark.parametrize("base", [True, False])
async def test_those_based_on_one_are_found(database: Database, base: bool) -> None:
    low, high = new_name(), new_name()
    await add_calendar(database, low, dates=("2026-01-01",))
    high_id = await add_calendar(database, high, dates=("2026-01-02",), base=low if base else None)
    found = await database.read(based_on, [low])
    assert found == ([(high_id, high)] if base else [])
