"""The configuration file of an agent (TOML), read with all its problems at once."""

from __future__ import annotations

import importlib
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tickwheel_executor.errors import ConfigurationError
from tickwheel_executor.executor import Executor
from tickwheel_executor.offers import Offer
from tickwheel_executor.offers.children.settings import Children
from tickwheel_executor.offers.command import Command
from tickwheel_executor.offers.config import ConfigTable
from tickwheel_executor.offers.script import Script
from tickwheel_executor.settings import MAX_LOG_MB, check
from tickwheel_shared.protocol import MAX_SLOTS, MAX_WEIGHT

DEFAULT_PATH = "/etc/tickwheel/agent.toml"
_MAX_GRACE_SECONDS = 86_400

# Offers with libraries of their own: imported only if the file has their section.
_IMPORTED = {
    "http": ("tickwheel_executor.offers.http", "Http"),
    "sql": ("tickwheel_executor.offers.sql", "Sql"),
    "file": ("tickwheel_executor.offers.files", "Files"),
}
_CHILDREN = frozenset({"script", "command"})  # those that start child processes
OFFER_SECTIONS = ("script", "command", *_IMPORTED)
SECTIONS = ("agent", "children", *OFFER_SECTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """A valid configuration."""

    path: Path
    executor: str
    admins: tuple[str, ...]
    name: str
    offers: Mapping[str, Offer]  # by section
    children: Children
    make_executor: Callable[[], Executor]

    @property
    def has_children(self) -> bool:
        """Whether an offer starts child processes."""
        return not _CHILDREN.isdisjoint(self.offers)


def read_config(path: Path, environ: Mapping[str, str] = os.environ) -> AgentConfig:
    """Read and check a file. TICKWHEEL_ADMINS, _EXECUTOR, _TOKEN and _TOKEN_FILE complete it.

    Raises:
        ConfigurationError: lists every problem, each with its section and field.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(
            [f"there is no file {path}; name another with --config, or begin with --example"]
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError([f"{path} cannot be read: {error}"]) from None
    problems: list[str] = []
    for name in content:
        if name not in SECTIONS:
            close = get_close_matches(name, SECTIONS, n=1)
            known = f"the sections are {', '.join(SECTIONS)}"
            hint = f"did you mean [{close[0]}]?" if close else known
            problems.append(f"{name}: there is no such section; {hint}")
    settings = _agent(content.get("agent", {}), problems, environ)
    children = Children.from_config(content.get("children", {}), problems)
    offers = _offers(content, children, problems)
    if children is not None and not _CHILDREN.isdisjoint(offers):
        try:
            _ = children.run_cgroups
        except ConfigurationError as error:
            problems += error.problems
    if problems or children is None:
        raise ConfigurationError(problems)
    checked = settings["checked"]
    return AgentConfig(
        path=path,
        executor=checked.executor,
        admins=checked.admins,
        name=checked.name,
        offers=offers,
        children=children,
        make_executor=lambda: Executor(**settings["arguments"], offers=list(offers.values())),
    )


def _agent(table: object, problems: list[str], environ: Mapping[str, str]) -> dict[str, Any]:
    """The section [agent]: arguments for an Executor."""
    config = ConfigTable("agent", table, problems)
    spool_dir = config.text("spool_dir")
    arguments: dict[str, Any] = {
        "executor": config.text("executor") or None,
        "admins": list(config.texts("admins")) or None,
        "token": _token(config, environ),
        "slots": config.whole("slots", 16, least=1, most=MAX_SLOTS),
        "name": config.text("name") or None,
        "labels": config.text_by_name("labels"),
        "weight": config.whole("weight", 1, least=1, most=MAX_WEIGHT),
        "shutdown_grace_seconds": config.number(
            "shutdown_grace_seconds", 30.0, least=0, most=_MAX_GRACE_SECONDS
        ),
        "tracing": config.flag("tracing") if config.has("tracing") else None,
        "ca_file": config.text("ca_file") or None,
        "client_cert": config.text("client_cert") or None,
        "client_key": config.text("client_key") or None,
        "max_log_mb": config.whole("max_log_mb", 100, least=1, most=MAX_LOG_MB),
    }
    config.finish()
    checked = None
    try:
        checked = check(**arguments, environ=environ)
    except ConfigurationError as error:
        problems += [f"agent: {problem}" for problem in error.problems]
    arguments["spool_dir"] = spool_dir or None
    if checked is not None:  # with what the environment completed
        arguments |= {
            "executor": checked.executor,
            "admins": checked.admins,
            "token": checked.token,
        }
    return {"checked": checked, "arguments": arguments}


def _token(config: ConfigTable, environ: Mapping[str, str]) -> str | None:
    token, file = config.text("token"), config.text("token_file")
    if token and file:
        config.problem("token_file", "the file has token too; leave one of them out")
    if token:
        return token
    field = "token_file"
    if not file and "TICKWHEEL_TOKEN" not in environ:
        file = environ.get("TICKWHEEL_TOKEN_FILE", "")
    if not file:
        return None  # the environment's
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        config.problem(field, f"{file} cannot be read: {error}")
        return None


def _offers(
    content: Mapping[str, Any], children: Children | None, problems: list[str]
) -> dict[str, Offer]:
    sections = [name for name in OFFER_SECTIONS if name in content]
    if not sections:
        names = ", ".join(f"[{name}]" for name in OFFER_SECTIONS)
        problems.append(f"nothing is offered; add at least one section of {names}")
    offers: dict[str, Offer] = {}
    for name in sections:
        offer = _offer(name, content[name], children, problems)
        if offer is not None:
            offers[name] = offer
    return offers


def _offer(name: str, table: Any, children: Children | None, problems: list[str]) -> Offer | None:
    if not isinstance(table, Mapping):
        ConfigTable(name, table, problems)  # says so
        return None
    if name == "script":
        return Script.from_config(table, problems, children=children)
    if name == "command":
        return Command.from_config(table, problems, children=children)
    module, kind = _IMPORTED[name]
    try:
        offer: Offer | None = getattr(importlib.import_module(module), kind).from_config(
            table, problems
        )
    except ImportError as error:
        problems.append(
            f"{name}: a library is missing ({error}); install the SDK with its extra agent"
        )
        return None
    return offer
