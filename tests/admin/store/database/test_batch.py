"""Batch statements mean the same on every database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import RUN_COLUMNS, run_row
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows, update_rows
from tickwheel_admin.store.database.database import Database

pytestmark = pytest.mark.every_database


@pytest.fixture
def database(store_url: str) -> Iterator[Database]:
    database = Database(store_url)
    yield database
    database.close_sync()


def queued_run(run_id: int, **changes: object) -> dict[str, object]:
    return run_row(run_id, {"state": "queued", "attempt": 0, "tries": 0} | changes)


def all_runs(conn: sa.Connection) -> list[sa.Row[Any]]:
    return list(conn.execute(sa.select(tables.run).order_by(tables.run.c.id)))


TEXTS = [
    "plain",
    "",
    "quote ' and \" and \\",
    "汉字 😀",
    "line\nbreak",
    "%s :rows {x}",
    "x" * 70_000,
]


def test_text_numbers_and_nulls_survive(database: Database) -> None:
    rows = [queued_run(i, message=text, trigger_id=2**53 - 1) for i, text in enumerate(TEXTS)]
    rows.append(queued_run(100, message=None, progress=0.25))
    database.run_sync(insert_rows, tables.run, rows, columns=RUN_COLUMNS)

    stored = database.read_sync(all_runs)

    assert [row.message for row in stored] == [*TEXTS, None]
    assert stored[0].trigger_id == 2**53 - 1
    assert stored[-1].trigger_id is None
    assert stored[-1].progress == 0.25


def test_more_text_than_a_server_takes_at_once(database: Database) -> None:
    """MariaDB hangs up on a statement of 16 MiB: three hundred results at their largest."""
    numbers = range(300)
    database.run_sync(
        insert_rows,
        tables.run,
        [queued_run(number, parameters=f"{number:03}" + "p" * 60_000) for number in numbers],
        columns=RUN_COLUMNS,
    )

    matched = database.run_sync(
        update_rows,
        tables.run,
        [{"id": number, "result": f"{number:03}" + "r" * 60_000} for number in numbers],
        match=("id",),
        values=("result",),
    )

    stored = database.read_sync(all_runs)
    assert matched == 300
    assert [row.parameters[:4] for row in stored] == [f"{number:03}p" for number in numbers]
    assert [row.result[:4] for row in stored] == [f"{number:03}r" for number in numbers]


def test_duplicates_are_left_alone(database: Database) -> None:
    key = ("trigger_id", "scheduled_at", "shard_index")
    first = queued_run(1, trigger_id=7, scheduled_at=5, message="first")
    again = queued_run(2, trigger_id=7, scheduled_at=5, message="second")
    other = queued_run(3, trigger_id=7, scheduled_at=6)
    for rows in ([first], [again, other]):
        database.run_sync(
            insert_rows, tables.run, rows, columns=RUN_COLUMNS, ignore_duplicates_of=key
        )

    stored = database.read_sync(all_runs)

    assert [(row.id, row.message) for row in stored] == [(1, "first"), (3, None)]


def test_duplicates_are_left_alone_where_the_key_leaves_rows_out(database: Database) -> None:
    key = ("job_id", "request_key")
    first = queued_run(1, request_key="a", message="first")
    again = queued_run(2, request_key="a", message="second")
    without = [queued_run(number, request_key=None) for number in (3, 4)]
    for rows in ([first], [again, *without]):
        database.run_sync(
            insert_rows, tables.run, rows, columns=RUN_COLUMNS, ignore_duplicates_of=key
        )

    stored = database.read_sync(all_runs)

    assert [(row.id, row.message) for row in stored] == [(1, "first"), (3, None), (4, None)]


def test_duplicates_are_replaced(database: Database) -> None:
    attempt = {"run_id": 1, "attempt": 1, "state": "lost", "log_lines": 0}
    for state in ("lost", "failed"):
        database.run_sync(
            insert_rows,
            tables.run_attempt,
            [attempt | {"state": state}],
            columns=list(attempt),
            replace_duplicates_of=("run_id", "attempt"),
        )

    states = database.read_sync(
        lambda conn: list(conn.execute(sa.select(tables.run_attempt.c.state)).scalars())
    )

    assert states == ["failed"]


def test_update_counts_matched_rows_and_sets_null(database: Database) -> None:
    rows = [queued_run(1, node_id=5, message="x"), queued_run(2, attempt=3), queued_run(3)]
    database.run_sync(insert_rows, tables.run, rows, columns=RUN_COLUMNS)
    changes = [
        {"id": 1, "attempt": 0, "state": "queued", "node_id": None, "message": None},
        {"id": 2, "attempt": 2, "state": "running", "node_id": 9, "message": "stale"},
        {"id": 3, "attempt": 0, "state": "running", "node_id": 9, "message": "汉字"},
    ]

    matched = database.run_sync(
        update_rows,
        tables.run,
        changes,
        match=("id", "attempt"),
        values=("state", "node_id", "message"),
        where="t.state = :source",
        params={"source": "queued"},
    )

    stored = database.read_sync(all_runs)
    assert matched == 2
    assert [(row.state, row.node_id, row.message) for row in stored] == [
        ("queued", None, None),
        ("queued", None, None),
        ("running", 9, "汉字"),
    ]


def test_booleans(database: Database) -> None:
    node = {
        "id": 1,
        "executor_id": 1,
        "node_key": "k",
        "name": "n",
        "state": "live",
        "draining": True,
        "cordoned": False,
        "drain_wanted": True,
        "slots": 1,
        "in_use": 0,
        "weight": 1,
        "handlers": "[]",
        "unstoppable": "[]",
        "labels": "{}",
        "sdk": "",
        "address": "",
        "connected_at": 1,
        "lease_expires_at": 1,
        "full_lease_at": 1,
    }
    database.run_sync(insert_rows, tables.node, [node], columns=list(node))

    stored = database.read_sync(lambda conn: conn.execute(sa.select(tables.node)).one())

    assert (stored.draining, stored.cordoned, stored.drain_wanted) == (True, False, True)


def test_what_all_rows_have_alike_is_written_and_compared_like_the_rest(
    database: Database,
) -> None:
    rows = [queued_run(i, message="汉字 \\ '", attempt=4, node_id=None) for i in (1, 2, 3)]
    database.run_sync(insert_rows, tables.run, rows, columns=RUN_COLUMNS)
    changes = [{"id": i, "attempt": 5, "message": None, "state": "running"} for i in (1, 2)]

    matched = database.run_sync(
        update_rows,
        tables.run,
        changes,
        match=("id",),
        values=("attempt", "message", "state"),
        where="t.attempt = b.attempt - 1",
        reads=("attempt",),
    )

    assert matched == 2
    stored = database.read_sync(all_runs)
    assert [(row.attempt, row.message, row.state) for row in stored] == [
        (5, None, "running"),
        (5, None, "running"),
        (4, "汉字 \\ '", "queued"),
    ]


def test_postgresql_does_not_look_for_all_rows_in_a_state_before_it_knows_how_many_there_are(
    postgresql_url: str,
) -> None:
    """Without statistics a state looks rare: reading all runs in it would seem cheap."""
    database = Database(postgresql_url)
    tables.metadata.create_all(database.engine)
    plans: list[str] = []

    def explain(conn: sa.Connection, *said: Any) -> None:
        _cursor, statement, parameters, _context, _many = said
        if statement.startswith("UPDATE") and not plans:
            plans.append("")
            rows = conn.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars()
            plans[0] = "\n".join(rows)

    runs = [queued_run(n, state="dispatched") for n in range(1, 20_001)]
    database.run_sync(insert_rows, tables.run, runs, columns=RUN_COLUMNS)
    sa.event.listen(database.engine, "before_cursor_execute", explain)
    ended = {"match": ["id"], "values": ["state"], "where": "t.state = :from_state"}
    rows = [{"id": n, "state": "running"} for n in range(1, 6)]
    matched = database.run_sync(
        update_rows, tables.run, rows, **ended, params={"from_state": "dispatched"}
    )
    assert matched == 5
    [plan] = plans
    assert "run_pkey" in plan
    assert "Index Cond: ((state)" not in plan
    assert "Seq Scan" not in plan
    database.close_sync()
