"""The flags that name an XXL-JOB database, for every command that reads one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from tickwheel_admin.store.xxl_job.source.connection import Source, open_source

PASSWORD_VARIABLE = "TICKWHEEL_XXL_JOB_PASSWORD"  # noqa: S105 - its name
_URL_FORM = "mysql+pymysql://USER@HOST:3306/xxl_job"


def add_url_flag(command: argparse.ArgumentParser) -> None:
    """The database."""
    command.add_argument(
        "--from",
        dest="source_url",
        required=True,
        metavar="URL",
        help=f"its database: {_URL_FORM}; best with the password in the environment variable"
        f" {PASSWORD_VARIABLE}, as others may see the arguments of a process",
    )


def add_source_flags(command: argparse.ArgumentParser) -> None:
    """The database and its two zones, which XXL-JOB does not store."""
    add_url_flag(command)
    command.add_argument(
        "--zone",
        metavar="NAME",
        help="zone of its DATETIMEs, serverTimezone in the JDBC URL (default: what fits the data,"
        " else Asia/Shanghai)",
    )
    command.add_argument(
        "--cron-zone",
        metavar="NAME",
        help="zone of the admin's JVM, in which cron is read (default: what fits the data,"
        " else Asia/Shanghai)",
    )


@contextmanager
def opened_source(args: argparse.Namespace) -> Iterator[Source]:
    """The database that the flags name; raises SourceError."""
    with open_source(source_url(args)) as source:
        yield source


def source_url(args: argparse.Namespace) -> str:
    """The URL of the flags, with the password."""
    url: str = args.source_url
    password = os.environ.get(PASSWORD_VARIABLE)
    if not password:
        return url
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        return url  # which is refused with a sentence
    if parsed.password is not None:
        return url
    return parsed.set(password=password).render_as_string(hide_password=False)
