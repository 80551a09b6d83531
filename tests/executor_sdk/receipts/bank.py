"""The database of a service that moves money: two accounts, and the table of receipts."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pymysql
import sqlalchemy as sa

from tickwheel_executor.receipts import create_receipt_table

AT_FIRST = (1_000, 0)
MOVED = 10

DEBIT = f"UPDATE account SET balance = balance - {MOVED} WHERE id = 1"
CREDIT = f"UPDATE account SET balance = balance + {MOVED} WHERE id = 2"


class Bank:
    """Two accounts at a URL of SQLAlchemy."""

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url)
        self.vendor = (
            "mysql" if self.url.get_backend_name() == "mariadb" else (self.url.get_backend_name())
        )
        self.engine = sa.create_engine(url, poolclass=sa.NullPool)

    def open(self) -> None:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(
                "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)"
            )
            create_receipt_table(connection)
            for number, balance in enumerate(AT_FIRST, 1):
                connection.exec_driver_sql(f"INSERT INTO account VALUES ({number}, {balance})")

    def moves(self) -> tuple[int, int]:
        """How often money has left the one account, and how often it has come to the other."""
        with self.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT balance FROM account ORDER BY id").scalars()
            first, second = rows.all()
        return (AT_FIRST[0] - first) // MOVED, (second - AT_FIRST[1]) // MOVED

    def receipts(self) -> list[tuple[Any, ...]]:
        """Effect, attempt, done and result of each."""
        with self.engine.connect() as connection:
            rows = connection.exec_driver_sql(
                "SELECT effect, attempt, done, result FROM tickwheel_receipt ORDER BY effect"
            )
            return [tuple(row) for row in rows]

    def plain_connection(self, **settings: Any) -> Any:
        """A new connection of the driver, as a service without SQLAlchemy has it."""
        if self.vendor == "sqlite":
            return sqlite3.connect(str(self.url.database), timeout=5, **settings)
        parts = {
            "host": self.url.host,
            "port": self.url.port,
            "user": self.url.username,
            "password": self.url.password,
        }
        if self.vendor == "mysql":
            return pymysql.connect(database=self.url.database, **parts, **settings)
        return psycopg.connect(dbname=self.url.database, **parts, **settings)


def move(connection: sa.Connection) -> None:
    connection.exec_driver_sql(DEBIT)
    connection.exec_driver_sql(CREDIT)
