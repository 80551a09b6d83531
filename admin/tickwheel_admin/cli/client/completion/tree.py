"""The commands as completion needs them: which words may follow where, and which values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# What `tickwheel completion names` can list, by the name of an argument.
NAMED = {
    "job": "job",
    "jobs": "job",
    "executor": "executor",
    "node": "node",
    "calendar": "calendar",
    "pool": "pool",
    "profile": "profile",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagWords:
    """A flag of a command."""

    flags: tuple[str, ...]
    told: str
    takes_value: bool
    values: tuple[str, ...] = ()  # all that there are; empty: anything
    names: str | None = None  # the kind of object whose name it takes


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWords:
    """A command or a group: `run start`; the program itself has an empty path."""

    path: tuple[str, ...]
    told: str
    commands: tuple[str, ...]
    flags: tuple[FlagWords, ...]
    values: tuple[str, ...] = ()  # of its positional arguments
    names: str | None = None  # the kind of object that a positional argument names


def commands_of(
    parser: argparse.ArgumentParser, path: Sequence[str] = (), told: str = ""
) -> Iterator[CommandWords]:
    """The program with all its groups and commands, each before those within it."""
    below: dict[str, argparse.ArgumentParser] = {}
    helps: dict[str, str] = {}
    flags, values, names = [], [], None
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below |= action.choices
            helps |= {each.dest: each.help or "" for each in action._choices_actions}
        elif action.option_strings:
            if action.help != argparse.SUPPRESS:
                flags.append(_flag(action))
        else:
            values += [str(each) for each in action.choices or ()]
            names = names or NAMED.get(action.dest)
    # A command without a help is not for people.
    shown = tuple(name for name in below if name in helps)
    yield CommandWords(
        path=tuple(path),
        told=told,
        commands=shown,
        flags=tuple(flags),
        values=tuple(values),
        names=names,
    )
    for name in shown:
        yield from commands_of(below[name], [*path, name], helps[name])


def _flag(action: argparse.Action) -> FlagWords:
    return FlagWords(
        flags=tuple(action.option_strings),
        told=(action.help or "").replace("%%", "%"),
        takes_value=action.nargs != 0,
        values=tuple(str(each) for each in action.choices or ()),
        names=NAMED.get(action.dest) if action.nargs != 0 else None,
    )
