"""Configuration: a frozen object from file, environment and flags; all problems told at once.

A setting's value comes from the first place that has it: a command line flag, `TICKWHEEL_<NAME>` in
the environment, the TOML file, the default. docs/configuration.md explains every setting.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import socket
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from yarl import URL

T = TypeVar("T")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

ENVIRONMENT_PREFIX = "TICKWHEEL_"
SUPPORTED_DATABASES = ("sqlite", "mysql+pymysql", "mariadb+pymysql", "postgresql+psycopg")


class LogFormat(StrEnum):
    """How log lines are written."""

    CONSOLE = "console"  # coloured lines for people
    JSON = "json"  # one object a line, for collectors


class LogLevel(StrEnum):
    """The least severe events that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything an admin can be told."""

    database_url: str = field(repr=False)  # holds a password
    data_dir: Path  # made with mode 0700; the embedded database lives there
    host: str  # address to listen on
    port: int  # 1..65535
    name: str  # of this admin, for people and logs
    public_url: str  # where browsers and nodes reach this admin; no trailing slash
    retention_days: int  # ended runs are deleted after so many days
    trusted_proxies: tuple[Network, ...]  # whose X-Forwarded-* headers are believed
    log_format: LogFormat
    log_level: LogLevel

    @property
    def is_embedded(self) -> bool:
        """Whether the database is SQLite, which belongs to this admin alone."""
        return self.database_url.startswith("sqlite")

    @property
    def is_public_over_tls(self) -> bool:
        """Whether browsers are told to come by https, here or at a proxy."""
        return self.public_url.startswith("https://")


class ConfigError(Exception):
    """Settings that cannot be used; the message lists every problem, one a line."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def load_config(
    flags: Mapping[str, Any] | None = None,
    *,
    file: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read and check all settings.

    Args:
        flags: values of command line flags; None means not given.
        file: a TOML file; None: the one named by TICKWHEEL_CONFIG, if any.
        environment: None: the process's own.

    Raises:
        ConfigError: with every problem found.
    """
    environment = os.environ if environment is None else environment
    problems: list[str] = []
    sources = [
        _from_flags(flags or {}),
        _from_environment(environment, problems),
        _from_file(file or environment.get(f"{ENVIRONMENT_PREFIX}CONFIG"), problems),
    ]
    config = _build(_Settings(sources, problems), environment)
    if problems:
        raise ConfigError(problems)
    return config


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as somebody wrote it, and where, so that a complaint can say so."""

    value: Any
    where: str


_Source = Mapping[str, _Given]


class _Settings:
    """Looks values up in the sources; a bad one becomes a problem and counts as its default."""

    def __init__(self, sources: list[_Source], problems: list[str]) -> None:
        self._sources = sources
        self._problems = problems

    def get(self, name: str, read: Callable[[Any], T], default: Callable[[], T]) -> T:
        """`read` raises ValueError with the rule it found broken."""
        for source in self._sources:
            if name in source:
                given = source[name]
                try:
                    return read(given.value)
                except ValueError as error:
                    self._problems.append(f"{given.where}: {error}")
                    return default()
        return default()


def _build(settings: _Settings, environment: Mapping[str, str]) -> Config:
    data_dir = settings.get("data_dir", _path, lambda: _default_data_dir(environment))
    host = settings.get("host", _text, lambda: "127.0.0.1")
    port = settings.get("port", _whole_number(1, 65_535), lambda: 8500)
    return Config(
        data_dir=data_dir,
        database_url=settings.get(
            "database_url", _database_url, lambda: f"sqlite:///{data_dir / 'tickwheel.db'}"
        ),
        host=host,
        port=port,
        name=settings.get("name", _text, socket.gethostname),
        public_url=settings.get("public_url", _public_url, lambda: _default_url(host, port)),
        retention_days=settings.get("retention_days", _whole_number(1, 36_500), lambda: 30),
        trusted_proxies=settings.get("trusted_proxies", _networks, tuple),
        log_format=settings.get("log_format", _one_of(LogFormat), _default_log_format),
        log_level=settings.get("log_level", _one_of(LogLevel), lambda: LogLevel.INFO),
    )


