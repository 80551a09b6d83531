"""The handler `sql` on MariaDB, PostgreSQL and SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.polling import wait_until_async
from tickwheel_executor import Executor
from tickwheel_executor.offers.sql import Sql, SqlConnection, databases
from tickwheel_executor.testing import FakeAdmin

from .conftest import Call, Target

ENDLESS = {
    "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
    "SELECT max(x) FROM n",
    "mariadb": "SELECT SLEEP(600)",
    "postgresql": "SELECT pg_sleep(600)",
}


async def test_rows_become_the_result(orders: Target, call: Call) -> None:
    end = await call(
        {
            "statement": "SELECT id, name, id FROM orders WHERE id IN :ids AND name LIKE 't%' "
            "AND :run_id = 1 AND name <> :other ORDER BY id",
            "values": {"ids": [1, 2, 3], "other": "'; DROP TABLE orders; --"},
        }
    )
    assert end.succeeded, end.message
    assert end.result == {
        "affected": 0,
        "statements": [{"rows": 2}],
        "rows": [{"id": 2, "name": "two", "id_2": 2}, {"id": 3, "name": "three", "id_2": 3}],
    }


@pytest.mark.parametrize("transaction", ["one", "each", "none"])
async def test_what_stays_when_a_statement_fails(
    orders: Target, call: Call, transaction: str
) -> None:
    statements = [
        "INSERT INTO orders VALUES (:id, :name)",
        "UPDATE orders SET name = 'x' WHERE id = 1",
        "INSERT INTO orders VALUES (1, 'again')",
    ]
    end = await call(
        {
            "statements": statements,
            "values": {"id": 4, "name": "vier"},
            "transaction": transaction,
        }
    )
    assert end.outcome == "failed"
    assert end.message.startswith("statement 3: ")
    assert "vier" not in end.message
    assert not end.final
    [(names,)] = orders.execute("SELECT count(*) FROM orders WHERE name IN ('x', 'vier')")
    assert names == (0 if transaction == "one" else 2)


async def test_all_statements_in_one_transaction(orders: Target, call: Call) -> None:
    end = await call(
        {
            "statements": ["DELETE FROM orders WHERE id > 1", "SELECT count(*) AS n FROM orders"],
        }
    )
    assert end.result == {
        "affected": 2,
        "statements": [{"affected": 2}, {"rows": 1}],
        "rows": [{"n": 1}],
    }
    assert orders.execute("SELECT count(*) FROM orders") == [(1,)]


TYPES = {
    "sqlite": "SELECT 1.5 AS a, x'ff' AS b, NULL AS c",
    "mariadb": """
        SELECT CAST(1.50 AS DECIMAL(9,2)) AS a, x'ff' AS b, TIME '-30:00:01' AS c,
        TIMESTAMP '2026-03-01 04:05:06' AS d, 18446744073709551615 AS e, CAST(NULL AS DATE) AS f
    """,
    "postgresql": r"""
        SELECT 1.50 AS a, CAST('\xff' AS bytea) AS b, CAST('{\:\:1}' AS inet[]) AS c,
        CAST('00000000-0000-0000-0000-000000000007' AS uuid) AS d,
        CAST('{"k"\: [1.25]}' AS jsonb) AS e, CAST('NaN' AS float) AS f, ARRAY[1, NULL] AS g,
        INTERVAL '90 s' AS h
    """,
}
AS_JSON: dict[str, list[Any]] = {
    "sqlite": [1.5, "/w==", None],
    "mariadb": [
        "1.50", "/w==", "-30:00:01", "2026-03-01T04:05:06", "18446744073709551615", None
    ],
    "postgresql": [
        "1.50", "/w==", ["::1"], "00000000-0000-0000-0000-000000000007", {"k": [1.25]}, "nan",
        [1, None], "00:01:30",
    ],
}  # fmt: skip


async def test_every_type_has_a_json_form(target: Target, call: Call) -> None:
    end = await call({"statement": TYPES[target.kind]})
    assert end.succeeded, end.message
    assert list(end.result["rows"][0].values()) == AS_JSON[target.kind]


async def test_rows_as_csv_in_the_log(orders: Target, call: Call) -> None:
    orders.execute("""UPDATE orders SET name = 'a,"b' WHERE id = 2""")
    parameters = {"statement": "SELECT id, name FROM orders ORDER BY id", "max_rows": 2}
    end = await call({**parameters, "rows": "log"})
    assert end.result == {"affected": 0, "statements": [{"rows": 2, "is_cut": True}]}
    assert end.lines("info")[1:4] == ["id,name", "1,one", '2,"a,""b"']
    assert "2 rows; there are more" in end.lines("info")[4]
    end = await call({**parameters, "rows": "nowhere"}, max_rows=1)
    assert end.result["statements"] == [{"rows": 1, "is_cut": True}]


async def test_a_result_of_any_size_stays_small(orders: Target, call: Call) -> None:
    cross = "orders a, orders b, orders c, orders d, orders e, orders f, orders g, orders h"
    end = await call({"statement": f"SELECT a.*, b.name AS x FROM {cross}", "max_rows": 5000})
    assert end.succeeded, end.message
    assert end.result["is_cut"] is True
    assert end.result["statements"] == [{"rows": 5000, "is_cut": True}]
    assert 500 < len(end.result["rows"]) < 5000


@pytest.mark.parametrize(
    ("fail_if", "name", "message"),
    [
        ("rows", "one", "returned 1 rows; none were expected"),
        ("rows", "none", None),
        ("no_rows", "none", "returned no rows"),
        ("no_rows", "one", None),
    ],
)
async def test_a_check_of_data(
    orders: Target, call: Call, fail_if: str, name: str, message: str | None
) -> None:
    end = await call(
        {
            "statement": "SELECT id FROM orders WHERE name = :name",
            "values": {"name": name},
            "fail_if": fail_if,
        }
    )
    assert (end.message if message is None else message in end.message) == (
        message is not None or ""
    )


async def test_values_are_never_statements(orders: Target, call: Call) -> None:
    for value in ("' OR 1=1 --", '" OR ""="', "\\' OR 1=1 #", "%s", ":id", "; DROP TABLE orders"):
        end = await call(
            {
                "statements": [
                    "UPDATE orders SET name = :name WHERE id = 1",
                    "SELECT name FROM orders WHERE name = :name",
                ],
                "values": {"name": value},
            }
        )
        assert end.succeeded, end.message
        assert end.result["rows"] == [{"name": value}]
    assert orders.execute("SELECT count(*) FROM orders") == [(3,)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1; DELETE FROM orders",
        "DELETE FROM orders WHERE id = 1; DELETE FROM orders",
        "UPDATE orders SET name = :n WHERE id = 1; DELETE FROM orders",
    ],
)
async def test_several_statements_in_one_text_are_refused_and_explained(
    orders: Target, call: Call, statement: str
) -> None:
    for transaction in ("one", "none"):
        values = {"n": "x"} if ":n" in statement else {}
        end = await call({"statement": statement, "values": values, "transaction": transaction})
        assert end.outcome == "failed"
        assert "entry of its own in `statements`" in end.message
    assert orders.execute("SELECT count(*) FROM orders") == [(3,)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"connection": "other", "statement": "SELECT 1"}, "it has: crm"),
        ({}, "give either statement or statements"),
        ({"statement": "SELECT 1", "statements": ["SELECT 2"]}, "give either"),
        ({"statement": " /* nothing */ -- at all"}, "statement 1 is empty"),
        ({"statements": ["SELECT 1", "/* x */ commit"]}, "statement 2 begins with COMMIT"),
        ({"statement": "SELECT :absent"}, "it uses :absent, and `values` has no absent"),
        ({"statement": "SELECT 1", "timeout_seconds": 7200}, "allows at most 3600"),
    ],
)
async def test_bad_parameters_fail_for_good(
    orders: Target, call: Call, parameters: dict[str, Any], message: str
) -> None:
    end = await call(parameters)
    assert (end.outcome, end.final) == ("failed", True)
    assert message in end.message


READ_ONLY_ATTACKS = (
    "DELETE FROM orders",
    "/*! DELETE FROM orders */",
    "WITH d AS (SELECT 1) DELETE FROM orders",
    "WITH d AS (DELETE FROM orders RETURNING id) SELECT * FROM d",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET SESSION TRANSACTION READ WRITE",
    "PRAGMA query_only = OFF",
    "SELECT 1; SET default_transaction_read_only = off; DELETE FROM orders",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config('default_transaction_read_only', 'off', false)",
    "CREATE TABLE other (id INTEGER)",
)


@pytest.mark.parametrize("transaction", ["one", "each", "none"])
async def test_read_only_connections_change_nothing(
    orders: Target, call: Call, transaction: str
) -> None:
    for attack in READ_ONLY_ATTACKS:
        end = await call(
            {
                "statements": [attack, "WITH d AS (SELECT 1) DELETE FROM orders"],
                "transaction": transaction,
            },
            read_only=True,
        )
        assert end.outcome == "failed", attack
        assert orders.execute("SELECT count(*) FROM orders") == [(3,)], attack
    end = await call({"statement": "SELECT id FROM orders WHERE id = 1"}, read_only=True)
    assert end.result["rows"] == [{"id": 1}]


async def test_only_listed_statements(orders: Target, call: Call) -> None:
    end = await call({"statement": "DELETE FROM orders"}, statements=("select", "update"))
    assert "allows only SELECT, UPDATE" in end.message
    end = await call({"statement": "SELECT 1"}, statements=("select", "update"))
    assert end.succeeded, end.message


async def test_cancel_ends_the_statement_on_the_server(target: Target, tmp_path: Path) -> None:
    offer = Sql({"crm": SqlConnection(url=target.url)})
    async with (
        FakeAdmin() as admin,
        Executor("crm", admins=[admin.url], token=admin.token, spool_dir=tmp_path, offers=[offer]),
    ):
        parameters = {"connection": "crm", "statement": ENDLESS[target.kind]}
        run = await admin.begin("sql", parameters)
        if target.server is None:
            await wait_until_async(lambda: any("1: WITH" in line.text for line in run.log))
        else:
            await wait_until_async(target.sleepers)
        await run.cancel()
        end = await run.end()
    assert end.outcome == "cancelled"
    assert "the statement was ended on the server" in end.lines("info")
    if target.server is not None:
        assert target.sleepers() == 0


async def test_a_timeout_ends_it_too_and_nothing_of_the_transaction_stays(
    orders: Target, call: Call
) -> None:
    end = await call(
        {
            "statements": ["DELETE FROM orders", ENDLESS[orders.kind]],
            "timeout_seconds": 1.5,
        }
    )
    assert end.message == "statement 2 did not end within 1.5 s and was cancelled"
    assert not end.final
    if orders.server is not None:
        assert orders.sleepers() == 0
    assert orders.execute("SELECT count(*) FROM orders") == [(3,)]


async def test_a_lock_that_is_not_free_is_tried_again(
    orders: Target, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_BUSY_SECONDS", 0.1)
    wait = {
        "sqlite": "SELECT 1",
        "mariadb": "SET innodb_lock_wait_timeout = 1",
        "postgresql": "SET LOCAL lock_timeout = 200",
    }[orders.kind]
    with orders.engine.connect() as other:
        other.exec_driver_sql("UPDATE orders SET name = 'held' WHERE id = 1")
        end = await call({"statements": [wait, "UPDATE orders SET name = 'x' WHERE id = 1"]})
        other.rollback()
    assert end.outcome == "failed"
    assert end.message.startswith("statement 2: ")
    assert end.retry_after is None
    assert not end.final
    assert any(line.startswith("Retry: ") for line in end.lines("error"))


async def test_a_server_that_cannot_be_reached_and_a_wrong_password(
    target: Target, call: Call
) -> None:
    if target.server is None:
        return
    end = await call({"statement": "SELECT 1"}, password="geheim")
    assert end.outcome == "failed"
    assert "geheim" not in end.message + str(end.log)
    assert target.server.password not in end.message + str(end.log)
    assert not any("Traceback" in line for line in end.lines())
