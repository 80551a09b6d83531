"""Flags that every command with a server has, and what they make."""

from __future__ import annotations

import argparse
import os

from tickwheel_admin.cli.client.connection import DEFAULT_SECONDS, AdminApi
from tickwheel_admin.cli.client.target import Given, Target, find_target

FORMATS = ("table", "json", "yaml")


def add_client_flags(parser: argparse.ArgumentParser, *, output: bool = True) -> None:
    """The flags of server, token and output.

    Args:
        output: whether the command has an --output.
    """
    if output:
        parser.add_argument(
            "-o",
            "--output",
            choices=FORMATS,
            default="table",
            help="how the answer is printed (default: table)",
        )
    group = parser.add_argument_group("server")
    # No flag for the token itself: others could read it in the process list.
    group.add_argument("--profile", metavar="NAME", help="server and token of `tickwheel login`")
    group.add_argument("--url", metavar="URL", help="address of an admin, or several with commas")
    group.add_argument("--token-file", metavar="FILE", help="file that has an API token")
    group.add_argument("--ca-file", metavar="FILE", help="certificates to trust, in PEM")
    group.add_argument(
        "--insecure-http",
        action="store_true",
        help="send the token without TLS, also to another machine",
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help=f"longest wait for an answer (default: {DEFAULT_SECONDS:g})",
    )


def target_of(args: argparse.Namespace) -> Target:
    """The server and the token that are meant; UsageFailure when that is not clear."""
    given = Given(
        url=args.url,
        profile=args.profile,
        token_file=args.token_file,
        ca_file=args.ca_file,
        insecure_http=args.insecure_http,
    )
    return find_target(given, os.environ)


def api_of(args: argparse.Namespace) -> AdminApi:
    """The API that the flags, the environment and the profiles lead to; for a `with` block."""
    return AdminApi(target_of(args), seconds=args.timeout, language=_language())


def _language() -> str:
    """Of messages of the admin, by the usual variables."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(name):
            # zh_TW.UTF-8 is zh-TW: the admin knows which of its languages that is.
            name = value.partition(".")[0].replace("_", "-")
            return name if name.lower().startswith("zh") else "en"
    return "en"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 3600 seconds")
    return seconds
