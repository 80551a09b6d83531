"""One face for the connections that receipts are written on, without importing their libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tickwheel_executor.errors import ReceiptError

_IDLE = 0  # libpq: PQTRANS_IDLE
_IN_TRANSACTION = 1  # MySQL: SERVER_STATUS_IN_TRANS
_MYSQL_MODULES = ("pymysql", "MySQLdb", "mysql", "mariadb")
_POSTGRESQL_MODULES = ("psycopg", "psycopg2", "pg8000")

_WANTED = (
    "wanted a SQLAlchemy Connection or Session, a connection of Django, or a DB-API connection to "
    "PostgreSQL, MariaDB, MySQL or SQLite"
)


@dataclass(frozen=True, slots=True)
class VendorStatements:
    """The statements that differ between databases, with `?` for each value."""

    insert: str  # changes no row if there is one
    find: str  # waits for who writes the row, and reads what is committed, never a snapshot
    purge: str


_COLUMNS = "installation, effect, run_id, attempt, token, done, written_at"
_VALUES = f"INTO tickwheel_receipt ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_FIND = (
    "SELECT attempt, token, done, written_at, result FROM tickwheel_receipt "
    "WHERE installation = ? AND effect = ?"
)
_PURGE_BY_KEY = (
    "DELETE FROM tickwheel_receipt WHERE (installation, effect) IN (SELECT installation, effect "
    "FROM tickwheel_receipt WHERE written_at < ? ORDER BY written_at LIMIT ?)"
)
VENDORS = {
    "mysql": VendorStatements(
        insert=f"INSERT IGNORE {_VALUES}",
        find=f"{_FIND} LOCK IN SHARE MODE",
        purge="DELETE FROM tickwheel_receipt WHERE written_at < ? ORDER BY written_at LIMIT ?",
    ),
    "postgresql": VendorStatements(
        insert=f"INSERT {_VALUES} ON CONFLICT DO NOTHING",
        find=f"{_FIND} FOR SHARE",
        purge=_PURGE_BY_KEY,
    ),
    # An INSERT takes the lock of the only writer, also if it changes nothing.
    "sqlite": VendorStatements(
        insert=f"INSERT {_VALUES} ON CONFLICT DO NOTHING", find=_FIND, purge=_PURGE_BY_KEY
    ),
}


class Database(Protocol):
    """A connection, with a vendor of VENDORS."""

    vendor: str

    def execute(self, statement: str, *values: Any) -> int:
        """Execute it, with a value for each `?`; returns how many rows it changed."""
        ...

    def row(self, statement: str, *values: Any) -> Sequence[Any] | None:
        """The first row that it finds."""
        ...

    def commits_each_statement(self) -> bool:
        """Whether the next statement would be a transaction of its own."""
        ...


def database_of(connection: Any) -> Database:
    """The connection that a handler has, or that its session has.

    Raises:
        ReceiptError: it is none, or one to another database.
    """
    if hasattr(connection, "run_sync"):
        raise ReceiptError("this connection is asynchronous: `await run.receipt_async(connection)`")
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        connection = connection.connection()  # a Session of SQLAlchemy
    if hasattr(connection, "exec_driver_sql"):
        return _SqlAlchemy(connection)
    if hasattr(connection, "in_atomic_block") and hasattr(connection, "vendor"):
        return _Django(connection)
    module = type(connection).__module__.partition(".")[0]
    if module == "sqlite3":
        return _DbApi(connection, "sqlite", "?")
    if module in _MYSQL_MODULES and hasattr(connection, "cursor"):
        return _DbApi(connection, "mysql", "%s")
    if module in _POSTGRESQL_MODULES and hasattr(connection, "cursor"):
        return _DbApi(connection, "postgresql", "%s")
    raise ReceiptError(f"{type(connection).__qualname__} is no connection for a receipt: {_WANTED}")


class _SqlAlchemy:
    """A Connection of SQLAlchemy; the statements go to its driver as they are."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        dialect = connection.dialect
        self.vendor = _known("mysql" if dialect.name == "mariadb" else dialect.name)
        self._style = dialect.paramstyle

    def execute(self, statement: str, *values: Any) -> int:
        return int(self._cursor(statement, values).rowcount)

    def row(self, statement: str, *values: Any) -> Sequence[Any] | None:
        found: Sequence[Any] | None = self._cursor(statement, values).first()
        return found

    def _cursor(self, statement: str, values: Sequence[Any]) -> Any:
        if self._style == "named":  # for drivers of pg8000's kind
            names = {f"v{number}": value for number, value in enumerate(values, 1)}
            return self._connection.exec_driver_sql(_numbered(statement, ":v"), names)
        marks = {"qmark": "?", "format": "%s", "pyformat": "%s"}
        if self._style in marks:
            statement = statement.replace("?", marks[self._style])
        else:
            statement = _numbered(statement, "$" if "dollar" in self._style else ":")
        return self._connection.exec_driver_sql(statement, tuple(values))

    def commits_each_statement(self) -> bool:
        options = self._connection.get_execution_options()
        engine = getattr(self._connection, "engine", None)
        of_engine = {} if engine is None else engine.get_execution_options()
        level = options.get("isolation_level") or of_engine.get("isolation_level")
        if level is not None:
            return bool(level == "AUTOCOMMIT")
        pooled = self._connection.connection
        adapter = pooled.dbapi_connection
        if type(adapter) is not type(pooled.driver_connection):  # of an asynchronous driver
            return getattr(adapter, "autocommit", False) is True
        return _commits_each_statement(adapter)


