"""The parser of every command: one look of the help, and errors that lead on."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tickwheel_admin.cli.client import exit_codes

if TYPE_CHECKING:
    _Base = argparse._SubParsersAction[argparse.ArgumentParser]
else:  # it is generic for type checkers only
    _Base = argparse._SubParsersAction


class CommandParser(argparse.ArgumentParser):
    """A parser whose commands are described by what the list of commands says of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)
        self.register("action", "parsers", _Commands)

    def parse_known_args(  # type: ignore[override]  # its overloads say no more
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """The same; what a command does not know is its own error, and not that of all."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            meant = [_meant(each, self._option_string_actions) for each in unknown]
            self.error(f"unknown: {', '.join(unknown)}{next(filter(None, meant), '')}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read on; without the flags, which would hide it."""
        if message == "the following arguments are required: COMMAND":
            self.print_help(sys.stderr)
        else:
            told = f"{self.prog}: {message}\n  `{self.prog} --help` explains it.\n"
            sys.stderr.write(told)
        raise SystemExit(exit_codes.USAGE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, _Commands) and value not in action.choices:
            shown = [each.dest for each in action._choices_actions]
            self.error(f"there is no command {value!r}{_meant(value, shown)}")
        super()._check_value(action, value)

    def _parse_optional(self, arg_string: str) -> Any:
        """None for what is no flag: here also values such as `-name` that a flag can have."""
        if any(arg_string in (each.choices or ()) for each in self._actions):
            return None
        return super()._parse_optional(arg_string)


class _Commands(_Base):
    """The commands of a group."""

    def add_parser(self, name: str, **kwargs: Any) -> argparse.ArgumentParser:
        """The same; without a description, `help` is that."""
        told = kwargs.get("help")
        if told and not kwargs.get("description"):
            kwargs["description"] = f"{told[0].upper()}{told[1:]}."
        return super().add_parser(name, **kwargs)


def _meant(given: str, known: Iterable[str]) -> str:
    flag, _, _ = given.partition("=")
    close = difflib.get_close_matches(flag, list(known), n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""
