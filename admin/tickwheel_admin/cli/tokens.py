"""`tickwheel token`: tokens for programs that use the API."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.common import add_config_flags, config_of, with_services
from tickwheel_admin.services.people import COMMAND_LINE

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
examples:
  tickwheel token create admin "deploy pipeline"
  curl -H "Authorization: Bearer $(tickwheel token create admin ci)" http://127.0.0.1:8500/api/v1/jobs

The token acts with the person's roles and ends with their password. It is printed once, alone on
stdout, and cannot be shown again.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("token", help="create tokens for the API")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser(
        "create",
        help="print a new token",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("user", help="whose roles it acts with")
    command.add_argument("name", help="what it is for; unique per person")
    command.add_argument("--days", type=int, metavar="N", help="valid so long (default: no end)")
    add_config_flags(command)
    command.set_defaults(run=_create)


def _create(args: argparse.Namespace) -> int:
    token = with_services(
        config_of(args),
        lambda services: services.people.create_api_token(
            COMMAND_LINE, args.user, name=args.name, valid_days=args.days
        ),
    )
    print(token)
    return 0