_NAMES = tuple(name for name in Config.__dataclass_fields__)
_NOT_SETTINGS = ("config", "kill_point")  # read elsewhere: above, and by drills at the start


def _from_flags(flags: Mapping[str, Any]) -> _Source:
    return {
        name: _Given(value, "--" + name.replace("_", "-"))
        for name, value in flags.items()
        if name in _NAMES and value is not None
    }


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> _Source:
    given = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name in _NOT_SETTINGS:
            continue
        if name in _NAMES:
            # Kubernetes sets TICKWHEEL_PORT=tcp://10.0.0.1:8500 beside a service "tickwheel".
            if not (name == "port" and value.startswith("tcp://")):
                given[name] = _Given(value, variable)
        elif meant := difflib.get_close_matches(name, _NAMES, n=1, cutoff=0.8):
            # Other unknown ones are left alone: the SDK and Kubernetes use the prefix as well.
            problems.append(
                f"{variable}: unknown setting; did you mean {ENVIRONMENT_PREFIX}{meant[0].upper()}?"
            )
    return given


def _from_file(file: str | os.PathLike[str] | None, problems: list[str]) -> _Source:
    if not file:
        return {}
    try:
        with Path(file).open("rb") as opened:
            content = tomllib.load(opened)
    except OSError as error:
        problems.append(f"{file}: cannot be read: {error.strerror}")
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"{file}: is not valid TOML: {error}")
        return {}
    given = {}
    for name, value in content.items():
        if name in _NAMES:
            given[name] = _Given(value, f"{file}: {name}")
            continue
        meant = difflib.get_close_matches(name.lower(), _NAMES, n=1, cutoff=0.6)
        hint = f"did you mean {meant[0]}?" if meant else f"known are: {', '.join(_NAMES)}"
        problems.append(f"{file}: {name}: unknown setting; {hint}")
    return given


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text that is not empty")
    if not value.isprintable() or len(value) > 200:
        raise ValueError("must be at most 200 printable characters")
    return value.strip()


def _path(value: Any) -> Path:
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError("must be the path of a directory")
    return Path(text).expanduser().absolute()


def _whole_number(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return read


def _database_url(value: Any) -> str:
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
    if url.drivername == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError("must name a file: sqlite:////path/to/tickwheel.db")
    return str(value)


def _public_url(value: Any) -> str:
    rule = "must be http:// or https:// with a host and nothing after it but a port"
    try:
        url = URL(value if isinstance(value, str) else "")
        usable = url.scheme in ("http", "https") and url.host and url.port
    except ValueError:
        raise ValueError(rule) from None
    if not usable or url.user or url.path not in ("", "/") or url.query_string or url.fragment:
        raise ValueError(rule)
    return str(url.origin())


def _networks(value: Any) -> tuple[Network, ...]:
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


_Choice = TypeVar("_Choice", bound=StrEnum)


def _one_of(choices: type[_Choice]) -> Callable[[Any], _Choice]:
    def read(value: Any) -> _Choice:
        try:
            return choices(value.lower() if isinstance(value, str) else value)
        except ValueError:
            raise ValueError(f"must be one of {', '.join(choices)}") from None

    return read


def _default_data_dir(environment: Mapping[str, str]) -> Path:
    # Not the working directory: started from elsewhere, an admin would find nothing and begin anew.
    base = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().absolute() / "tickwheel"


def _default_url(host: str, port: int) -> str:
    try:
        wildcard = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        wildcard = False
    reachable = socket.gethostname() if wildcard else host
    return f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port}"


def _default_log_format() -> LogFormat:
    return LogFormat.CONSOLE if sys.stderr.isatty() else LogFormat.JSON
