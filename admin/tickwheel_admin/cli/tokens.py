"""`tickwheel token`: tokens for programs that use the API."""

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
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.lists import TokenItem

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
examples:
  tickwheel token create admin "deploy pipeline" --days 365
  tickwheel token create olga ci --role operator --executor billing
  curl -H "Authorization: Bearer $(tickwheel token create admin ci)" http://127.0.0.1:8500/api/v1/jobs
  tickwheel token list
  tickwheel token revoke 7

A token acts with the person's roles, or with less, and ends with their password. It is printed
once, alone on stdout, and cannot be shown again.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "token",
        help="create, list and revoke tokens for the API",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser(
        "create",
        help="print a new token",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("user", help="whose roles it acts with")
    command.add_argument("name", help="what it is for; unique per person")
    command.add_argument(
        "--role",
        choices=[role.value for role in Role],
        help="at most this role (default: the person's own)",
    )
    command.add_argument(
        "--executor",
        action="append",
        default=[],
        metavar="NAME",
        help="only with this executor; may be given several times (default: as the person)",
    )
    command.add_argument("--days", type=int, metavar="N", help="valid so long (default: no end)")
    add_config_flags(command)
    command.set_defaults(run=_create)

    command = commands.add_parser("list", help="list tokens with their numbers, newest first")
    add_config_flags(command)
    command.set_defaults(run=_list)

    command = commands.add_parser("revoke", help="end a token at once")
    command.add_argument("id", type=int, help="its number in the list")
    add_config_flags(command)
    command.set_defaults(run=_revoke)


def _create(args: argparse.Namespace) -> int:
    async def create(services: Services) -> str:
        executors = executor_ids(await executors_by_name(services), args.executor)
        return await services.api_tokens.create_for(
            COMMAND_LINE,
            args.user,
            name=args.name,
            role=Role(args.role) if args.role else None,
            executors=executors or None,
            valid_days=args.days,
        )

    print(with_services(config_of(args), create))
    return 0


def _list(args: argparse.Namespace) -> int:
    async def read(services: Services) -> list[str]:
        known = await executors_by_name(services)
        items: list[TokenItem] = []
        cursor = None
        while True:
            page = await services.api_tokens.page(COMMAND_LINE, cursor, limit=500)
            items += page.items
            cursor = page.next
            if cursor is None:
                return [_line(item, known) for item in items]

    for line in with_services(config_of(args), read):
        print(line)
    return 0


def _revoke(args: argparse.Namespace) -> int:
    with_services(
        config_of(args), lambda services: services.api_tokens.revoke(COMMAND_LINE, args.id)
    )
    print(f"Token {args.id} is revoked.")
    return 0


def _line(item: TokenItem, known: dict[str, int]) -> str:
    names = {executor_id: name for name, executor_id in known.items()}
    where = ""
    if item.executors is not None:
        where = "@" + ",".join(names.get(each, str(each)) for each in item.executors)
    scope = f"{item.role.value if item.role else 'as the person'}{where}"
    ends = f"until {instant_to_iso(item.expires_at)}" if item.expires_at else "no end"
    used = f"used {instant_to_iso(item.used_at)}" if item.used_at else "never used"
    return " · ".join([f"{item.id:<5} {item.user_name:<16} {item.name}", scope, ends, used])
