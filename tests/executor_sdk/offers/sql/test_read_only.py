"""Connections that may only read, or only send some statements, whatever a job writes."""

from __future__ import annotations

from typing import Any

import pytest

from tickwheel_executor.offers.sql import offer as sql_offer

from .conftest import Call, Target

READ_ONLY_ATTACKS = (
    "DELETE FROM orders",
    "/*! DELETE FROM orders */",
    "/*M! DELETE FROM orders */",
    "/* a */ /*!50000 SET SESSION TRANSACTION READ WRITE */",
    "WITH d AS (SELECT 1) DELETE FROM orders",
    "WITH d AS (DELETE FROM orders RETURNING id) SELECT * FROM d",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET SESSION TRANSACTION READ WRITE",
    "SET TRANSACTION READ WRITE",
    "PRAGMA query_only = OFF",
    "SELECT 1; SET default_transaction_read_only = off; DELETE FROM orders",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config('default_transaction_read_only', 'off', false)",
    "CREATE TABLE other (id INTEGER)",
    # PostgreSQL goes on reading a comment behind its first end; “into” lets it have no cursor.
    "/* /* */ SELECT into */ SET TRANSACTION READ WRITE",
    "/* /* */ SELECT into */ COMMIT",
    "/* x /*/ SELECT into */ SET TRANSACTION READ WRITE */",
    "( /* /* */ SELECT */ SELECT 1)",
    # It ends a line of comment at a carriage return.
    "-- \rSET TRANSACTION READ WRITE /*\nSELECT into */",
    # A value in a comment, which MySQL's driver puts there as text.
    "/* :end */ SELECT 1",
    "SELECT 'x' INTO OUTFILE '/tmp/tickwheel-attack'",
    "SELECT 1 /*! INTO DUMPFILE '/tmp/tickwheel-attack' */",
    "SELECT 1\0; DELETE FROM orders",
)


@pytest.mark.parametrize("transaction", ["one", "each", "none"])
async def test_read_only_connections_change_nothing(
    orders: Target, call: Call, transaction: str
) -> None:
    for attack in READ_ONLY_ATTACKS:
        end = await call(
            {
                "statements": [attack, "WITH d AS (SELECT 1) DELETE FROM orders"],
                "values": {"end": "*/ DELETE FROM orders -- "},
                "transaction": transaction,
            },
            read_only=True,
        )
        assert end.outcome == "failed", attack
    assert orders.execute("SELECT count(*) FROM orders") == [(3,)]
    end = await call({"statement": "SELECT id FROM orders WHERE id = 1"}, read_only=True)
    assert end.result["rows"] == [{"id": 1}]


# What a job could do if it got past every look at the text.
WITHOUT_A_LOOK: dict[str, tuple[tuple[str, ...], ...]] = {
    "postgresql": (
        ("SET TRANSACTION READ WRITE",),
        ("COMMIT",),
        ("COMMIT", "SET TRANSACTION READ WRITE"),
        ("COMMIT AND CHAIN", "SET TRANSACTION READ WRITE"),
        ("ROLLBACK", "START TRANSACTION READ WRITE"),
        ("COMMIT", "SET default_transaction_read_only = off", "COMMIT"),
        ("SAVEPOINT a", "SET TRANSACTION READ WRITE"),
        ("DO 'BEGIN COMMIT; DELETE FROM orders; END'",),
    ),
    "mariadb": (
        ("COMMIT",),
        ("SET SESSION TRANSACTION READ WRITE", "COMMIT"),
        ("START TRANSACTION READ WRITE",),
        ("COMMIT", "BEGIN"),
        ("SET autocommit = 1", "SET SESSION TRANSACTION READ WRITE"),
        ("EXECUTE IMMEDIATE 'DELETE FROM orders'",),
        ("CREATE TABLE other (id INTEGER)", "SELECT 1"),
    ),
    "sqlite": (
        ("PRAGMA query_only = OFF",),
        ("COMMIT", "PRAGMA query_only = OFF"),
        ("COMMIT", "BEGIN IMMEDIATE"),
        ("CREATE TEMP TABLE other (id INTEGER)",),
        ("ATTACH ':memory:' AS other",),
        ("SELECT load_extension('x')",),
        ("PRAGMA writable_schema = ON", "UPDATE sqlite_master SET sql = ''"),
        ("UPDATE sqlite_master SET sql = ''",),
    ),
}