class _Django:
    """A connection of Django, whose cursors take %s on every database."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.vendor = _known(connection.vendor)

    def execute(self, statement: str, *values: Any) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(statement.replace("?", "%s"), values or None)
            return int(cursor.rowcount)

    def row(self, statement: str, *values: Any) -> Sequence[Any] | None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement.replace("?", "%s"), values)
            found: Sequence[Any] | None = cursor.fetchone()
            return found

    def commits_each_statement(self) -> bool:
        return not self._connection.in_atomic_block and bool(self._connection.get_autocommit())


class _DbApi:
    """A connection as PEP 249 has it."""

    def __init__(self, connection: Any, vendor: str, mark: str) -> None:
        self._connection = connection
        self.vendor = vendor
        self._mark = mark

    def execute(self, statement: str, *values: Any) -> int:
        cursor = self._cursor(statement, values)
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def row(self, statement: str, *values: Any) -> Sequence[Any] | None:
        cursor = self._cursor(statement, values)
        try:
            found = cursor.fetchone()
        finally:
            cursor.close()
        # Connections may be set up to give dictionaries, in the order of the columns.
        return None if found is None else tuple(found.values() if _is_mapping(found) else found)

    def _cursor(self, statement: str, values: Sequence[Any]) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement.replace("?", self._mark), tuple(values))
        return cursor

    def commits_each_statement(self) -> bool:
        return _commits_each_statement(self._connection)


def _commits_each_statement(driver: Any) -> bool:
    """Whether this connection of a driver is in autocommit, and no transaction was begun."""
    if hasattr(driver, "in_transaction") and hasattr(driver, "isolation_level"):  # sqlite3
        by_itself = driver.isolation_level is None
        if getattr(driver, "autocommit", -1) in (True, False):  # since Python 3.12
            by_itself = driver.autocommit
        return bool(by_itself and not driver.in_transaction)
    if hasattr(driver, "get_autocommit"):  # pymysql, MySQLdb
        begun = getattr(driver, "server_status", 0) & _IN_TRANSACTION
        return bool(driver.get_autocommit() and not begun)
    if getattr(driver, "autocommit", False) is not True:
        return False
    if hasattr(driver, "info"):  # psycopg, psycopg2
        return bool(driver.info.transaction_status == _IDLE)
    return not getattr(driver, "in_transaction", False)  # mysql.connector has it


def _known(vendor: str) -> str:
    if vendor not in VENDORS:
        raise ReceiptError(f"no receipts on {vendor}: {_WANTED}")
    return vendor


def _numbered(statement: str, sign: str) -> str:
    first, *rest = statement.split("?")
    return first + "".join(f"{sign}{number}{each}" for number, each in enumerate(rest, 1))


def _is_mapping(row: Any) -> bool:
    return hasattr(row, "keys") and hasattr(row, "values")
