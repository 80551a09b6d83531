"""Readers of values as people write them: each raises ValueError with the rule it found broken."""

from __future__ import annotations

import base64
import difflib
import importlib.util
import ipaddress
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from yarl import URL

from tickwheel_admin.config_oidc import yes_or_no
from tickwheel_admin.domain.network_guard import Network as Network
from tickwheel_admin.domain.network_guard import is_forbidden
from tickwheel_shared import otel

KEY_BYTES = 32  # of AES-256
TRACE_ID = "{trace_id}"
_MAKE_KEY = "make one with `tickwheel secret-key`"
_URL_SAFE = str.maketrans("-_", "+/")

SUPPORTED_DATABASES = (
    "sqlite",
    "mysql+pymysql",
    "mariadb+pymysql",
    "mysql+mysqldb",
    "mariadb+mysqldb",
    "postgresql+psycopg",
)


def text(value: Any) -> str:
    found = value.strip() if isinstance(value, str) else ""
    if not found.isprintable() or not 1 <= len(found) <= 200:
        raise ValueError("must be a text of 1 to 200 printable characters")
    return found


def directory(value: Any) -> Path:
    """The path of a directory."""
    return _path(value, "must be the path of a directory")


def file(value: Any) -> Path:
    """The path of a file."""
    return _path(value, "must be the path of a file")


def _path(value: Any, rule: str) -> Path:
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError(rule)
    return Path(text).expanduser().absolute()


def whole_number(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return read


def database_url(value: Any) -> str:
    # No message here repeats the value: it may hold a password.
    try:
        url = sa.make_url(value if isinstance(value, str) else "")
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(
            "is not a database URL; for example mysql+pymysql://user:password@host/tickwheel"
        ) from None
    if url.drivername not in SUPPORTED_DATABASES:
        meant = difflib.get_close_matches(url.drivername, SUPPORTED_DATABASES, n=1, cutoff=0.4)
        hint = f"did you mean {meant[0]}://…?" if meant else ""
        raise ValueError(
            f"starts with {url.drivername}, but must start with one of"
            f" {', '.join(SUPPORTED_DATABASES)}; {hint}".rstrip("; ")
        )
    if url.drivername.endswith("+mysqldb") and importlib.util.find_spec("MySQLdb") is None:
        raise ValueError(
            f"starts with {url.drivername}, which needs the package mysqlclient:"
            " pip install 'mysqlclient>=2.2'"
        )
    if url.drivername == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError("must name a file: sqlite:////path/to/tickwheel.db")
    return str(value)


def public_url(value: Any) -> str:
    rule = "must be http:// or https:// with a host and nothing after it but a port"
    try:
        url = URL(value if isinstance(value, str) else "")
        usable = url.scheme in ("http", "https") and url.host and url.port
    except ValueError:
        raise ValueError(rule) from None
    if not usable or url.user or url.path not in ("", "/") or url.query_string or url.fragment:
        raise ValueError(rule)
    return str(url.origin())


def networks(value: Any) -> tuple[Network, ...]:
    items = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError("must be a list of addresses or networks, such as 10.0.0.0/8")
    networks = []
    for item in items:
        try:
            networks.append(ipaddress.ip_network(item))
        except ValueError:
            raise ValueError(f"{item!r} is not an address or network, such as 10.0.0.0/8") from None
    return tuple(networks)


def secret_keys(value: Any) -> tuple[bytes, ...]:
    """Keys in base64, separated by commas or lines; no message repeats any."""
    texts = value.replace(",", "\n").split() if isinstance(value, str) else []
    if not texts:
        raise ValueError(f"must be a key, or the new key and older ones with commas; {_MAKE_KEY}")
    keys, problems = [], []
    for number, text in enumerate(texts, start=1):
        try:
            key = base64.b64decode(text.translate(_URL_SAFE), validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            problems.append(f"key {number} is not {KEY_BYTES} bytes in base64; {_MAKE_KEY}")
        elif len(set(key)) < KEY_BYTES // 4:
            problems.append(f"key {number} is not random; {_MAKE_KEY}")
        elif key in keys:
            problems.append(f"key {number} is there twice")
        keys.append(key)
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(keys)


def secret_keys_in(value: Any) -> tuple[bytes, ...]:
    """The same, from a file."""
    try:
        text = file(value).read_text("ascii")
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = "?"
    return secret_keys(text)


def callable_networks(value: Any) -> tuple[Network, ...]:
    """Networks in which executors, or channels of alarms, are called."""
    found = networks(value)
    if never := [str(each) for each in found if is_forbidden(each)]:
        raise ValueError(
            f"{', '.join(never)}: link-local addresses, those of metadata services, multicast and"
            " unspecified addresses are never called; leave them out"
        )
    return found


Choice = TypeVar("Choice", bound=StrEnum)


def one_of(choices: type[Choice]) -> Callable[[Any], Choice]:
    def read(value: Any) -> Choice:
        try:
            return choices(value.lower() if isinstance(value, str) else value)
        except ValueError:
            raise ValueError(f"must be one of {', '.join(choices)}") from None

    return read


def tracing(value: Any) -> bool:
    wanted = yes_or_no(value)
    if wanted and not otel.is_installed():
        raise ValueError(f"needs the libraries of OpenTelemetry: {otel.INSTALL}")
    return wanted


def trace_url(value: Any) -> str:
    """A template with {trace_id}, as https://traces.example/trace/{trace_id}."""
    found = value.strip() if isinstance(value, str) and value.isprintable() else ""
    if found.count(TRACE_ID) != 1 or not found.startswith(("http://", "https://")):
        raise ValueError(
            "must be an address that begins with http:// or https:// and has {trace_id} once"
        )
    return found
