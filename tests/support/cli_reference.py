"""The reference in docs/cli.md, made from the parsers; `tests.support.documents` writes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tickwheel_admin.cli.client import commands

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
# Their flags are explained once, above; groups that are not here have pages of their own.
GROUPS = (
    "login", "profile", "job", "run", "workflow", "executor", "node", "calendar", "pool", "secret",
    "alarm", "top", "completion",
)  # fmt: skip
_EXPLAINED_ABOVE = frozenset(
    {"--help", "--output", "--profile", "--url", "--token-file", "--ca-file", "--insecure-http"}
    | {"--timeout"}
)


def reference() -> str:
    """The whole of it."""
    parser = argparse.ArgumentParser(prog="tickwheel")
    subparsers = parser.add_subparsers()
    for group in GROUPS:
        commands.register(subparsers, only=group)
    lines = [line for name in GROUPS for line in _group(name, subparsers.choices[name])]
    return "\n".join(lines).strip()


def _group(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"### tickwheel {name}"
    yield ""
    for path, command, told in _commands(name, parser, ""):
        yield from _command(path, command, told)


def _commands(
    path: str, parser: argparse.ArgumentParser, told: str
) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    below = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not below:
        yield path, parser, told
    for action in below:
        for each in action._choices_actions:
            yield from _commands(f"{path} {each.dest}", action.choices[each.dest], each.help or "")


def _command(path: str, parser: argparse.ArgumentParser, told: str) -> Iterator[str]:
    words = " ".join(_positional(each) for each in parser._actions if not each.option_strings)
    yield f"**`tickwheel {path}{' ' if words else ''}{words}`**{f': {told}' if told else ''}"
    yield ""
    flags = [
        each
        for each in parser._actions
        if each.option_strings
        and each.help != argparse.SUPPRESS
        and not _EXPLAINED_ABOVE & set(each.option_strings)
    ]
    for flag in flags:
        yield f"- `{_flag(flag)}`{_told(flag)}"
    if flags:
        yield ""


def _positional(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest).upper()
    return {"+": f"{name}…", "*": f"[{name}…]", "?": f"[{name}]"}.get(str(action.nargs), name)


def _flag(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    value = action.metavar or "|".join(str(each) for each in action.choices or ())
    return f"{names} {value or action.dest.upper()}"


def _told(action: argparse.Action) -> str:
    return f": {action.help}".replace("%%", "%") if action.help else ""
