"""`tickwheel user`: people and their passwords, for whoever can read the admin's configuration."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.common import add_config_flags, config_of, with_services
from tickwheel_admin.domain.user import Role, everywhere
from tickwheel_admin.services.people import COMMAND_LINE

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
examples:
  tickwheel user add olga --role operator
  tickwheel user reset-password admin
  tickwheel user disable olga

Use the same --config, --data-dir or environment as the admin does. A running admin need not be
stopped; a change counts at the person's next request.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "user",
        help="add people, reset passwords, shut people out",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("add", help="add a person; prints a one-time password")
    command.add_argument("name")
    command.add_argument(
        "--role",
        choices=[role.value for role in Role],
        default=Role.VIEWER.value,
        help="what they may do with every executor (default: viewer)",
    )
    _finish(command, _add)

    command = commands.add_parser(
        "reset-password", help="print a new one-time password; ends sessions and API tokens"
    )
    command.add_argument("name")
    _finish(command, _reset_password)

    command = commands.add_parser("disable", help="shut a person out at once")
    command.add_argument("name")
    _finish(command, _disable)

    command = commands.add_parser("enable", help="let a disabled person in again")
    command.add_argument("name")
    _finish(command, _enable)

    command = commands.add_parser("list", help="list everybody")
    _finish(command, _list)


def _finish(command: argparse.ArgumentParser, run: object) -> None:
    add_config_flags(command)
    command.set_defaults(run=run)


def _add(args: argparse.Namespace) -> int:
    password = with_services(
        config_of(args),
        lambda services: services.people.add_user(
            COMMAND_LINE, args.name, grants=everywhere(Role(args.role))
        ),
    )
    print(f"One-time password of {args.name}, to be changed at the first login: {password}")
    return 0


def _reset_password(args: argparse.Namespace) -> int:
    password = with_services(
        config_of(args),
        lambda services: services.people.reset_password(COMMAND_LINE, args.name),
    )
    print(f"One-time password of {args.name}, to be changed at the next login: {password}")
    return 0


def _disable(args: argparse.Namespace) -> int:
    return _set_disabled(args, disabled=True)


def _enable(args: argparse.Namespace) -> int:
    return _set_disabled(args, disabled=False)


def _set_disabled(args: argparse.Namespace, *, disabled: bool) -> int:
    with_services(
        config_of(args),
        lambda services: services.people.set_disabled(COMMAND_LINE, args.name, disabled=disabled),
    )
    print(f"{args.name} is {'shut out' if disabled else 'let in again'}.")
    return 0


def _list(args: argparse.Namespace) -> int:
    people = with_services(config_of(args), lambda services: services.people.people(COMMAND_LINE))
    for person in people:
        roles = ", ".join(each.role.value for each in person.grants.values()) or "no role"
        notes = ["disabled"] if person.disabled else []
        notes += ["must change password"] if person.must_change_password else []
        print(" · ".join([f"{person.name:<24} {roles}", *notes]))
    return 0
