"""`tickwheel profile`: the servers that `tickwheel login` noted."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import keyrings
from tickwheel_admin.cli.client.errors import NotFoundFailure
from tickwheel_admin.cli.client.flags import FORMATS
from tickwheel_admin.cli.client.output.printer import Printer
from tickwheel_admin.cli.client.output.table import Item, text
from tickwheel_admin.cli.client.profiles import (
    Profiles,
    ServerProfile,
    profiles_file,
    read_profiles,
    write_profiles,
)
from tickwheel_admin.cli.client.registration import add_group

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel profile list
  tickwheel profile use test            commands speak to it from now on
  tickwheel job list --profile prod     just this once
  tickwheel profile delete test         forgets server and token; `token revoke` ends a token
"""
_COLUMNS = (
    text("NAME", "name"),
    text("DEFAULT", "default"),
    text("SERVER", "url"),
    text("TOKEN IN", "token_in"),
    text("CA FILE", "ca_file"),
)


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "profile", told="the servers that `login` noted", examples=_EXAMPLES
    )
    for name, work, told in (
        ("list", _list, "list the profiles, without their tokens"),
        ("use", _use, "make one the default"),
        ("delete", _delete, "forget one with its token"),
    ):
        command = group.add_parser(name, help=told)
        if work is not _list:
            command.add_argument("name", help="name of the profile")
        command.add_argument(
            "-o", "--output", choices=FORMATS, default="table", help="how it is printed"
        )
        command.set_defaults(run=partial(_run, work))


_Work = Callable[[argparse.Namespace, Profiles, Printer], None]


def _run(work: _Work, args: argparse.Namespace) -> int:
    work(args, read_profiles(profiles_file(os.environ)), Printer(args.output))
    return 0


def _list(_args: argparse.Namespace, profiles: Profiles, printer: Printer) -> None:
    items = [
        _view(name, each, is_default=name == profiles.default)
        for name, each in sorted(profiles.by_name.items())
    ]
    printer.items(items, _COLUMNS, none="There is no profile; `tickwheel login` makes one.")


def _use(args: argparse.Namespace, profiles: Profiles, printer: Printer) -> None:
    _known(profiles, args.name)
    write_profiles(profiles_file(os.environ), replace(profiles, default=args.name))
    printer.done(f"{args.name} is the default now.", {"default": args.name})


def _delete(args: argparse.Namespace, profiles: Profiles, printer: Printer) -> None:
    if _known(profiles, args.name).token_in_keyring:
        keyrings.forget_token(args.name)
    write_profiles(profiles_file(os.environ), profiles.without(args.name))
    printer.done(f"{args.name} is forgotten.", {"deleted": args.name})


def _known(profiles: Profiles, name: str) -> ServerProfile:
    if name not in profiles.by_name:
        raise NotFoundFailure(f"there is no profile {name}; `tickwheel profile list` has all")
    return profiles.by_name[name]


def _view(name: str, profile: ServerProfile, *, is_default: bool) -> Item:
    if profile.token_in_keyring:
        place = "keyring"
    else:
        place = profile.token_file or ("profiles.toml" if profile.token else "")
    return {
        "name": name,
        "default": is_default,
        "url": profile.url,
        "token_in": place,
        "ca_file": profile.ca_file,
    }
