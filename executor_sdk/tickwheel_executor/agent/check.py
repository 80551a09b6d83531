"""`tickwheel-agent --check`: what would be offered here, and what holds its children."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from tickwheel_executor.offers.children.cgroups import NoCgroupsError, prepare
from tickwheel_executor.offers.children.settings import Children
from tickwheel_executor.offers.command import ANY, Command
from tickwheel_executor.offers.interpreters import version_of
from tickwheel_executor.offers.script import Script

from .config import OFFER_SECTIONS, AgentConfig
from .probe import Probe, probe

_WIDTH = 14
_DAEMONS = {
    True: "end with the run that started them",
    False: "may survive: this system has no subreapers (prctl of Linux)",
}


async def report(config: AgentConfig) -> tuple[list[str], bool]:
    """Lines for a person, and whether children can be started."""
    lines = [
        f"{config.path} is valid.",
        "",
        _line("node", f"{config.name} of executor {config.executor}"),
        _line("admins", ", ".join(config.admins)),
        _line("offered", ", ".join(config.offers)),
        _line("not offered", ", ".join(_absent(config)) or "-"),
    ]
    for offer in config.offers.values():
        if isinstance(offer, Script):
            lines += await _scripts(offer)
        elif isinstance(offer, Command):
            lines += _commands(offer)
    works = True
    if config.has_children:
        found = await probe(config.children)
        works = not found.problem
        lines += _children(config.children, found)
    lines += _warnings(config)
    return lines, works


def _line(title: str, text: str) -> str:
    return f"{title:<{_WIDTH}} {text}"


def _absent(config: AgentConfig) -> list[str]:
    return [name for name in OFFER_SECTIONS if name not in config.offers]


async def _scripts(offer: Script) -> list[str]:
    lines = ["", "scripts"]
    for language, interpreter in offer.found.items():
        version = await version_of(interpreter)
        lines.append(f"  {language:<{_WIDTH - 2}} {' '.join(interpreter.argv)}  {version}".rstrip())
    rules = []
    if offer.hashes_file:
        rules.append(f"whose hash is in {offer.hashes_file}")
    if offer.public_keys:
        rules.append(f"signed with one of {len(offer.public_keys)} keys")
    lines.append(_line("  which", " or ".join(rules) or "every script of a job"))
    return lines


def _commands(offer: Command) -> list[str]:
    programs = "any program" if ANY in offer.programs else ", ".join(offer.programs)
    directories = ", ".join(os.fspath(each) for each in offer.directories)
    return [
        *("", "commands"),
        _line("  programs", programs),
        _line("  directories", directories or "a private one for each run"),
    ]


def _children(children: Children, found: Probe) -> list[str]:
    user = children.user.name if children.user is not None else f"that of the agent ({_me()})"
    return [
        *("", "children"),
        _line("  user", user),
        _line("  cgroups", _cgroups(children)),
        _line("  limits", ", ".join(_limits(children)) or "none"),
        _line("  daemons", _DAEMONS[found.has_subreaper]),
        _line("  test", found.problem or "a child was started, and ended"),
    ]


def _cgroups(children: Children) -> str:
    groups = children.run_cgroups
    if groups is not None:
        held = ", ".join(sorted(groups.controllers)) or "no limits, but their end"
        return f"yes, below {groups.path} ({held})"
    if children.cgroups == "off":
        return "off"
    try:
        prepare()
    except NoCgroupsError as error:
        return f"no: {error}"
    return "no"


def _limits(children: Children) -> Iterator[str]:
    limits = children.limits
    for name in limits.__slots__:
        value = getattr(limits, str(name))
        if value is not None:
            yield f"{name} = {value}"


def _warnings(config: AgentConfig) -> Iterator[str]:
    if config.children.user is None and config.has_children:
        yield ""
        if os.geteuid() == 0:
            yield "Warning: children run as root. Set children.run_as."
        else:
            yield (
                "Warning: children run as the agent's own user, and can read its token. Let the "
                "agent run as root with children.run_as, or trust whoever edits its jobs."
            )
    if config.path.stat().st_mode & stat.S_IROTH and "token" in config.path.read_text().split():
        yield ""
        yield f"Warning: everybody on this machine can read the token in {config.path}."


def _me() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
