"""What each database has of its own, and what needs none."""

from __future__ import annotations

import sqlite3
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import pymysql
import pytest
import sqlalchemy as sa

from tests.executor_sdk.offers.registry import handler_of
from tickwheel_executor.errors import ConfigurationError
from tickwheel_executor.handlers.signature import Signature
from tickwheel_executor.offers.sql import Sql, SqlConnection, connections
from tickwheel_executor.offers.sql.databases import reason_of
from tickwheel_executor.offers.sql.statements import first_word, only_returns_rows
from tickwheel_executor.offers.sql.values import csv_line, json_value
from tickwheel_executor.testing import HandlerEnd, run_handler
from tickwheel_shared.protocol import MAX_SCHEMA_BYTES


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Decimal("12.340"), "12.340"),
        (2**53, 2**53),
        (2**53 + 1, "9007199254740993"),
        (float("nan"), "nan"),
        (datetime(2026, 3, 1, 4, 5, tzinfo=UTC), "2026-03-01T04:05:00+00:00"),
        (date(2026, 3, 1), "2026-03-01"),
        (timedelta(hours=-30, microseconds=-5), "-30:00:00.000005"),
        (b"\xff\x00", "/wA="),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ({"a": [Decimal(1), None, True]}, {"a": ["1", None, True]}),
        ("a\x00\ud800", "a\ufffd?"),
        (ip_address("10.0.0.1"), "10.0.0.1"),
    ],
)
def test_values_as_json(value: object, shown: object) -> None:
    assert json_value(value) == shown


def test_values_as_csv() -> None:
    assert csv_line([1, None, 'a"b\nc', Decimal("1.0"), True]) == '1,,"a""b\nc",1.0,True'


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("select 1", "SELECT"),
        ("  -- a\n # b\n /* c */ ((Select 1))", "SELECT"),
        ("/*! COMMIT */", "/*!"),
        ("/*M! COMMIT */", "/*M!"),
        ("; COMMIT", "COMMIT"),
        ("/* open", ""),
        ("'x'", ""),
    ],
)
def test_first_words(statement: str, word: str) -> None:
    assert first_word(statement) == word


def test_what_only_returns_rows() -> None:
    assert only_returns_rows("SELECT created FROM inserts")
    assert not only_returns_rows("SELECT 1 INTO OUTFILE '/x'")
    assert not only_returns_rows("WITH x AS (DELETE FROM a RETURNING 1) SELECT 1")
    assert not only_returns_rows("SHOW TABLES")


def test_a_section_with_every_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "password"
    secret.write_text("geheim\n")
    monkeypatch.setenv("CRM_PASSWORD", "geheim")
    problems: list[str] = []
    table = {
        "connections": {
            "none": {},
            "oracle": {"url": "oracle://anna:geheim@db/crm"},
            "port": {"url": "mysql://anna:geheim@db:geheim/crm"},
            "host": {"url": "postgresql:///crm"},
            "file": {"url": "sqlite://"},
            "twice": {"url": "mysql://db/x", "password": "geheim", "password_env": "CRM_PASSWORD"},
            "absent": {"url": "mysql://db/x", "password_file": "/none"},
            "variable": {"url": "mysql://db/x", "password_env": "NO_SUCH"},
            "words": {"url": "mysql://db/x", "read_only": True, "statements": ["delete"]},
            "typo": {"url": "mysql://db/x", "readonly": True},
        }
    }
    assert Sql.from_config(table, problems) is None
    told = {each.removeprefix("sql.connections.").partition(":")[0] for each in problems}
    assert told == {
        "none.url", "oracle.url", "port.url", "host.url", "file.url", "twice.password_env",
        "absent.password_file", "variable.password_env", "words.statements", "typo.readonly",
    }  # fmt: skip
    assert "geheim" not in str(problems)

    problems.clear()
    assert Sql.from_config({}, problems) is None
    assert problems == ["sql.connections: there is none; write a table [sql.connections.NAME]"]

    problems.clear()
    good = {"url": "postgresql://db/crm", "user": "anna", "password_file": str(secret)}
    offer = Sql.from_config({"connections": {"crm": good}}, problems)
    assert offer is not None, problems
    connection = offer._connections["crm"]
    assert connection.password == "geheim"
    assert "geheim" not in repr(connection)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        return None if name == "psycopg" else find_spec(name)

    monkeypatch.setattr(connections, "find_spec", find)
    with pytest.raises(ConfigurationError, match="psycopg; install the SDK with its extra sql"):
        Sql({"crm": SqlConnection(url="postgresql://db/crm")})


def test_the_form_is_described() -> None:
    assert "tickwheel_executor.offers.sql.offer" in sys.modules
    offer = Sql({"crm": SqlConnection(url="sqlite:////tmp/crm.db")})
    schema = Signature("sql", handler_of(offer, "sql")).schema
    assert schema is not None
    assert len(schema) <= MAX_SCHEMA_BYTES


async def sqlite_run(path: Path, *statements: str, **parameters: Any) -> HandlerEnd:
    offer = Sql({"crm": SqlConnection(url=f"sqlite:///{path}")})
    return await run_handler(
        handler_of(offer, "sql"),
        "sql",
        parameters={"connection": "crm", "statements": list(statements), **parameters},
    )


async def test_statements_of_sqlite_reach_no_other_file(tmp_path: Path) -> None:
    path, other = tmp_path / "crm.db", tmp_path / "other.db"
    sqlite3.connect(path).close()
    for statement in (f"ATTACH '{other}' AS o", f"VACUUM INTO '{other}'"):
        for transaction in ("one", "none"):
            end = await sqlite_run(path, statement, transaction=transaction)
            assert end.outcome == "failed", statement
    end = await sqlite_run(path, "SELECT load_extension('x')")
    assert end.outcome == "failed"
    assert not other.exists()


async def test_ddl_of_sqlite_is_part_of_the_transaction(tmp_path: Path) -> None:
    path = tmp_path / "crm.db"
    sqlite3.connect(path).close()
    end = await sqlite_run(path, "CREATE TABLE a (id INTEGER)", "SELECT * FROM absent")
    assert end.message == "statement 2: no such table: absent"
    end = await sqlite_run(path, "SELECT count(*) AS n FROM sqlite_master")
    assert end.result["rows"] == [{"n": 0}]


class _Diagnosis:
    message_primary = "could not serialize"


class _PostgresError(Exception):
    diag = _Diagnosis()

    def __init__(self, sqlstate: str) -> None:
        super().__init__("could not serialize\nDETAIL: Key (name)=(geheim)")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("error", "text", "may_help"),
    [
        (_PostgresError("40001"), "could not serialize (40001)", True),
        (_PostgresError("40P01"), "could not serialize (40P01)", True),
        (_PostgresError("23505"), "could not serialize (23505)", False),
        (pymysql.err.OperationalError(1213, "Deadlock found"), "Deadlock found (1213)", True),
        (pymysql.err.IntegrityError(1062, "Duplicate"), "Duplicate (1062)", False),
        (pymysql.err.InterfaceError(0, ""), "0 (0)", False),
    ],
)
def test_which_failures_are_tried_again(error: Exception, text: str, may_help: bool) -> None:
    wrapped = sa.exc.DBAPIError("SELECT 1", {"secret": "geheim"}, error)
    assert reason_of(wrapped, "SELECT 1") == (text, may_help)
