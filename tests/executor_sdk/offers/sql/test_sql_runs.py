"""The handler `sql` on MariaDB, PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from tests.support.polling import wait_until_async
from tickwheel_executor import Executor
from tickwheel_executor.offers.sql import Sql, SqlConnection, databases
from tickwheel_executor.testing import FakeAdmin, HandlerEnd

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


LARGE_ROWS = {  # 100 of 1 MB
    "sqlite": "hex(zeroblob(500000))",
    "mariadb": "REPEAT('x', 1000000)",
    "postgresql": "repeat('x', 1000000)",
}


@pytest.mark.parametrize("transaction", ["one", "none"])
@pytest.mark.parametrize("condition", ["1 = 1", "'insert' <> 'into'"])
async def test_memory_does_not_depend_on_the_size_of_rows(
    target: Target, call: Call, transaction: str, condition: str
) -> None:
    text = LARGE_ROWS[target.kind]
    end, taken = await _memory_of(
        call(
            {
                "statement": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
                f"i < 100) SELECT {text} AS x FROM n WHERE {condition}",
                "transaction": transaction,
                "max_rows": 5_000,
            }
        )
    )
    assert end.succeeded, end.message
    [told] = end.result["statements"]
    assert told["is_cut"] is True
    assert 60 < told["rows"] < 70, "64 MiB are read"
    assert taken < 40 * 1024**2


async def _memory_of(run: Awaitable[HandlerEnd]) -> tuple[HandlerEnd, int]:
    """What it returns, and how much the memory of this process grew at most, in bytes."""
    _forget_the_peak()
    before = _status("VmRSS")
    end = await run
    return end, _status("VmHWM") - before


def _forget_the_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{name}:")[2].split()[0]) * 1024


async def test_statements_that_return_rows_and_write_are_executed_to_their_end(
    orders: Target, call: Call
) -> None:
    statements = {
        "sqlite": ["DELETE FROM orders RETURNING id"],
        "mariadb": ["DELETE FROM orders RETURNING id"],
        "postgresql": [
            "WITH d AS (DELETE FROM orders WHERE id = 3 RETURNING id) SELECT id FROM d",
            "SELECT id INTO copies FROM orders",
            "SELECT id FROM orders FOR UPDATE",
            "DELETE FROM orders RETURNING id",
            "SELECT count(*) FROM copies",
            "DROP TABLE copies",
        ],
    }[orders.kind]
    for transaction in ("one", "each", "none"):
        orders.execute(
            "DELETE FROM orders", "INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')"
        )
        parameters = {"statements": statements, "max_rows": 1, "transaction": transaction}
        end = await call(parameters)
        assert end.succeeded, end.message
        assert orders.execute("SELECT count(*) FROM orders") == [(0,)]


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
