"""`tickwheel user apply`: roles of users from files, which no token may give."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tickwheel_admin.api.gitops.gitops import plan_view
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.output.style import style_of
from tickwheel_admin.cli.common import config_of, with_services
from tickwheel_admin.cli.failure import Failure
from tickwheel_admin.cli.gitops.files import Directory, DocumentsFailure, read_directory
from tickwheel_admin.cli.gitops.plan_text import plan_lines, summary
from tickwheel_admin.services.gitops.objects import ObjectPlan, ObjectType
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE

ABOUT = """\
Reads documents of the type user_roles, compares them with the database, and gives and takes roles:
all of it in one transaction, or nothing. Without --yes, what would change is printed and no more.
"""


def add_flags(command: argparse.ArgumentParser) -> None:
    """Those beside the configuration's."""
    command.add_argument(
        "-f", "--file", action="append", required=True, metavar="PATH",
        help="a file, or a directory with all that is below it; `-` is the standard input",
    )  # fmt: skip
    command.add_argument(
        "--owner", metavar="NAME",
        help="label of what is applied (default: `owner` in tickwheel.yaml of the directory)",
    )  # fmt: skip
    command.add_argument(
        "--prune", action="store_true", help="take all roles of who has the label and is in no file"
    )
    command.add_argument(
        "--take-over", action="store_true", help="also change what has another owner’s label"
    )
    command.add_argument("--yes", action="store_true", help="apply it")


def apply(args: argparse.Namespace) -> int:
    """Plan, print, and apply if that is said."""
    directory = read_directory(args.file)
    wish: dict[str, Any] = {
        "owner": args.owner or directory.owner,
        "prune": args.prune,
        "take_over": args.take_over,
    }
    if any(each.get("type") != ObjectType.USER_ROLES for each in directory.fields):
        raise UsageFailure("only documents of the type user_roles; others: `tickwheel apply`")

    async def change(services: Services) -> int:
        gitops = services.gitops
        plan = await gitops.plan(COMMAND_LINE, directory.fields, **wish)
        if plan.problems:
            shown = plan_view(plan, "en")["problems"]
            raise DocumentsFailure([directory.told(dict(each)) for each in shown])
        if any(each.key.type is not ObjectType.USER_ROLES for each in plan.changes):
            raise Failure(
                f"the label “{plan.owner}” is that of other objects too, which --prune would"
                " delete; give files of roles an owner of their own"
            )
        _print(plan, directory)
        if not plan.changes:
            return 0
        if not args.yes:
            print("Nothing was applied; --yes applies it.")
            return 0
        await gitops.apply(COMMAND_LINE, directory.fields, fingerprint=plan.fingerprint, **wish)
        print("Applied.")
        return 0

    return with_services(config_of(args), change)


def _print(plan: ObjectPlan, directory: Directory) -> None:
    shown, style = dict(plan_view(plan, "en")), style_of(sys.stdout)
    for line in (*plan_lines(shown, directory, style), *summary(shown, style)):
        print(line)
