"""`tickwheel secret-key`: a new key, and everything encrypted with it instead of an older one."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tickwheel_admin.cli.common import Failure, add_config_flags, config_of, with_services
from tickwheel_admin.services.secrets.cipher import new_key
from tickwheel_admin.services.secrets.rotation import KeyRotation, RotationReport
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_STEPS = """\
To replace the key without an interruption:
  1. TICKWHEEL_SECRET_KEY=old,new for all admins; restart them one after the other
  2. TICKWHEEL_SECRET_KEY=new,old for all admins; restart them one after the other
  3. tickwheel secret-key rotate, with the same setting
  4. TICKWHEEL_SECRET_KEY=new for all admins; restart them one after the other
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "secret-key",
        help="print a new key for the setting secret_key; rotate: use another one",
        epilog=_STEPS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_print_key)
    commands = parser.add_subparsers(metavar="COMMAND")
    command = commands.add_parser(
        "rotate",
        help="encrypt all secrets and access tokens anew with the first key of secret_key",
        epilog=_STEPS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config_flags(command)
    command.add_argument(
        "--force",
        action="store_true",
        help="also while admins are up that do not tell which keys they have; you are sure that"
        " they have the first key of secret_key",
    )
    command.set_defaults(run=_rotate)


def _print_key(_args: argparse.Namespace) -> int:
    print(new_key())
    return 0


def _rotate(args: argparse.Namespace) -> int:
    def told(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done:,} looked at", end="", file=sys.stderr, flush=True)

    async def rotate(services: Services) -> RotationReport:
        rotation = KeyRotation(services.store, services.ids, services.cipher)
        return await rotation.rotate(COMMAND_LINE, told, trusts_all=args.force)

    report = with_services(config_of(args), rotate)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(
        f"{report.anew:,} encrypted anew with the key {report.key_id};"
        f" {report.kept:,} were encrypted with it already."
    )
    if report.unreadable:
        print("None of the keys decrypts these; enter them again, or add their key:")
        for each in report.unreadable:
            print(f"  {each}")
    for name, key_id in report.behind.items():
        print(f"The admin {name} still encrypts with the key {key_id}.")
    for name in report.not_known:
        print(f"Of the admin {name} it is not known which key it encrypts with.")
    if report.unreadable:
        raise Failure("some secrets cannot be read: see above")
    if report.behind:
        raise Failure(
            f"other keys cannot be removed yet: let all admins have the key {report.key_id} first"
            " in TICKWHEEL_SECRET_KEY, restart them, and run this again"
        )
    if report.not_known and not args.force:
        raise Failure(
            "it is not known whether other keys can be removed: run this again in a few seconds, or"
            " restart the admins that are named above with this version first"
        )
    print("All other keys can be removed from TICKWHEEL_SECRET_KEY now.")
    return 0
