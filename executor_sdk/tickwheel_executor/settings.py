"""Settings of nodes and clients, from arguments and environment, validated together."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from tickwheel_shared import otel
from tickwheel_shared.protocol import MAX_SLOTS, MAX_WEIGHT

from .errors import ConfigurationError
from .tls import TlsSettings, read_tls

MIN_TOKEN_CHARS = 32
_MAX_NAME_CHARS = 128
_MAX_LABELS = 64
MAX_LOG_MB = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings of one node, created by `check`."""

    executor: str  # name of the executor, as in the console
    admins: tuple[str, ...]  # base URLs
    token: str = field(repr=False)  # of the executor
    name: str  # of this node, for the console
    slots: int = 16  # concurrent attempts
    labels: Mapping[str, str] = field(default_factory=dict)
    weight: int = 1  # share of the runs of jobs with weighted routing
    max_log_mb: int = 100  # of one attempt; further lines are dropped
    tracing: bool = False  # record a span for each attempt
    tls: TlsSettings = field(default_factory=TlsSettings)


def check(
    *,
    executor: str | None,
    admins: Sequence[str] | None,
    token: str | None,
    name: str | None,
    slots: int,
    labels: Mapping[str, str],
    weight: int = 1,
    max_log_mb: int = 100,
    shutdown_grace_seconds: float = 30.0,
    tracing: bool | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    client_cert: str | os.PathLike[str] | None = None,
    client_key: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> NodeSettings:
    """Settings from arguments, and from the environment for missing ones.

    Raises:
        ConfigurationError: lists every problem.
    """
    problems: list[str] = []
    executor = executor or environ.get("TICKWHEEL_EXECUTOR", "")
    if not executor:
        problems.append("no executor name: give one, or set TICKWHEEL_EXECUTOR")
    elif not _is_name(executor):
        problems.append(f"executor name {executor!r}: {_NAME_RULE}")
    name = name or default_name()
    if not _is_name(name):
        problems.append(f"node name {name!r}: {_NAME_RULE}")
    problems += _number_problems("slots", slots, MAX_SLOTS)
    problems += _number_problems("weight", weight, MAX_WEIGHT)
    problems += _number_problems("max_log_mb", max_log_mb, MAX_LOG_MB)
    problems += _label_problems(labels)
    if not 0 <= shutdown_grace_seconds < float("inf"):
        problems.append(f"shutdown_grace_seconds is {shutdown_grace_seconds!r}; wanted 0 or more")
    token = token if token is not None else environ.get("TICKWHEEL_TOKEN", "")
    where = "make one in the console (Executors, New executor)"
    problems += _token_problems(token, where=f"{where} and give it as `token` or TICKWHEEL_TOKEN")
    urls = _urls(admins, environ, problems)
    traces = _tracing(tracing, environ, problems)
    files = {"ca_file": ca_file, "client_cert": client_cert, "client_key": client_key}
    tls = _tls(files, urls, environ, problems)
    if problems:
        raise ConfigurationError(problems)
    return NodeSettings(
        executor=executor,
        admins=urls,
        token=token,
        name=name,
        slots=slots,
        labels=dict(labels),
        weight=weight,
        max_log_mb=max_log_mb,
        tracing=traces,
        tls=tls,
    )


def default_name() -> str:
    """A name for this process, unique across machines."""
    return f"{socket.gethostname()}-{os.getpid()}"


def check_client(
    *,
    admins: Sequence[str] | None,
    token: str | None,
    ca_file: str | os.PathLike[str] | None = None,
    client_cert: str | os.PathLike[str] | None = None,
    client_key: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> tuple[tuple[str, ...], str, TlsSettings]:
    """Base URLs, API token and TLS of a Client, from the environment if missing.

    Raises:
        ConfigurationError: lists every problem.
    """
    problems: list[str] = []
    token = token if token is not None else environ.get("TICKWHEEL_API_TOKEN", "")
    where = "make one with `tickwheel token create` and give it as `token` or TICKWHEEL_API_TOKEN"
    if token.startswith(_EXECUTOR_TOKEN):
        problems.append(f"this is the token of an executor, which runs jobs: {where}")
    else:
        problems += _token_problems(token, where=where)
    urls = _urls(admins, environ, problems)
    files = {"ca_file": ca_file, "client_cert": client_cert, "client_key": client_key}
    tls = _tls(files, urls, environ, problems)
    if problems:
        raise ConfigurationError(problems)
    return urls, token, tls


_EXECUTOR_TOKEN = "twx_"  # noqa: S105 (their prefix)
_NAME_RULE = f"wanted 1 to {_MAX_NAME_CHARS} printable characters without spaces around them"


def _is_name(text: str) -> bool:
    return (
        bool(text) and len(text) <= _MAX_NAME_CHARS and text.isprintable() and text == text.strip()
    )


def _number_problems(name: str, value: object, most: int) -> list[str]:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return []
    return [f"{name} is {value!r}; it must be a whole number from 1 to {most:,}"]


def _token_problems(token: str, *, where: str) -> list[str]:
    if not token:
        return [f"no token: {where}"]
    if len(token) < MIN_TOKEN_CHARS:
        return [f"the token has {len(token)} characters; a real one has {MIN_TOKEN_CHARS} or more"]
    if not token.isascii() or any(not " " < character <= "~" for character in token):
        return ["the token contains white space or other characters that no token has"]
    return []


def _label_problems(labels: Mapping[str, str]) -> list[str]:
    if len(labels) > _MAX_LABELS:
        return [f"{len(labels)} labels; at most {_MAX_LABELS}"]
    return [
        f"label {key!r}={value!r}: keys and values are text, {_NAME_RULE}"
        for key, value in labels.items()
        if not all(isinstance(text, str) and _is_name(text) for text in (key, value))
    ]


def _tracing(tracing: bool | None, environ: Mapping[str, str], problems: list[str]) -> bool:
    if tracing is None:
        word = environ.get("TICKWHEEL_TRACING", "").strip().lower()
        if word not in ("", "true", "false", "1", "0", "yes", "no", "on", "off"):
            problems.append(f"TICKWHEEL_TRACING is {word!r}; it must be true or false")
        tracing = word in ("true", "1", "yes", "on")
    if tracing and not otel.is_installed():
        problems.append(f"tracing needs the libraries of OpenTelemetry: {otel.INSTALL}")
    return tracing


def _tls(
    files: Mapping[str, str | os.PathLike[str] | None],
    urls: Sequence[str],
    environ: Mapping[str, str],
    problems: list[str],
) -> TlsSettings:
    tls = read_tls(files, environ, problems)
    plain = [url for url in urls if url.startswith("http://")]
    if plain and tls != TlsSettings():
        name = next(name for name in files if getattr(tls, name) is not None)
        problems.append(f"{name} is given, but {plain[0]} is not encrypted; begin it with https://")
    return tls


def _urls(
    admins: Sequence[str] | None, environ: Mapping[str, str], problems: list[str]
) -> tuple[str, ...]:
    if isinstance(admins, str):
        admins = [admins]  # a common mistake with one possible meaning
    given = admins if admins is not None else environ.get("TICKWHEEL_ADMINS", "").split(",")
    texts = [text for text in given if text.strip()]
    if not texts:
        problems.append(
            'no admin: give `admins=["http://host:8500"]`, or set TICKWHEEL_ADMINS to URLs '
            "with commas between them"
        )
    urls: list[str] = []
    for number, text in enumerate(texts, start=1):
        try:
            urls.append(normal_url(text))
        except ValueError as error:
            shown = "" if "@" in text else f" {text!r}"  # never log what may contain a password
            problems.append(f"admin URL {number}{shown}: {error}")
    return tuple(dict.fromkeys(urls))


def normal_url(text: str) -> str:
    """The base URL of an admin in a normal form, so that equal URLs are recognised.

    Raises:
        ValueError: not a base URL; the message says why and does not repeat the text.
    """
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https"):
        raise ValueError("it must start with http:// or https://")
    if not parts.hostname:
        raise ValueError("it names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not contain a user or password")
    if parts.query or parts.fragment:
        raise ValueError("it must not contain ? or #")
    if any(character.isspace() or not character.isprintable() for character in text.strip()):
        raise ValueError("it contains white space")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default = {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port in (None, default) else f":{parts.port}"  # .port checks the range
    return urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", ""))
