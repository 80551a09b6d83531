"""Lists of jobs: order, filters, pages, and the marks of their runs."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs import lists as job_lists
from tickwheel_admin.services.jobs.service import JobQuery, JobSort
from tickwheel_admin.store.database import tables

pytestmark = pytest.mark.every_database


async def add_jobs(world: World, executor_id: int, names: list[str], **changes: Any) -> list[int]:
    return [
        await world.jobs.create(ADMIN, executor_id, JOB | {"name": name} | changes)
        for name in names
    ]


async def names(world: World, query: JobQuery, **more: Any) -> list[str]:
    page = await world.jobs.page(ADMIN, query, **more)
    return [item.job.config.name for item in page.items]


async def test_pages_follow_names_and_meet_every_job_once(world: World) -> None:
    billing, other = await world.executor(), await world.executor("other")
    wanted = [f"job-{n:02}" for n in range(7)]
    await add_jobs(world, billing, wanted[::-1])
    await add_jobs(world, other, ["job-03"])  # the same name twice: the id decides
    seen: list[tuple[str, str]] = []
    cursor = None
    for _ in range(4):
        page = await world.jobs.page(ADMIN, JobQuery(), cursor=cursor, limit=2)
        seen += ((item.job.config.name, item.executor_name) for item in page.items)
        cursor = page.next
    assert cursor is None
    assert [name for name, _ in seen] == sorted([*wanted, "job-03"])
    assert len(set(seen)) == 8


@pytest.mark.parametrize("sort", list(JobSort))
async def test_pages_lead_back_by_the_way_they_led_on(world: World, sort: str) -> None:
    billing, other = await world.executor(), await world.executor("other")
    await add_jobs(world, billing, [f"job-{n % 5}-{n}" for n in range(7)])
    await add_jobs(world, other, ["job-0-0", "job-3-3"])
    world.change(sa.update(tables.job).values(updated_at=tables.job.c.id % 3))
    for view in ("all", "failing"):
        query = JobQuery(sort=sort, view=view)
        whole = [item.job.id for item in (await world.jobs.page(ADMIN, query)).items]
        pages, cursor = [], None
        while True:
            page = await world.jobs.page(ADMIN, query, cursor=cursor, limit=4)
            pages.append(page)
            if (cursor := page.next) is None:
                break
        assert [item.job.id for each in pages for item in each.items] == whole
        assert (len(whole), len(pages), pages[0].previous) == ((9, 3, None), (0, 1, None))[
            view == "failing"
        ]
        for before, after in zip(pages[-2::-1], pages[:0:-1], strict=True):
            back = await world.jobs.page(ADMIN, query, cursor=after.previous, limit=4)
            assert [i.job.id for i in back.items] == [i.job.id for i in before.items]
            again = await world.jobs.page(ADMIN, query, cursor=back.next, limit=4)
            assert [i.job.id for i in again.items] == [i.job.id for i in after.items]
            assert (back.previous is None) == (before.previous is None)


async def test_jobs_stand_by_their_first_fire_and_then_those_that_nothing_fires(
    world: World,
) -> None:
    executor_id = await world.executor()
    every = {"kind": "fixed_rate", "every_seconds": 3_600}
    often = {"kind": "fixed_rate", "every_seconds": 1_800}
    ids = await add_jobs(world, executor_id, ["d", "b", "late", "soon"], triggers=[every, often])
    await add_jobs(world, executor_id, ["c", "a"], triggers=[])
    (paused,) = await add_jobs(world, executor_id, ["paused"], triggers=[every])
    await world.jobs.pause(ADMIN, paused)
    now = world.now
    fires = {ids[0]: (5_000, 6_000), ids[1]: (9_000, 5_000), ids[2]: (9_000, 8_000)}
    for job_id, times in (fires | {ids[3]: (7_000, 1_000)}).items():
        triggers = world.rows(
            sa.select(tables.trigger.c.id)
            .where(tables.trigger.c.job_id == job_id)
            .order_by(tables.trigger.c.id)
        )
        for row, at in zip(triggers, times, strict=True):
            world.change(
                sa.update(tables.trigger)
                .where(tables.trigger.c.id == row.id)
                .values(next_fire_at=now + 60_000 + at)
            )
    query, order = JobQuery(sort="next_fire"), ["soon", "d", "b", "late", "a", "c", "paused"]
    assert await names(world, query) == order
    for limit in (1, 2, 3):
        seen, page = [], await world.jobs.page(ADMIN, query, limit=limit)
        while True:
            seen += [item.job.config.name for item in page.items]
            if page.next is None:
                break
            page = await world.jobs.page(ADMIN, query, cursor=page.next, limit=limit)
        assert seen == order
        back = [item.job.config.name for item in page.items]
        while page.previous is not None and len(back) + limit <= len(order):
            page = await world.jobs.page(ADMIN, query, cursor=page.previous, limit=limit)
            back = [item.job.config.name for item in page.items] + back
        assert back == order[-len(back) :]
    for job_id in ids[:3]:
        world.run(executor_id=executor_id, job_id=job_id, state="failed")
    assert await names(world, JobQuery(sort="next_fire", view="failing")) == ["d", "b", "late"]
    viewer = actor_with(Role.VIEWER, await world.executor("other"))
    assert (await world.jobs.page(viewer, query)).items == []


async def test_before_the_second_job_stands_a_whole_first_page(world: World) -> None:
    await add_jobs(world, await world.executor(), ["a", "b", "c", "d"])
    second = await world.jobs.page(
        ADMIN, JobQuery(), cursor=(await world.jobs.page(ADMIN, JobQuery(), limit=1)).next, limit=3
    )
    first = await world.jobs.page(ADMIN, JobQuery(), cursor=second.previous, limit=3)
    assert [item.job.config.name for item in first.items] == ["a", "b", "c"]
    assert first.previous is None


async def test_owner_tags_and_handler_are_whole_names(world: World) -> None:
    executor_id = await world.executor()
    await add_jobs(world, executor_id, ["a"], owner="maria", tags=["night", "money"], handler="x")
    await add_jobs(world, executor_id, ["b"], owner="maria", tags=["nightly"], handler="xy")
    await add_jobs(world, executor_id, ["c"], owner="Maria", tags=["100%", "Night"], handler="X")
    for query, found in (
        (JobQuery(owner="maria"), ["a", "b"]),
        (JobQuery(owner="mari"), []),
        (JobQuery(tags=("night",)), ["a"]),
        (JobQuery(tags=("money", "night")), ["a"]),
        (JobQuery(tags=("night", "nightly")), []),
        (JobQuery(tags=("100%",)), ["c"]),
        (JobQuery(tags=("100_",)), []),
        (JobQuery(tags=("%",)), []),
        (JobQuery(handler="x"), ["a"]),
        (JobQuery(owner="maria", handler="xy", text="B", view="active"), ["b"]),
    ):
        assert await names(world, query) == found, query
        assert (await world.jobs.count_matching(ADMIN, query)).jobs == len(found)


async def test_jobs_are_counted_up_to_a_limit_and_failing_ones_not_at_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_jobs(world, await world.executor(), ["a", "b", "c"])
    assert await world.jobs.count_matching(ADMIN, JobQuery()) == (3, False)
    assert await world.jobs.count_matching(ADMIN, JobQuery(view="failing")) == (0, True)
    monkeypatch.setattr("tickwheel_admin.services.jobs.service.MAX_COUNTED", 2)
    assert await world.jobs.count_matching(ADMIN, JobQuery(view="active")) == (2, True)


async def test_jobs_are_found_by_their_whole_name(world: World) -> None:
    billing, other = await world.executor(), await world.executor("other")
    (first,) = await add_jobs(world, billing, ["close"])
    (second,) = await add_jobs(world, other, ["close"])
    assert await world.jobs.called(ADMIN, "close") == sorted([first, second])
    assert await world.jobs.called(ADMIN, "close", billing) == [first]
    assert await world.jobs.called(actor_with(Role.VIEWER, other), "close") == [second]
    for name in ("clos", "", "a\x00b"):
        assert await world.jobs.called(ADMIN, name) == []


async def test_text_matches_parts_literally_and_in_any_case(world: World) -> None:
    executor_id = await world.executor()
    await add_jobs(world, executor_id, ["Send invoices"], tags=["money"], owner="ada@example.org")
    await add_jobs(world, executor_id, ["50%_off"], handler="export")
    await add_jobs(world, executor_id, ["Ärger", "发票"], handler="x")
    for text, found in {
        "INVOICE": ["Send invoices"],
        "voices": ["Send invoices"],
        "money": ["Send invoices"],
        "ada@": ["Send invoices"],
        "ExPort": ["50%_off"],
        "%": ["50%_off"],
        "_": ["50%_off"],
        "\\": [],
        "' OR 1=1 --": [],
        "发票": ["发票"],
        "Ärger": ["Ärger"],
        "  ": ["50%_off", "Send invoices", "Ärger", "发票"],
    }.items():
        assert sorted(await names(world, JobQuery(text=text))) == found, text


async def test_filters(world: World) -> None:
    billing, other = await world.executor(), await world.executor("other")
    first, second = await add_jobs(world, billing, ["a", "b"])
    (third,) = await add_jobs(world, other, ["c"])
    await world.jobs.pause(ADMIN, second)
    world.run(executor_id=other, job_id=third, state="running", deadline_at=FAR)
    world.run(executor_id=billing, job_id=first, state="succeeded")
    assert await names(world, JobQuery(executor_id=billing)) == ["a", "b"]
    assert await names(world, JobQuery(view="paused")) == ["b"]
    assert await names(world, JobQuery(view="running")) == ["c"]
    assert await names(world, JobQuery(view="running", executor_id=billing)) == []
    viewer = actor_with(Role.VIEWER, other)
    page = await world.jobs.page(viewer, JobQuery())
    assert [item.job.id for item in page.items] == [third]


async def test_marks_are_the_newest_due_runs_newest_last(world: World) -> None:
    executor_id = await world.executor()
    busy, idle = await add_jobs(world, executor_id, ["busy", "idle"])
    now = world.now
    mine = {"executor_id": executor_id, "job_id": busy}
    ids = world.add_runs(
        mine
        | {"scheduled_at": now - 60_000 + n * 1_000, "started_at": 1_000, "ended_at": 1_000 + n}
        for n in range(30)
    )
    world.run(**mine, state="queued", attempt=0, scheduled_at=now + 60_000)  # planned ahead
    page = await world.jobs.page(ADMIN, JobQuery())
    first, second = page.items
    assert [mark.id for mark in first.recent] == ids[-24:]
    assert first.last is not None
    assert (first.last.id, first.last.duration_ms) == (ids[-1], 29)
    assert (second.job.id, second.recent, second.last) == (idle, [], None)


async def test_failing_is_what_ended_last(world: World) -> None:
    executor_id = await world.executor()
    outcomes = {
        "failed": ["succeeded", "failed"],
        "fixed": ["failed", "succeeded"],
        "lost": ["succeeded", "lost"],
        "timed out, now running": ["timed_out", "running"],
        "timed out, since skipped": ["timed_out", "skipped", "queued"],
        "cancelled": ["failed", "cancelled"],
        "never ran": [],
    }
    for name, states in outcomes.items():
        (job_id,) = await add_jobs(world, executor_id, [name])
        for n, state in enumerate(states):
            world.run(executor_id=executor_id, job_id=job_id, state=state, scheduled_at=1_000 + n)
    failing = ["failed", "lost", "timed out, now running", "timed out, since skipped"]
    assert await names(world, JobQuery(view="failing")) == failing
    everything = (await world.jobs.page(ADMIN, JobQuery())).items
    assert [item.job.config.name for item in everything if item.failing] == failing
    page = await world.jobs.page(ADMIN, JobQuery(view="failing"), limit=3)
    assert [item.job.config.name for item in page.items] == failing[:3]
    assert page.next is not None
    assert await names(world, JobQuery(view="failing"), cursor=page.next) == failing[3:]


async def test_a_page_of_failing_jobs_ends_after_a_bounded_search(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "FAILING_CHUNK", 2)
    monkeypatch.setattr(job_lists, "FAILING_SCANNED", 4)
    executor_id = await world.executor()
    ids = await add_jobs(world, executor_id, [f"job-{n}" for n in range(7)])
    world.run(executor_id=executor_id, job_id=ids[5], state="failed")
    first = await world.jobs.page(ADMIN, JobQuery(view="failing"))
    assert first.items == []
    assert first.next is not None
    assert await names(world, JobQuery(view="failing"), cursor=first.next) == ["job-5"]


@pytest.mark.every_database(nightly=True)
async def test_bad_filters_and_cursors_are_refused(world: World) -> None:
    runs_cursor = "eyJzY2hlZHVsZWRfYXQiOjEsImlkIjoyfQ"
    for bad in ("", "x", "é", "AAAA", "W10", runs_cursor, "x" * 5_000, "WyJhIiwxZTk5XQ"):
        with pytest.raises(InvalidInput) as caught:
            await world.jobs.page(ADMIN, JobQuery(), cursor=bad)
        assert [p.field for p in caught.value.problems] == ["cursor"]
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.page(ADMIN, JobQuery(), cursor="WyJhXHUwMDAwYiIsMV0")  # a name with NUL
    assert [p.field for p in caught.value.problems] == ["cursor"]
    for limit in (0, -1, 501, 10**9):
        with pytest.raises(InvalidInput):
            await world.jobs.page(ADMIN, JobQuery(), limit=limit)
    for query in (
        JobQuery(text="a\x00b"),
        JobQuery(owner="a\x00b"),
        JobQuery(tags=("a\nb",)),
        JobQuery(view="broken"),
        JobQuery(sort="name;drop"),
    ):
        with pytest.raises(InvalidInput):
            await world.jobs.page(ADMIN, query)


@pytest.mark.every_database(nightly=True)
async def test_a_list_of_fifty_jobs_takes_few_statements(world: World) -> None:
    executor_id = await world.executor()
    await add_jobs(world, executor_id, [f"job-{n:02}" for n in range(50)])
    statements: list[str] = []
    sa.event.listen(
        world.database.engine,
        "before_cursor_execute",
        lambda conn, cursor, statement, *more: statements.append(statement),
    )
    page = await world.jobs.page(ADMIN, JobQuery())
    assert len(page.items) == 50
    assert len([s for s in statements if s.startswith("SELECT")]) <= 7


async def test_the_largest_page_works_everywhere(world: World) -> None:
    executor_id = await world.executor()
    (first,) = await add_jobs(world, executor_id, ["job-0"])
    rows = world.rows(sa.select(tables.job))
    row = dict(rows[0]._mapping)
    revision = dict(world.rows(sa.select(tables.job_revision))[0]._mapping)
    copies = range(1, 520)
    world.change(
        sa.insert(tables.job).values([row | {"id": first + n, "name": f"job-{n}"} for n in copies]),
        sa.insert(tables.job_revision).values([revision | {"job_id": first + n} for n in copies]),
    )
    page = await world.jobs.page(ADMIN, JobQuery(), limit=500)
    assert len(page.items) == 500
    assert page.next is not None
