"""`tickwheel completion`: scripts for shells, and the names that they complete."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import names as names_of
from tickwheel_admin.cli.client.completion.tree import NAMED, commands_of
from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.output.words import visible
from tickwheel_admin.cli.client.profiles import profiles_file, read_profiles
from tickwheel_admin.cli.client.target import Given, find_target
from tickwheel_admin.cli.failure import Failure

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
examples:
  tickwheel completion bash > ~/.local/share/bash-completion/completions/tickwheel
  source <(tickwheel completion zsh)                   in ~/.zshrc
  tickwheel completion fish > ~/.config/fish/completions/tickwheel.fish

Names of jobs, executors, nodes, calendars and pools are asked of the server of your profile, and
left out if it does not answer within a second.
"""
_SECONDS = 1.0
_MOST = 500  # names


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that completes commands, flags and names",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shells = parser.add_subparsers(metavar="SHELL", required=True)
    for shell in ("bash", "zsh", "fish"):
        command = shells.add_parser(shell, help=f"the script for {shell}")
        command.set_defaults(run=_script, shell=shell)
    command = shells.add_parser("names")  # for the scripts: no help, so it is not shown
    command.add_argument("kind", choices=sorted(set(NAMED.values())))
    command.set_defaults(run=_names)


def _script(args: argparse.Namespace) -> int:
    # The whole tree, with the commands of the server: this one may take its time.
    from tickwheel_admin.cli.client.completion.bash import bash_script, zsh_script
    from tickwheel_admin.cli.client.completion.fish import fish_script
    from tickwheel_admin.cli.commands import make_parser

    make = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[args.shell]
    print(make(commands_of(make_parser())), end="")
    return 0


def _names(args: argparse.Namespace) -> int:
    try:
        for name in _known(args.kind):
            if visible(name) == name:  # else it could not be typed
                print(name)
    except Failure:
        return 1  # nothing to complete; nobody reads a reason
    return 0


def _known(kind: str) -> list[str]:
    if kind == "profile":
        return sorted(read_profiles(profiles_file(os.environ)).by_name)
    target = find_target(Given(), os.environ)
    with AdminApi(target, seconds=_SECONDS, sleep=_give_up) as api:
        if kind == "job":
            return [
                f"{each['executor_name']}/{each['config']['name']}"
                for each in api.pages("/jobs", most=_MOST)
            ]
        if kind == "node":
            return [
                f"{each['executor_name']}/{each['name']}"
                for each in names_of.nodes(api)
                if each["state"] == "live"
            ]
        if kind == "executor":
            return [each["name"] for each in api.get("/executors")["items"]]
        if kind == "calendar":
            return [each["config"]["name"] for each in api.pages("/calendars", most=_MOST)]
        return [each["name"] for each in api.pages("/pools", most=_MOST)]


def _give_up(_seconds: float) -> None:
    raise Failure("the server does not answer at once")
