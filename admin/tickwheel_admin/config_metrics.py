"""Settings of `/metrics`: readers of values, and what does not go together."""

from __future__ import annotations

import ipaddress
from typing import Any

from tickwheel_admin.config_values import file

LEAST_TOKEN_CHARS = 24
MAX_JOBS = 100
DEFAULT_EXECUTORS = 100
MAX_EXECUTORS = 1_000


def token(value: Any) -> str:
    """A bearer token; no message repeats it."""
    text = value.strip() if isinstance(value, str) else ""
    if not (LEAST_TOKEN_CHARS <= len(text) <= 200 and text.isascii() and text.isprintable()):
        raise ValueError(
            f"must be {LEAST_TOKEN_CHARS} to 200 printable ASCII characters;"
            " make one with `openssl rand -hex 24`"
        )
    if " " in text or len(set(text)) < 8:
        raise ValueError("must be random and without spaces; make one with `openssl rand -hex 24`")
    return text


def token_in(value: Any) -> str:
    """The same, from a file."""
    try:
        return token(file(value).read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("does not contain a token") from None


def jobs(value: Any) -> tuple[str, ...]:
    """Jobs as executor/job."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(
            f"must be a list of at most {MAX_JOBS} jobs, such as billing/send-invoices"
        )
    names = tuple(dict.fromkeys(item.strip() for item in items if item.strip()))
    for name in names:
        executor, slash, job = name.partition("/")
        if not (executor and slash and job and name.isprintable()):
            raise ValueError(f"{name!r} is not executor/job, such as billing/send-invoices")
    if len(names) > MAX_JOBS:
        raise ValueError(f"must be at most {MAX_JOBS} jobs: each has series of its own")
    return names


def conflicts(
    *,
    metrics_host: str,
    port: int,
    metrics_port: int | None,
    has_token: bool,
    token_is_given_twice: bool,
) -> list[str]:
    """Problems of settings that can be read, but not together."""
    problems = []
    if token_is_given_twice:
        problems.append("metrics_token: is given, and metrics_token_file as well; give one of them")
    if metrics_port is None:
        return problems
    if metrics_port == port:
        problems.append(f"metrics_port: {port} is the port of the console; choose another one")
    if not has_token and not _is_loopback(metrics_host):
        problems.append(
            f"metrics_host: {metrics_host} can be reached from other machines, so it needs a"
            " metrics_token or metrics_token_file; or listen on 127.0.0.1"
        )
    return problems


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
