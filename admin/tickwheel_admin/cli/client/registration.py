"""How groups of commands are added, and how one of them comes to its API and printer."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import exit_codes
from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.flags import add_client_flags, api_of
from tickwheel_admin.cli.client.output.printer import Printer

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_LIMIT = 100  # items of a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A command that was called: its flags, the API and where it prints."""

    args: argparse.Namespace
    api: AdminApi
    printer: Printer


Work = Callable[[Invocation], int | None]  # the exit code; None is 0


def add_group(subparsers: Subparsers, name: str, *, told: str, examples: str) -> Subparsers:
    """Add a group such as `job`, for commands of its own.

    Args:
        told: what it is for, in the list of commands.
        examples: for its `--help`.
    """
    parser = subparsers.add_parser(
        name,
        help=told,
        description=f"{told[0].upper()}{told[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser.add_subparsers(metavar="COMMAND", required=True)


def add_command(
    group: Subparsers, name: str, work: Work, *, told: str, more: str = "", output: bool = True
) -> argparse.ArgumentParser:
    """Add a command that speaks to an admin.

    Args:
        told: what it does, in one line.
        more: for its own `--help`: rules and examples.
        output: whether it has an `--output`.
    """
    parser = group.add_parser(
        name,
        help=told,
        description=f"{told[0].upper()}{told[1:]}.",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_client_flags(parser, output=output)
    parser.set_defaults(run=partial(_run, work))
    return parser


def add_limit(parser: argparse.ArgumentParser, default: int = DEFAULT_LIMIT) -> None:
    """The flag of lists that says how many are wanted."""
    parser.add_argument(
        "--limit",
        type=_limit,
        default=default,
        metavar="N",
        help=f"print at most so many, or `all` (default: {default})",
    )


def _run(work: Work, args: argparse.Namespace) -> int:
    printer = Printer(getattr(args, "output", "table"))
    with api_of(args) as api:
        code = work(Invocation(args=args, api=api, printer=printer))
    return exit_codes.DONE if code is None else code


def _limit(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 1 on nor `all`")
    return int(text)
