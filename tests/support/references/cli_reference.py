"""The reference in docs/cli.md, made from the parsers; `tests.support.documents` writes it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tickwheel_admin.cli.client.commands import GROUPS
from tickwheel_admin.cli.commands import make_parser

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
# Flags that many commands have are explained once, above.
_EXPLAINED_ABOVE = {
    True: frozenset(
        {"--help", "--output", "--profile", "--url", "--token-file", "--ca-file", "--timeout"}
        | {"--insecure-http"}
    ),
    False: frozenset({"--help", "--config", "--data-dir"}),
}


def reference() -> str:
    """Every command of `tickwheel --help`: those with a server first."""
    (commands,) = _subparsers(make_parser())
    told = {each.dest: each.help or "" for each in commands._choices_actions}
    names = sorted(commands.choices, key=lambda name: name not in GROUPS)  # else in their order
    lines = [line for name in names for line in _group(name, commands.choices[name], told[name])]
    return "\n".join(lines).strip()


def _group(name: str, parser: argparse.ArgumentParser, told: str) -> Iterator[str]:
    yield f"### tickwheel {name}"
    yield ""
    if _subparsers(parser):
        yield f"{told[0].upper()}{told[1:]}."
        yield ""
    for path, command, what in _commands(name, parser, told):
        yield from _command(path, command, what, explained=_EXPLAINED_ABOVE[name in GROUPS])


def _subparsers(
    parser: argparse.ArgumentParser,
) -> list[argparse._SubParsersAction[argparse.ArgumentParser]]:
    return [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]


def _commands(
    path: str, parser: argparse.ArgumentParser, told: str
) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    below = _subparsers(parser)
    if not below:
        yield path, parser, told
    for action in below:
        for each in action._choices_actions:
            yield from _commands(f"{path} {each.dest}", action.choices[each.dest], each.help or "")


def _command(
    path: str, parser: argparse.ArgumentParser, told: str, *, explained: frozenset[str]
) -> Iterator[str]:
    words = " ".join(_positional(each) for each in parser._actions if not each.option_strings)
    yield f"**`tickwheel {path}{' ' if words else ''}{words}`**{f': {told}' if told else ''}"
    yield ""
    flags = [
        each
        for each in parser._actions
        if each.option_strings
        and each.help != argparse.SUPPRESS
        and not explained & set(each.option_strings)
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
