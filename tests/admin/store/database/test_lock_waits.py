"""A lock that is held too long, or a deadlock, repeats a transaction and refuses nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.support.databases import chosen_kinds
from tickwheel_admin.store.database.database import Database

SHORT_WAITS = {
    "mysql": "SET SESSION innodb_lock_wait_timeout = 1",
    "postgresql": "SET lock_timeout = '200ms'",
}


@pytest.fixture(params=[kind for kind in chosen_kinds() if kind != "sqlite"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    url = str(request.getfixturevalue(f"{request.param}_url"))
    database = Database(url)

    def make(conn: sa.Connection) -> None:
        conn.execute(sa.text("CREATE TABLE seat (id int PRIMARY KEY, taken int)"))
        conn.execute(sa.text("INSERT INTO seat VALUES (1, 0), (2, 0)"))

    database.run_sync(make)
    yield database
    database.close_sync()


def take(conn: sa.Connection, seat: int) -> None:
    conn.execute(sa.text(f"UPDATE seat SET taken = taken + 1 WHERE id = {seat}"))


def taken(database: Database) -> list[int]:
    rows = database.read_sync(lambda conn: conn.execute(sa.text("SELECT taken FROM seat")).all())
    return [row.taken for row in rows]


def test_a_lock_that_is_held_too_long_repeats_the_transaction(database: Database) -> None:
    tries = 0
    holder = database.engine.connect()
    take(holder, 1)

    def work(conn: sa.Connection) -> None:
        nonlocal tries
        tries += 1
        conn.execute(sa.text(SHORT_WAITS[conn.dialect.name]))
        take(conn, 2)
        if tries == 2:
            holder.rollback()
        take(conn, 1)

    with holder:
        database.run_sync(work)
    assert tries == 2
    assert taken(database) == [1, 1]  # what the first try had written is gone


def test_the_victim_of_a_deadlock_tries_again(database: Database) -> None:
    both_hold = threading.Barrier(2, timeout=30)
    tries = {1: 0, 2: 0}

    def take_both(first: int, second: int) -> None:
        def work(conn: sa.Connection) -> None:
            tries[first] += 1
            take(conn, first)
            if tries[first] == 1:
                both_hold.wait()
            take(conn, second)

        database.run_sync(work)

    other = threading.Thread(target=take_both, args=(2, 1))
    other.start()
    take_both(1, 2)
    other.join()
    # PostgreSQL lets a victim that is quick take its lock again before the other one has woken up.
    fewest, most = sorted(tries.values())
    assert (fewest, most >= 2) == (1, True)
    assert taken(database) == [2, 2]
