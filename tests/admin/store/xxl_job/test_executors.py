"""What is stored of executors of the protocol `xxl_job`."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import xxl_address
from tickwheel_admin.store.executors.executors import add_executor, delete_executor, get_executor
from tickwheel_admin.store.xxl_job import executors as store

pytestmark = pytest.mark.every_database

ONE, TWO = "http://10.0.0.1:9999", "http://10.0.0.2:9999"


def add(conn: sa.Connection, executor_id: int, *, addresses: list[str] | None = None) -> None:
    add_executor(
        conn,
        executor_id=executor_id,
        name=f"billing-{executor_id}",
        description="",
        token_hash=f"xxl_job {executor_id}",
        protocol=Protocol.XXL_JOB,
        now=1,
    )
    store.add_xxl_executor(
        conn, executor_id, app_name=f"app-{executor_id}", addresses=addresses, token="sealed"
    )


async def test_executors_are_read_together_without_deleted_ones(database: Database) -> None:
    def work(conn: sa.Connection) -> None:
        add(conn, 1)
        add(conn, 2, addresses=[ONE])
        add(conn, 3)
        delete_executor(conn, 3, now=2)

        read = store.read_xxl_executors(conn)
        assert [(each.executor_id, each.name, each.addresses) for each in read] == [
            (1, "billing-1", None),
            (2, "billing-2", (ONE,)),
        ]
        assert "sealed" not in repr(read)
        assert store.get_xxl_executor(conn, 3) is None
        found = store.xxl_executor_of_app(conn, "app-2")
        assert found == read[1]
        assert store.xxl_executor_of_app(conn, "APP-2") is None
        executor = get_executor(conn, 1)
        assert executor is not None
        assert executor.protocol is Protocol.XXL_JOB

        store.change_xxl_executor(conn, 2, app_name="other", addresses=None, token="sealed 2")
        changed = store.get_xxl_executor(conn, 2)
        assert changed is not None
        assert (changed.app_name, changed.addresses, changed.token) == ("other", None, "sealed 2")

        store.delete_xxl_executor(conn, 2)
        assert store.get_xxl_executor(conn, 2) is None

    await database.run(work)


async def test_an_app_name_belongs_to_one_executor(database: Database) -> None:
    def work(conn: sa.Connection) -> None:
        add(conn, 1)
        store.add_xxl_executor(conn, 2, app_name="app-1", addresses=None, token="sealed")

    with pytest.raises(sa.exc.IntegrityError):
        await database.run(work)


async def test_addresses_set_by_hand_replace_all_others(database: Database) -> None:
    def used(conn: sa.Connection) -> dict[str, bool]:
        return {
            each.address: each.removed_at is None for each in store.read_xxl_addresses(conn, [1])
        }

    def work(conn: sa.Connection) -> None:
        add(conn, 1)
        registered = "http://10.0.0.9:9999"
        conn.execute(
            sa.insert(xxl_address).values(executor_id=1, address=registered, registered_at=5)
        )
        store.set_xxl_addresses(conn, 1, [ONE, TWO], now=10)
        assert used(conn) == {ONE: True, TWO: True, registered: False}
        store.set_xxl_addresses(conn, 1, [TWO], now=11)
        assert used(conn) == {ONE: False, TWO: True, registered: False}
        store.set_xxl_addresses(conn, 1, [ONE], now=12)
        assert used(conn) == {ONE: True, TWO: False, registered: False}
        store.set_xxl_addresses(conn, 1, None, now=13)
        assert used(conn) == {ONE: False, TWO: False, registered: False}
        assert store.read_xxl_addresses(conn, [2]) == []
        assert store.remove_xxl_address(conn, 1, ONE)
        assert not store.remove_xxl_address(conn, 1, ONE)
        assert len(store.read_xxl_addresses(conn)) == 2

    await database.run(work)
