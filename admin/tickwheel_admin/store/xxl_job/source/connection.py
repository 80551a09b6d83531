"""A connection to an XXL-JOB database that cannot write, and what can go wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.imports.source import SourceError
from tickwheel_admin.store.xxl_job.source.schema import SourceSchema, read_schema

CONNECT_SECONDS = 5
READ_SECONDS = 120  # one page of a big table on a slow disk
_ACCESS_DENIED = (1044, 1045, 1698)
_UNKNOWN_DATABASE = 1049
_MAY_NOT = (1142, 1143)
_LOCKED = (1205, 1213, 3572)
_NOT_REACHED = (2002, 2003, 2005)
_LOST = (2006, 2013, 2014, 2055)
_SCHEMES = {  # what people write → the driver that is used
    "mysql": "mysql+pymysql",
    "mysql+pymysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "mariadb+pymysql": "mariadb+pymysql",
}


class Source:
    """An XXL-JOB database; made by `open_source`."""

    def __init__(self, connection: sa.Connection, schema: SourceSchema, place: str) -> None:
        self.connection = connection
        self.schema = schema
        self.place = place
        """Its URL without password and options."""

    def now_ms(self) -> int:
        """The server's clock, UTC epoch ms."""
        # UNIX_TIMESTAMP does not depend on the session's zone.
        return int(self.scalar("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"))

    def scalar(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The only column of the only row; None when there is no row."""
        rows = self.rows(statement, parameters)
        return rows[0][0] if rows else None

    def rows(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """All rows of one SELECT, in a transaction of its own, so that no snapshot is kept long.

        Args:
            statement: in PyMySQL's way of writing: parameters as %(name)s, a percent sign twice.
        """
        try:
            with self.connection.begin():
                # The driver's rows: SQLAlchemy's cost as much again, and the log has millions.
                cursor = self.connection.exec_driver_sql(statement, dict(parameters or {})).cursor
                return list(cursor.fetchall()) if cursor is not None else []
        except sa.exc.DBAPIError as error:
            raise explain(error, self.place) from None


@contextmanager
def open_source(url: str) -> Iterator[Source]:
    """Connect, and look at the schema.

    Args:
        url: `mysql+pymysql://user:password@host:3306/xxl_job`.

    Raises:
        SourceError: it cannot be read; the message says what to do.
    """
    parsed = parsed_url(url)
    place = parsed.set(query={}).render_as_string(hide_password=True)
    engine = sa.create_engine(
        parsed,
        poolclass=sa.NullPool,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        connect_args={
            "charset": parsed.query.get("charset", "utf8mb4"),
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "write_timeout": READ_SECONDS,
            # Whatever a later statement says by mistake, this session changes nothing.
            "init_command": "SET SESSION TRANSACTION READ ONLY",
        },
    )
    try:
        connection = engine.connect()
    except sa.exc.DBAPIError as error:
        engine.dispose()
        raise explain(error, place) from None
    except (TypeError, ValueError):  # of PyMySQL, which takes the options as arguments
        engine.dispose()
        raise SourceError(
            f"{place}: the options after the question mark are not all known; leave out those of"
            " the JDBC URL, such as useSSL or serverTimezone"
        ) from None
    try:
        with connection:
            source = Source(connection, SourceSchema(), place)
            source.schema = read_schema(source.rows)
            if problem := source.schema.problem():
                raise SourceError(f"{place}: {problem}")
            yield source
    finally:
        engine.dispose()


def source_name(url: str) -> str:
    """What names the installation unless somebody says otherwise: host:port/database."""
    parsed = parsed_url(url)
    return f"{(parsed.host or 'localhost').lower()}:{parsed.port or 3306}/{parsed.database}"


def explain(error: sa.exc.DBAPIError, place: str) -> SourceError:
    """The driver's error as a sentence."""
    arguments: tuple[Any, ...] = getattr(error.orig, "args", ())
    code = arguments[0] if arguments else None
    said = str(arguments[1]).strip() if len(arguments) > 1 else str(error.orig).strip()
    if code in _ACCESS_DENIED:
        return SourceError(f"{place}: the server refuses this user or password ({said})")
    if code == _UNKNOWN_DATABASE:
        return SourceError(f"{place}: there is no such database on this server")
    if code in _MAY_NOT:
        return SourceError(
            f"{place}: this user may not do what is needed ({said}); GRANT SELECT on the database"
            " is enough to read it; to move jobs, UPDATE on xxl_job_info and xxl_job_lock as well"
        )
    if code in _LOCKED:
        return SourceError(
            f"{place}: somebody else holds a lock for long ({said}); run the command again"
        )
    if code in _NOT_REACHED:
        return SourceError(f"{place}: the server cannot be reached ({said})")
    if code in _LOST:
        return SourceError(f"{place}: the connection was lost ({said}); run the command again")
    return SourceError(f"{place}: {said}")


def parsed_url(url: str) -> sa.URL:
    """What people write, with the driver that is used.

    Raises:
        SourceError: it names no database that could be XXL-JOB's.
    """
    if url.startswith("jdbc:"):
        raise SourceError(
            "this is the URL that Java uses; write mysql+pymysql://user:password@host:3306/xxl_job"
        )
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise SourceError(
            "this is not a database URL; write mysql+pymysql://user:password@host:3306/xxl_job"
        ) from None
    if parsed.drivername not in _SCHEMES:
        raise SourceError(
            f"XXL-JOB is read from MySQL or MariaDB, not from {parsed.drivername};"
            " write mysql+pymysql://user:password@host:3306/xxl_job"
        )
    if not parsed.database:
        raise SourceError(
            f"{parsed.render_as_string(hide_password=True)} names no database;"
            " add its name at the end, such as /xxl_job"
        )
    return parsed.set(drivername=_SCHEMES[parsed.drivername])
