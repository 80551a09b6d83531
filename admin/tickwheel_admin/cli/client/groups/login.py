"""`tickwheel login`: note a server and its token, so that commands find them."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client import keyrings
from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.flags import add_client_flags
from tickwheel_admin.cli.client.output.words import visible
from tickwheel_admin.cli.client.profiles import (
    ServerProfile,
    check_name,
    profiles_file,
    read_profiles,
    write_profiles,
)
from tickwheel_admin.cli.client.target import (
    PROFILE_VARIABLE,
    URL_VARIABLE,
    Given,
    check_token,
    find_target,
)

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
examples:
  tickwheel login --url https://tickwheel.example.com
                                        asks for a token, checks it and notes both
  tickwheel login --url https://test.example.com --profile test
  tickwheel login --url https://ci.example.com --token-file /run/secrets/tickwheel
                                        notes where the token stands, and not the token
  tickwheel token create olga laptop | tickwheel login --url http://127.0.0.1:8500

A token is made in the console, under your name, or by `tickwheel token create`. It is kept in the
keyring of the system where the extra `cli-keyring` is installed, else in
~/.config/tickwheel/profiles.toml, which only you can read. `tickwheel profile` lists and changes
what was noted.
"""
_DEFAULT_NAME = "default"


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "login",
        help="note a server and an API token for the commands that use them",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--keep-in",
        choices=("keyring", "file"),
        help="where the token is kept (default: the keyring if there is one)",
    )
    parser.add_argument(
        "--no-default",
        action="store_true",
        help="do not make it the profile that commands use by themselves",
    )
    add_client_flags(parser, output=False)
    parser.set_defaults(run=_login)


def _login(args: argparse.Namespace) -> int:
    file = profiles_file(os.environ)
    profiles = read_profiles(file)
    name = check_name(args.profile or os.environ.get(PROFILE_VARIABLE) or _DEFAULT_NAME)
    known = profiles.by_name.get(name)
    url = args.url or os.environ.get(URL_VARIABLE) or (known.url if known else None)
    if url is None:
        raise UsageFailure("which server? Give its address with --url")
    if args.token_file:
        args.token_file = str(Path(args.token_file).absolute())
    given = Given(
        url=url,
        token_file=args.token_file,
        ca_file=str(Path(args.ca_file).absolute()) if args.ca_file else None,
        insecure_http=args.insecure_http,
    )
    token = None if args.token_file else _asked_token(url)
    # Checked as any command would use it, and with nothing of the environment.
    target = find_target(given, {} if token is None else {"TICKWHEEL_API_TOKEN": token})
    with AdminApi(target, seconds=args.timeout) as api:
        me = api.get("/me")
    in_keyring = token is not None and _is_for_keyring(args.keep_in)
    if in_keyring and token is not None:
        keyrings.keep_token(name, token)
    profile = ServerProfile(
        url=",".join(target.urls),
        token=None if in_keyring else token,
        token_in_keyring=in_keyring,
        token_file=args.token_file,
        ca_file=given.ca_file,
        insecure_http=args.insecure_http,
    )
    write_profiles(file, profiles.with_one(name, profile, as_default=not args.no_default))
    if known and known.token_in_keyring and not in_keyring and keyrings.has_keyring():
        keyrings.forget_token(name)  # nothing would lead to it any more
    place = "the keyring" if in_keyring else (args.token_file or str(file))
    print(f"Logged in at {target.urls[0]} as {visible(str(me['name']))}; the token is in {place}.")
    return 0


def _asked_token(url: str) -> str:
    """From the standard input if something is there, else typed, unseen."""
    if sys.stdin.isatty():
        return check_token(getpass.getpass(f"API token for {url}: ").strip(), "the token")
    return check_token(sys.stdin.readline().strip(), "the standard input")


def _is_for_keyring(wanted: str | None) -> bool:
    if wanted == "keyring" and not keyrings.has_keyring():
        raise UsageFailure(
            f"there is no keyring to keep the token in; install its package ({keyrings.INSTALL}) or"
            " use --keep-in file"
        )
    return wanted == "keyring" or (wanted is None and keyrings.has_keyring())
