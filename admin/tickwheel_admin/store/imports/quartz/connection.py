"""A connection to the database of a Quartz that cannot write, and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.imports.source import SourceError

CONNECT_SECONDS = 5
_SCHEMES = {  # what people write → the driver that is used
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
}
_TABLES = ("job_details", "triggers", "simple_triggers", "cron_triggers", "simprop_triggers")
_FURTHER = ("calendars", "paused_trigger_grps")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartzDatabase:
    """An open database with the tables of Quartz, each by its name without the prefix."""

    connection: sa.Connection
    place: str  # its URL without password and options
    tables: dict[str, sa.Table]  # the keys of their columns are in lower case


@contextmanager
def open_quartz(url: str, *, prefix: str) -> Iterator[QuartzDatabase]:
    """Connect, and look for the tables.

    Args:
        url: of SQLAlchemy: `mysql://user:password@host:3306/app`.
        prefix: of the tables: "QRTZ_"; case does not matter.

    Raises:
        SourceError: it cannot be read; the message says what to do.
    """
    parsed = parsed_url(url)
    place = parsed.set(query={}).render_as_string(hide_password=True)
    try:
        engine = sa.create_engine(
            parsed,
            poolclass=sa.NullPool,
            hide_parameters=True,
            connect_args=_read_only(parsed),
        )
        connection = engine.connect()
    except sa.exc.DBAPIError as error:
        raise SourceError(f"{place}: {str(error.orig).strip()[:300]}") from None
    except (sa.exc.ArgumentError, ImportError, TypeError, ValueError) as error:
        raise SourceError(
            f"{place}: it cannot be opened ({error}); mysql, mariadb and postgresql can, others"
            " when their driver is installed"
        ) from None
    try:
        with connection:
            tables = _tables(connection, prefix, place)
            yield QuartzDatabase(connection=connection, place=place, tables=tables)
    except sa.exc.DBAPIError as error:
        raise SourceError(f"{place}: {str(error.orig).strip()[:300]}") from None
    finally:
        engine.dispose()


def parsed_url(url: str) -> sa.URL:
    """What people write, with the driver that is used; raises SourceError."""
    form = "write mysql://user:password@host:3306/database, or postgresql://…"
    if url.startswith("jdbc:"):
        raise SourceError(f"this is the URL that Java uses; {form}")
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise SourceError(f"this is not a database URL; {form}") from None
    return parsed.set(drivername=_SCHEMES.get(parsed.drivername, parsed.drivername))


def _read_only(url: sa.URL) -> dict[str, object]:
    """Whatever a later statement says by mistake, this session changes nothing."""
    if url.drivername.endswith("+pymysql"):
        return {
            "connect_timeout": CONNECT_SECONDS,
            "init_command": "SET SESSION TRANSACTION READ ONLY",
        }
    if url.drivername == "postgresql+psycopg":
        return {
            "connect_timeout": CONNECT_SECONDS,
            "options": "-c default_transaction_read_only=on",
        }
    return {}


def _tables(connection: sa.Connection, prefix: str, place: str) -> dict[str, sa.Table]:
    inspector = sa.inspect(connection)
    present = {name.lower(): name for name in inspector.get_table_names()}
    found: dict[str, sa.Table] = {}
    for name in (*_TABLES, *_FURTHER):
        full = present.get(f"{prefix}{name}".lower())
        if full is None:
            others = sorted(n for n in present if n.endswith("job_details"))
            hint = (
                f"; there is {others[0].upper()}: name its prefix with --prefix" if others else ""
            )
            raise SourceError(f"{place}: there is no table {prefix}{name.upper()}{hint}")
        columns = inspector.get_columns(full)
        found[name] = sa.Table(
            full,
            sa.MetaData(),
            *(sa.Column(c["name"], c["type"], key=c["name"].lower()) for c in columns),
        )
    if "sched_name" not in found["job_details"].c:
        raise SourceError(f"{place}: these are tables of Quartz 1; Quartz 2 can be imported")
    return found
