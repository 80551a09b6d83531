"""Configuration: a frozen object from file, environment and flags; all problems told at once.

A setting's value comes from the first place that has it: a command line flag, `TICKWHEEL_<NAME>` in
the environment, the TOML file, the default. `config_meanings.py` explains every setting;
the table in docs/configuration.md is made from both.
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

from tickwheel_admin import config_metrics as metrics
from tickwheel_admin import config_oidc as oidc
from tickwheel_admin import config_tls as tls
from tickwheel_admin import config_values as values
from tickwheel_admin.config_values import Network as Network
from tickwheel_admin.domain.executors.xxl_addresses import DEFAULT_NETWORKS
from tickwheel_admin.domain.users.oidc import OidcSettings, RoleRule

T = TypeVar("T")

ENVIRONMENT_PREFIX = "TICKWHEEL_"


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
    public_url: str  # where nodes reach this admin; no trailing slash
    console_url: str  # where browsers reach the console, at a balancer perhaps
    tls_cert: Path | None  # PEM: its own certificate and those above it; None: plain HTTP
    tls_key: Path | None  # PEM: the key of that certificate
    tls_client_ca: Path | None  # PEM: authorities of nodes; None: nodes need no certificate
    retention_days: int  # ended runs are deleted after so many days
    trusted_proxies: tuple[Network, ...]  # whose X-Forwarded-* headers are believed
    log_format: LogFormat
    log_level: LogLevel
    password_login: bool  # whether people may log in by password
    oidc_issuer: str | None  # None: nobody logs in at a provider
    oidc_client_id: str | None  # set when there is an issuer
    oidc_client_secret: str | None = field(repr=False)
    oidc_name: str  # "Log in with …"
    oidc_username_claim: str
    oidc_roles_claim: str
    oidc_roles: tuple[RoleRule, ...]  # empty: people give roles, here
    # What encrypts secrets in the database: the first key; all of them decrypt.
    secret_key: tuple[bytes, ...] = field(repr=False)
    secret_key_file: Path | None  # a file that has them instead
    xxl_job_networks: tuple[Network, ...]  # in which executors of the protocol xxl_job are called
    alarm_networks: tuple[Network, ...]  # beside public ones, in which alarms are delivered
    metrics_port: int | None  # of `/metrics` alone; None: it is on `port` only
    metrics_host: str  # address to listen on for that
    metrics_token: str | None = field(repr=False)  # asked for at that port; None: none is
    metrics_token_file: Path | None  # a file that has it instead
    metrics_executors: int  # so many executors have series of their own
    metrics_jobs: tuple[str, ...]  # "executor/job" of jobs that have
    tracing: bool  # whether this admin records spans of runs (OpenTelemetry)
    trace_url: str | None  # where a trace is shown; {trace_id} stands for its id
    given_at: Mapping[str, str]  # names of those that are not at their default → where they stand

    @property
    def is_embedded(self) -> bool:
        """Whether the database is SQLite, which belongs to this admin alone."""
        return self.database_url.startswith("sqlite")

    @property
    def database_kind(self) -> str:
        """Which database it is: "sqlite", "mysql", "mariadb" or "postgresql"."""
        return self.database_url.partition(":")[0].partition("+")[0]

    @property
    def is_public_over_tls(self) -> bool:
        """Whether browsers are told to come by https, here or at a proxy."""
        return self.console_url.startswith("https://")

    @property
    def tls(self) -> tls.TlsFiles | None:
        """The files to speak TLS with; None: this admin speaks plain HTTP."""
        return tls.files_of(self.tls_cert, self.tls_key, self.tls_client_ca)

    @property
    def oidc(self) -> OidcSettings | None:
        """The provider at which people log in; None: there is none."""
        if self.oidc_issuer is None or self.oidc_client_id is None:
            return None
        return OidcSettings(
            issuer=self.oidc_issuer,
            client_id=self.oidc_client_id,
            client_secret=self.oidc_client_secret,
            name=self.oidc_name,
            redirect_url=self.console_url + oidc.CALLBACK_PATH,
            username_claim=self.oidc_username_claim,
            roles_claim=self.oidc_roles_claim,
            roles=self.oidc_roles,
        )


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
    settings = _Settings(sources, problems)
    config = _build(settings, environment)
    problems += _conflicts(config, settings)
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

    def places(self) -> dict[str, str]:
        """Where what was given stands, by name."""
        return {name: source[name].where for source in reversed(self._sources) for name in source}

    def is_given(self, name: str) -> bool:
        """Whether somebody wrote it anywhere."""
        return any(name in source for source in self._sources)


def _build(settings: _Settings, environment: Mapping[str, str]) -> Config:
    data_dir = settings.get("data_dir", values.directory, lambda: _default_data_dir(environment))
    host = settings.get("host", values.text, lambda: "127.0.0.1")
    port = settings.get("port", values.whole_number(1, 65_535), lambda: 8500)
    tls_cert = settings.get("tls_cert", values.file, _nothing)
    scheme = "https" if tls_cert else "http"
    public_url = settings.get(
        "public_url", values.public_url, lambda: _default_url(scheme, host, port)
    )
    return Config(
        data_dir=data_dir,
        database_url=settings.get(
            "database_url",
            values.database_url,
            lambda: f"sqlite:///{data_dir / 'tickwheel.db'}",
        ),
        host=host,
        port=port,
        name=settings.get("name", values.text, socket.gethostname),
        public_url=public_url,
        console_url=settings.get("console_url", values.public_url, lambda: public_url),
        tls_cert=tls_cert,
        tls_key=settings.get("tls_key", values.file, _nothing),
        tls_client_ca=settings.get("tls_client_ca", values.file, _nothing),
        retention_days=settings.get("retention_days", values.whole_number(1, 36_500), lambda: 30),
        trusted_proxies=settings.get("trusted_proxies", values.networks, tuple),
        log_format=settings.get("log_format", values.one_of(LogFormat), _default_log_format),
        log_level=settings.get("log_level", values.one_of(LogLevel), lambda: LogLevel.INFO),
        password_login=settings.get("password_login", oidc.yes_or_no, lambda: True),
        oidc_issuer=settings.get("oidc_issuer", oidc.issuer, _nothing),
        oidc_client_id=settings.get("oidc_client_id", values.text, _nothing),
        oidc_client_secret=settings.get("oidc_client_secret", oidc.secret, _nothing),
        oidc_name=settings.get("oidc_name", values.text, lambda: "single sign-on"),
        oidc_username_claim=settings.get(
            "oidc_username_claim", values.text, lambda: "preferred_username"
        ),
        oidc_roles_claim=settings.get("oidc_roles_claim", values.text, lambda: "groups"),
        oidc_roles=settings.get("oidc_roles", oidc.role_rules, tuple),
        secret_key=_secret_keys(settings),
        secret_key_file=settings.get("secret_key_file", values.file, _nothing),
        xxl_job_networks=settings.get(
            "xxl_job_networks", values.callable_networks, lambda: DEFAULT_NETWORKS
        ),
        alarm_networks=settings.get("alarm_networks", values.callable_networks, tuple),
        metrics_port=settings.get("metrics_port", values.whole_number(1, 65_535), _nothing),
        metrics_host=settings.get("metrics_host", values.text, lambda: "127.0.0.1"),
        metrics_token=_metrics_token(settings),
        metrics_token_file=settings.get("metrics_token_file", values.file, _nothing),
        metrics_executors=settings.get(
            "metrics_executors",
            values.whole_number(0, metrics.MAX_EXECUTORS),
            lambda: metrics.DEFAULT_EXECUTORS,
        ),
        metrics_jobs=settings.get("metrics_jobs", metrics.jobs, tuple),
        tracing=settings.get("tracing", values.tracing, lambda: False),
        trace_url=settings.get("trace_url", values.trace_url, _nothing),
        given_at=settings.places(),
    )


def _secret_keys(settings: _Settings) -> tuple[bytes, ...]:
    if settings.is_given("secret_key"):
        return settings.get("secret_key", values.secret_keys, tuple)
    return settings.get("secret_key_file", values.secret_keys_in, tuple)


def _metrics_token(settings: _Settings) -> str | None:
    if settings.is_given("metrics_token"):
        return settings.get("metrics_token", metrics.token, _nothing)
    return settings.get("metrics_token_file", metrics.token_in, _nothing)


def _conflicts(config: Config, settings: _Settings) -> list[str]:
    """Problems of settings that can be read, but not together."""
    problems = []
    if settings.is_given("secret_key") and settings.is_given("secret_key_file"):
        problems.append("secret_key: is given, and secret_key_file as well; give one of them")
    token_is_given = [settings.is_given(f"metrics_token{suffix}") for suffix in ("", "_file")]
    problems += metrics.conflicts(
        metrics_host=config.metrics_host,
        port=config.port,
        metrics_port=config.metrics_port,
        has_token=any(token_is_given),
        token_is_given_twice=all(token_is_given),
    )
    problems += _tls_conflicts(config, settings)
    return problems + _oidc_conflicts(config, settings)


def _tls_conflicts(config: Config, settings: _Settings) -> list[str]:
    given = {
        "tls_cert": config.tls_cert,
        "tls_key": config.tls_key,
        "tls_client_ca": config.tls_client_ca,
    }
    if any(settings.is_given(name) and path is None for name, path in given.items()):
        return []  # told already
    return tls.conflicts(given, public_url=config.public_url)


def _oidc_conflicts(config: Config, settings: _Settings) -> list[str]:
    if settings.is_given("oidc_issuer") and config.oidc_issuer is None:
        return []  # told already, and the others may well fit what was meant
    return oidc.conflicts(
        has_issuer=config.oidc_issuer is not None,
        has_client_id=settings.is_given("oidc_client_id"),
        others=[
            name
            for name in _NAMES
            if name.startswith("oidc_") and settings.is_given(name)
            if name not in ("oidc_issuer", "oidc_client_id")
        ],
        password_login=config.password_login,
    )


def _nothing() -> None:
    return None


_NAMES = tuple(name for name in Config.__dataclass_fields__ if name != "given_at")
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
            # Kubernetes sets TICKWHEEL_PORT=tcp://10.0.0.1:8500 beside a service "tickwheel", and
            # TICKWHEEL_METRICS_PORT=tcp://… beside a service "tickwheel-metrics".
            if not (name in ("port", "metrics_port") and value.startswith("tcp://")):
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


def _default_data_dir(environment: Mapping[str, str]) -> Path:
    # Not the working directory: started from elsewhere, an admin would find nothing and begin anew.
    base = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().absolute() / "tickwheel"


def _default_url(scheme: str, host: str, port: int) -> str:
    try:
        wildcard = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        wildcard = False
    reachable = socket.gethostname() if wildcard else host
    return f"{scheme}://{f'[{reachable}]' if ':' in reachable else reachable}:{port}"


def _default_log_format() -> LogFormat:
    return LogFormat.CONSOLE if sys.stderr.isatty() else LogFormat.JSON
