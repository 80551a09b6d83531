"""Flags that say which jobs are meant, as the list of the console does."""

from __future__ import annotations

import argparse
from typing import Any

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.registration import Invocation

_VIEWS = ("all", "failing", "running", "paused", "active")
_FLAGS = ("executor", "text", "owner", "tag", "handler", "view")


def add_filter(command: argparse.ArgumentParser) -> None:
    """Add them."""
    command.add_argument("--executor", metavar="EXECUTOR", help="of this executor")
    command.add_argument("--text", help="part of a name, handler, owner or tag")
    command.add_argument("--owner", help="with this owner")
    command.add_argument("--tag", action="append", help="with this tag; several: all of them")
    command.add_argument("--handler", help="with this handler")
    command.add_argument("--view", choices=_VIEWS, help=", ".join(_VIEWS), metavar="VIEW")


def has_filter(args: argparse.Namespace) -> bool:
    """Whether any of them was given."""
    return any(getattr(args, name) for name in _FLAGS)


def filter_of(call: Invocation) -> dict[str, Any]:
    """What the API takes; None: not given."""
    args = call.args
    return {
        "executor_id": names.executor_id(call.api, args.executor) if args.executor else None,
        "text": args.text,
        "owner": args.owner,
        "tag": ",".join(args.tag) if args.tag else None,
        "handler": args.handler,
        "view": args.view,
    }