@pytest.mark.parametrize("transaction", ["one", "each"])
async def test_the_database_enforces_it_whatever_the_text_looks_like(
    orders: Target, call: Call, transaction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_offer, "check_statement", lambda *_: None)
    for attacks in WITHOUT_A_LOOK[orders.kind]:
        parameters = {"statements": [*attacks, "DELETE FROM orders"], "transaction": transaction}
        end = await call(parameters, read_only=True)
        assert end.outcome == "failed", attacks
    assert orders.execute("SELECT count(*) FROM orders") == [(3,)]


async def test_what_reads_is_not_disturbed(orders: Target, call: Call) -> None:
    statements = {
        "sqlite": (
            "SELECT name FROM pragma_table_info('orders') WHERE name = 'id'",
            "EXPLAIN QUERY PLAN SELECT * FROM orders",
            "VALUES (1)",
        ),
        "mariadb": ("SHOW TABLES", "EXPLAIN SELECT * FROM orders", "DESC orders"),
        "postgresql": ("SHOW search_path", "EXPLAIN ANALYZE SELECT 1", "TABLE orders"),
    }[orders.kind]
    for statement in (
        *statements,
        "/* for the replica */ -- and: 10:30\r\n ((SELECT id FROM orders WHERE name = 'update'))",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n",
    ):
        if orders.kind == "sqlite" and "((" in statement:
            statement = statement.replace("((", "").replace("))", "")
        for transaction in ("one", "each", "none"):
            parameters = {"statements": [statement, "SELECT 1"], "transaction": transaction}
            end = await call(parameters, read_only=True)
            assert end.succeeded, (statement, end.message)


async def test_a_full_text_table_of_sqlite_can_be_read(target: Target, call: Call) -> None:
    if target.kind != "sqlite":
        return
    target.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(body)",
        "INSERT INTO texts VALUES ('some words')",
    )
    statement = "SELECT body FROM texts WHERE texts MATCH 'words'"
    end = await call({"statement": statement}, read_only=True)
    assert end.result["rows"] == [{"body": "some words"}], end.message


async def test_only_listed_statements(orders: Target, call: Call) -> None:
    listed: dict[str, Any] = {"statements": ("select", "update")}
    end = await call({"statement": "DELETE FROM orders"}, **listed)
    assert "allows only SELECT, UPDATE" in end.message
    end = await call({"statement": "SELECT 1"}, **listed)
    assert end.succeeded, end.message
    for attack in READ_ONLY_ATTACKS[15:20]:
        end = await call({"statement": attack}, **listed)
        assert end.final, attack
        assert "begins with a comment that contains" in end.message
    assert orders.execute("SELECT count(*) FROM orders") == [(3,)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM orders WHERE name = ':name'",
        'SELECT * FROM orders WHERE name = ":name"',
        "SELECT 'it''s \\' :name'",
        "SELECT 1 -- :name",
        "SELECT 1 # :name",
        "SELECT 1 /* :name */",
        "SELECT `:name` FROM orders",
    ],
)
async def test_values_end_no_quotes_and_no_comment_of_mysql(
    orders: Target, call: Call, statement: str
) -> None:
    if orders.kind != "mariadb":  # others get values beside the statement
        return
    values = {"name": " OR 1=1 */ OR 1=1\n OR 1=1"}
    end = await call({"statement": statement, "values": values})
    assert end.final
    assert ":name stands within quotes or a comment" in end.message
    good = "SELECT 'it\\'s \\:name', \"--\" -- don't\n, :name /*! + 1 */ FROM orders"
    end = await call({"statement": good, "values": {"name": 1}})
    assert end.succeeded, end.message
