"""`tickwheel user`: people, passwords and roles, for whoever can read the admin's configuration."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.common import (
    add_config_flags,
    config_of,
    executor_ids,
    executors_by_name,
    with_services,
)
from tickwheel_admin.cli.gitops import user_roles
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.lists import UserItem

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

NO_ROLE = "none"
_EXAMPLES = """\
examples:
  tickwheel user add olga --role operator
  tickwheel user add paul --role developer --executor billing --executor reports
  tickwheel user grant paul --role admin --executor billing
  tickwheel user grant paul --role none --executor reports
  tickwheel user apply -f roles/ --yes
  tickwheel user reset-password admin
  tickwheel user disable olga

Use the same --config, --data-dir or environment as the admin does. A running admin need not be
stopped; a change counts at the person's next request.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "user",
        help="add people, give roles, reset passwords, shut people out",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("add", help="add a person; prints a one-time password")
    command.add_argument("name", help="of the person")
    _add_grant_flags(command, default=Role.VIEWER.value)
    _finish(command, _add)

    command = commands.add_parser("grant", help="give a person a role, or take it away")
    command.add_argument("name", help="of the person")
    _add_grant_flags(command, default=None)
    _finish(command, _grant)

    command = commands.add_parser(
        "apply", help="give and take roles as files say", description=user_roles.ABOUT
    )
    user_roles.add_flags(command)
    _finish(command, user_roles.apply)

    command = commands.add_parser(
        "reset-password", help="print a new one-time password; ends sessions and API tokens"
    )
    command.add_argument("name", help="of the person")
    _finish(command, _reset_password)

    command = commands.add_parser("disable", help="shut a person out at once")
    command.add_argument("name", help="of the person")
    _finish(command, _disable)

    command = commands.add_parser("enable", help="let a disabled person in again")
    command.add_argument("name", help="of the person")
    _finish(command, _enable)

    command = commands.add_parser("delete", help="forget a person, sessions and API tokens")
    command.add_argument("name", help="of the person")
    _finish(command, _delete)

    command = commands.add_parser("list", help="list everybody")
    _finish(command, _list)


def _add_grant_flags(command: argparse.ArgumentParser, *, default: str | None) -> None:
    roles = [role.value for role in Role]
    command.add_argument(
        "--role",
        choices=roles if default else [*roles, NO_ROLE],
        default=default,
        required=default is None,
        help="what they may do" + (f" (default: {default})" if default else ""),
    )
    command.add_argument(
        "--executor",
        action="append",
        default=[],
        metavar="NAME",
        help="with this executor only; may be given several times (default: with every one)",
    )
    command.add_argument(
        "--scripts",
        action="store_true",
        help="they may also edit the scripts of jobs; for developers and admins",
    )


def _finish(command: argparse.ArgumentParser, run: object) -> None:
    add_config_flags(command)
    command.set_defaults(run=run)


def _add(args: argparse.Namespace) -> int:
    async def add(services: Services) -> str:
        grant = Grant(Role(args.role), args.scripts)
        where = executor_ids(await executors_by_name(services), args.executor)
        grants = dict.fromkeys(where or [ALL_EXECUTORS], grant)
        return (await services.users.create(COMMAND_LINE, args.name, grants=grants)).password

    password = with_services(config_of(args), add)
    print(f"One-time password of {args.name}, to be changed at the first login: {password}")
    return 0


def _grant(args: argparse.Namespace) -> int:
    async def grant(services: Services) -> str:
        known = await executors_by_name(services)
        where = executor_ids(known, args.executor) or [ALL_EXECUTORS]
        user = await services.users.find(COMMAND_LINE, args.name)
        grants = {each: held for each, held in user.grants.items() if each not in where}
        if args.role != NO_ROLE:
            grants |= dict.fromkeys(where, Grant(Role(args.role), args.scripts))
        await services.users.set_grants(COMMAND_LINE, user.id, grants)
        return _rights(await services.users.find(COMMAND_LINE, args.name), known)

    print(f"{args.name}: {with_services(config_of(args), grant)}")
    return 0


def _reset_password(args: argparse.Namespace) -> int:
    password = with_services(
        config_of(args),
        lambda services: services.users.reset_password(COMMAND_LINE, args.name),
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
        lambda services: services.users.set_disabled(COMMAND_LINE, args.name, disabled=disabled),
    )
    print(f"{args.name} is {'shut out' if disabled else 'let in again'}.")
    return 0


def _delete(args: argparse.Namespace) -> int:
    async def delete(services: Services) -> None:
        user = await services.users.find(COMMAND_LINE, args.name)
        await services.users.delete(COMMAND_LINE, user.id)

    with_services(config_of(args), delete)
    print(f"{args.name} is forgotten; the audit keeps the name.")
    return 0


def _list(args: argparse.Namespace) -> int:
    async def read(services: Services) -> list[str]:
        known = await executors_by_name(services)
        return [_line(each, known) for each in await services.users.list(COMMAND_LINE)]

    for line in with_services(config_of(args), read):
        print(line)
    return 0


def _line(user: UserItem, known: dict[str, int]) -> str:
    notes = ["disabled"] if user.disabled else []
    notes += ["must change password"] if user.must_change_password else []
    notes += ["no password"] if not user.has_password else []
    return " · ".join([f"{user.name:<24} {_rights(user, known)}", *notes])


def _rights(user: UserItem, known: dict[str, int]) -> str:
    """What a person may do: "admin, developer+scripts@billing"."""
    names = {executor_id: name for name, executor_id in known.items()}
    words = []
    for executor_id, grant in user.grants.items():
        where = "" if executor_id == ALL_EXECUTORS else f"@{names.get(executor_id, executor_id)}"
        scripts = "+scripts" if grant.scripts else ""
        words.append(f"{grant.role.value}{scripts}{where}")
    return ", ".join(words) or "no role"
