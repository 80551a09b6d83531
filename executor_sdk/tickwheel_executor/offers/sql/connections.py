"""Connections to databases: they live on this machine, and jobs name them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tickwheel_executor.offers.config import ConfigTable

from .statements import READING_WORDS

MAX_SECONDS = 86_400.0
MAX_ROWS = 100_000
INSTALL = "install the SDK with its extra sql, which has all of them"
# Scheme of a URL: the dialect and driver of SQLAlchemy, and the driver's module.
_DRIVERS = {
    "mysql": ("mysql+pymysql", "pymysql"),
    "mysql+pymysql": ("mysql+pymysql", "pymysql"),
    "mariadb": ("mariadb+pymysql", "pymysql"),
    "mariadb+pymysql": ("mariadb+pymysql", "pymysql"),
    "postgresql": ("postgresql+psycopg", "psycopg"),
    "postgres": ("postgresql+psycopg", "psycopg"),
    "postgresql+psycopg": ("postgresql+psycopg", "psycopg"),
    "sqlite": ("sqlite", "sqlite3"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlConnection:
    """One database, and what jobs may do there.

    What really protects a database are the rights of its user; the rest is a second fence.
    """

    url: str = field(repr=False)  # "mysql://db.example.com/crm"; it may contain user and password
    user: str | None = None  # instead of the one in the URL
    password: str | None = field(default=None, repr=False)  # likewise
    read_only: bool = False  # transactions are read-only, and only reading statements are sent
    statements: tuple[str, ...] = ()  # first words of allowed statements; none: any
    max_statement_seconds: float = 3600.0  # the longest timeout that a job may choose
    max_rows: int = 10_000  # the most rows that a job may ask for

    @property
    def scheme(self) -> str:
        """What the URL begins with."""
        return self.url.partition("://")[0].lower()

    @property
    def drivername(self) -> str:
        """SQLAlchemy's name for dialect and driver."""
        return _DRIVERS[self.scheme][0]

    @property
    def is_mysql(self) -> bool:
        """Whether this is MySQL or MariaDB."""
        return self.drivername.endswith("+pymysql")

    @property
    def allowed_words(self) -> frozenset[str]:
        """First words of statements that may be sent, in capitals; none: any."""
        named = frozenset(word.upper() for word in self.statements)
        if not self.read_only:
            return named
        return READING_WORDS & named if named else READING_WORDS


def problem_of(connection: SqlConnection) -> tuple[str, str] | None:
    """The field that is wrong, and what; None: it can be used. Never repeats the URL."""
    if connection.scheme not in _DRIVERS or "://" not in connection.url:
        known = "mysql://, mariadb://, postgresql:// or sqlite:///"
        return "url", f"this is no URL of a known database; it begins with {known}"
    module = _DRIVERS[connection.scheme][1]
    for needed in ("sqlalchemy", module):
        if find_spec(needed) is None:
            return "url", f"it needs the Python package {needed}; {INSTALL}"
    from .url import url_problem  # here, because it needs SQLAlchemy

    text = url_problem(connection.url, drivername=connection.drivername)
    return ("url", text) if text else None


def connection_of(config: ConfigTable) -> SqlConnection | None:
    """From a table [sql.connections.NAME]; None if it has problems."""
    url = config.text("url")
    connection = SqlConnection(
        url=url,
        user=config.text("user") or None,
        password=_password(config),
        read_only=config.flag("read_only"),
        statements=config.texts("statements"),
        max_statement_seconds=config.number(
            "max_statement_seconds", 3600.0, least=0.1, most=MAX_SECONDS
        ),
        max_rows=config.whole("max_rows", 10_000, least=1, most=MAX_ROWS),
    )
    if not url:
        config.problem("url", 'it is missing; write such as "postgresql://db.example.com/crm"')
    elif found := problem_of(connection):
        config.problem(*found)
    if connection.read_only and connection.statements and not connection.allowed_words:
        words = ", ".join(sorted(READING_WORDS))
        config.problem("statements", f"none of them reads, and read_only is true; write of {words}")
    return connection if config.finish() else None


def _password(config: ConfigTable, environ: Mapping[str, str] = os.environ) -> str | None:
    """From the file itself, another file, or the environment."""
    ways = [name for name in ("password", "password_file", "password_env") if config.has(name)]
    if len(ways) > 1:
        config.problem(ways[1], f"{ways[0]} is there as well; write only one of them")
        return None
    if path := config.text("password_file"):
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            config.problem("password_file", f"{path} cannot be read: {reason}")
            return None
    if variable := config.text("password_env"):
        if variable not in environ:
            config.problem("password_env", f"the environment has no variable {variable}")
        return environ.get(variable)
    return config.text("password") or None
