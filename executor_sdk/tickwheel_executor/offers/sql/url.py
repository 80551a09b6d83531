"""The URL of a database, as SQLAlchemy reads it. Needs SQLAlchemy, which is an extra."""

from __future__ import annotations

import sqlalchemy as sa


def parse_url(text: str, *, drivername: str) -> sa.URL:
    """The URL with the driver that is used.

    Raises:
        sqlalchemy.exc.ArgumentError, ValueError: it cannot be read.
    """
    url = sa.make_url(text).set(drivername=drivername)
    if drivername.endswith("pymysql"):
        url = url.update_query_dict({"charset": "utf8mb4", **dict(url.query)})
    return url


def url_problem(text: str, *, drivername: str) -> str:
    """What is wrong with the URL, without repeating it; "": nothing."""
    try:
        url = parse_url(text, drivername=drivername)
    except (sa.exc.ArgumentError, ValueError):
        return "it cannot be read as a URL; special characters of a password are written as %40"
    if drivername != "sqlite" and not url.host and not url.query:
        return "it names no host"
    if drivername == "sqlite" and not url.database:
        return "it names no file; write sqlite:////var/lib/crm.db"
    return ""
