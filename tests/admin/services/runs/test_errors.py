"""What runs failed with: alike errors share a line, which stays as long as a run of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.error import MAX_CHARS, alike
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.runs.service import RunQuery
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs import errors as run_errors
from tickwheel_admin.store.runs import pages as run_pages
from tickwheel_admin.store.runs.retention import delete_runs
from tickwheel_admin.store.runs.runs import lock_runs, move_runs
from tickwheel_shared.protocol import Outcome

pytestmark = pytest.mark.every_database

NOW = 1_700_000_000_000
POLICY = RetryPolicy()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("TimeoutError: connecting to db-7\n  File x.py", "TimeoutError: connecting to db-7"),
        ("\n\n  KeyError:\t'a'  ", "KeyError: 'a'"),
        ("order 48211 of 1e5, row 12", "order # of 1e5, row 12"),
        ("HTTP 503 after 30 s", "HTTP 503 after 30 s"),
        ("ORA-00942: no such table", "ORA-00942: no such table"),
        ("order-48211 is locked", "order-# is locked"),
        ("took 12.375 s, then 3.5.", "took # s, then #."),
        ("10.0.0.5:54321 refused, v1.25", "10.0.0.5:# refused, v1.25"),
        ("<Socket at 0x7f3a5c1d2e30>", "<Socket at #>"),
        ("HRESULT 0x80070005", "HRESULT 0x80070005"),
        ("no 3F2A9C44-0b1e-4a77-9d3c-5a1b2c3d4e5f", "no #"),
        ("commit deadbeefcafe1234 is gone", "commit # is gone"),
        ("第 20261122 批失败", "第 # 批失败"),
        ("x" * 5_000, "x" * MAX_CHARS),
        (" \n ", ""),
        ("", ""),
    ],
)
def test_what_differs_each_time_is_left_out(message: str, expected: str) -> None:
    assert alike(message) == expected
    assert alike(expected) == expected  # so that a line can be searched for as it is shown


def add_running(world: World, executor_id: int, count: int) -> list[int]:
    row = {
        "executor_id": executor_id,
        "state": "running",
        "attempt": 1,
        "tries": 1,
        "started_at": NOW,
    }
    return world.add_runs(row | {"scheduled_at": NOW + n} for n in range(count))


def end(world: World, ends: Mapping[int, tuple[Outcome, str | None]]) -> None:
    """In one batch, as results come."""

    def write(conn: sa.Connection) -> None:
        standing = lock_runs(conn, ends)
        move_runs(
            conn,
            [
                moves.ended(
                    standing[run_id],
                    outcome,
                    POLICY,
                    duration_ms=1,
                    result=None,
                    message=message,
                    log_lines=0,
                    now=NOW + 1_000,
                )
                for run_id, (outcome, message) in ends.items()
            ],
        )

    world.database.run_sync(write)


def errors_of(world: World, run_ids: list[int]) -> list[str | None]:
    rows = world.rows(
        sa.select(tables.run.c.id, tables.run_error.c.text).outerjoin(
            tables.run_error, tables.run_error.c.id == tables.run.c.error_id
        )
    )
    texts = {row.id: row.text for row in rows}
    return [texts[run_id] for run_id in run_ids]


def test_alike_failures_share_one_row_until_the_last_of_them_is_gone(world: World) -> None:
    runs = add_running(world, 1, 5)
    (other,) = add_running(world, 2, 1)
    end(
        world,
        {
            runs[0]: (Outcome.FAILED, "No order 48211\ntrace"),
            runs[1]: (Outcome.FAILED, "No order 99999"),
            runs[2]: (Outcome.SUCCEEDED, None),
            runs[3]: (Outcome.TIMED_OUT, "ran out of 50% of_time"),
            runs[4]: (Outcome.CUT_OFF, None),
            other: (Outcome.FAILED, "No order 11111"),
        },
    )
    lost = "The node's lease ended before a result came; the attempt may have had effects."
    expected = ["No order #", "No order #", None, "ran out of 50% of_time", lost]
    assert errors_of(world, runs) == expected
    assert len(world.rows(sa.select(tables.run_error))) == 4

    def found(part: str, *executors: int) -> int:
        return len(
            world.database.read_sync(run_errors.find_errors, part, executors=executors or None)
        )

    assert (found("no ORDER"), found("no order", 2), found("0% OF_T")) == (2, 1, 1)
    assert (found("0_ of"), found("%order"), found("no order", 3)) == (0, 0, 0)

    end(world, {runs[4]: (Outcome.SUCCEEDED, None)})  # late
    assert errors_of(world, runs) == [*expected[:4], None]

    def removed(older_than_ms: int) -> int:
        total, after = 0, 0
        while True:
            count, behind = world.database.run_sync(
                run_errors.remove_unused_errors,
                older_than_ms=older_than_ms,
                after=after,
                limit=2,
            )
            total += count
            if behind is None:
                return total
            after = behind

    world.database.run_sync(delete_runs, [runs[0]])
    assert removed(86_400_000) == 0  # too young, all of them
    assert removed(-1_000) == 1  # that of the run that was lost
    world.database.run_sync(delete_runs, [runs[1]])
    assert removed(-1_000) == 1
    assert errors_of(world, [runs[3], other]) == ["ran out of 50% of_time", "No order #"]


@pytest.mark.parametrize("ranges", [40, 0])
async def test_runs_are_found_by_their_error(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, ranges: int
) -> None:
    """A few errors are read from their own index, many are picked out of all failures; alike."""
    monkeypatch.setattr(run_pages, "MAX_ERROR_RANGES", ranges)
    world = World(sqlite_url)
    billing, crm = [await world.executor(name) for name in ("billing", "crm")]
    jobs = [await world.jobs.create(ADMIN, e, JOB | {"name": "close"}) for e in (billing, crm)]
    rows = [
        {
            "executor_id": (billing, crm)[n % 2],
            "job_id": jobs[n % 2],
            "state": "running",
            "attempt": 1,
            "tries": 1,
            "started_at": NOW,
            "scheduled_at": NOW + n // 4,
        }
        for n in range(20)
    ]
    shard = rows[0] | {"fire_id": 77, "shard_index": 1}
    runs = world.add_runs([*rows, shard])
    message = ("Timeout connecting to db after 12345 ms\ntrace", "HTTP 503", "HTTP 404")
    end(
        world,
        {
            run_id: (Outcome.FAILED, message[n % 3]) if n % 5 else (Outcome.SUCCEEDED, None)
            for n, run_id in enumerate(runs)
            if run_id != runs[-1]
        }
        | {runs[-1]: (Outcome.TIMED_OUT, message[0])},
    )

    async def found(query: RunQuery, actor: Actor = ADMIN) -> set[int]:
        listed, cursor = [], None
        while True:
            page = await world.runs.page(actor, query, cursor=cursor, limit=2)
            listed += [item.run for item in page.items]
            if (cursor := page.next) is None:
                break
        keys = [(run.scheduled_at, run.id) for run in listed]
        assert keys == sorted(set(keys), reverse=True)
        assert await world.runs.count_matching(actor, query) == (len(listed), False)
        return {runs.index(run.id) for run in listed}

    timeouts = {n for n in range(20) if n % 5 and n % 3 == 0} | {20}
    try:
        assert await found(RunQuery(error="timeout CONNECTING")) == timeouts
        assert await found(RunQuery(error="after 999999 ms")) == timeouts
        assert await found(RunQuery(error="timeout", state="timed_out")) == {20}
        assert await found(RunQuery(error="timeout", state="succeeded")) == set()
        of_crm = {n for n in timeouts if n % 2}
        assert await found(RunQuery(error="timeout", executor_id=crm)) == of_crm
        assert await found(RunQuery(error="timeout", job_id=jobs[1])) == of_crm
        assert await found(RunQuery(error="timeout", text="clo"), actor_with(Role.VIEWER, crm)) == (
            of_crm
        )
        assert await found(RunQuery(error="50"), actor_with(Role.VIEWER, 999)) == set()
        assert await found(RunQuery(error="trace")) == set()  # not in the first line
        http = {n for n in range(20) if n % 5 and n % 3}
        assert await found(RunQuery(error="http ")) == http
        assert await found(RunQuery(error="http", to_at=NOW + 1)) == {1, 2}
        cancelled = await world.runs.retry_matching(
            ADMIN, RunQuery(error="HTTP 503"), request_key="k"
        )
        assert cancelled.done == len([n for n in http if n % 3 == 1])
    finally:
        world.close()
