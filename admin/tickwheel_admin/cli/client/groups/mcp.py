"""`tickwheel mcp`: tools for assistants. The library is loaded when the command runs."""

from __future__ import annotations

import argparse
import ipaddress
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.flags import add_client_flags, api_of, target_of

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

INSTALL = "pip install 'mcp>=2.3,<3'"
_TOLD = "tools for assistants that speak the Model Context Protocol"
_EXAMPLES = """\
An assistant starts it and speaks to it over standard input and output; it finds and explains, with
the rights of the API token that `tickwheel login` noted. Give it a token of its own: one for a
viewer cannot change anything, whatever the assistant tries.

examples:
  tickwheel token create maria assistant --role viewer
  tickwheel mcp --profile prod              what an assistant's configuration starts
  tickwheel mcp --allow-actions             also retry, run and cancel; asks the person each time
  tickwheel mcp --http 127.0.0.1:8701       over HTTP, at /mcp; each request brings its own token
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "mcp",
        help=_TOLD,
        description=f"Offer {_TOLD}.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--allow-actions",
        action="store_true",
        help="offer tools that retry, run and cancel (default: only those that read)",
    )
    parser.add_argument(
        "--without-asking",
        action="store_true",
        help="with --allow-actions: act without asking the person first",
    )
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        type=_address,
        help="serve HTTP instead of standard input and output; on this machine only, without TLS",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="with --http: certificate chain, in PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="with --http: its private key, in PEM")
    parser.add_argument(
        "--name",
        metavar="HOST",
        action="append",
        default=[],
        help="with --http: a name by which it is reached, such as that of a proxy; may be repeated",
    )
    add_client_flags(parser, output=False)
    parser.set_defaults(run=_serve)


def _serve(args: argparse.Namespace) -> int:
    if args.without_asking and not args.allow_actions:
        raise UsageFailure("--without-asking is for --allow-actions")
    if args.http is None and (args.tls_cert or args.tls_key or args.name):
        raise UsageFailure("--tls-cert, --tls-key and --name are for --http")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise UsageFailure("--tls-cert and --tls-key go together")
    try:
        import mcp  # noqa: F401 - an extra: told here, before anything else needs it
    except ImportError:
        raise UsageFailure(f"assistants are served with the package mcp: {INSTALL}") from None
    if args.http is None:
        _serve_stdio(args)
    else:
        _serve_http(args)
    return 0


def _serve_stdio(args: argparse.Namespace) -> None:
    from tickwheel_admin.cli.mcp.server import make_server

    target = target_of(args)  # wrong flags are told at once
    if target.token is None:
        raise UsageFailure("no API token is known: run `tickwheel login`, or give --token-file")
    server = make_server(
        lambda _ctx: api_of(args), actions=args.allow_actions, asks=not args.without_asking
    )
    server.run("stdio")


def _serve_http(args: argparse.Namespace) -> None:
    import uvicorn

    from tickwheel_admin.cli.mcp.http import api_of_request, make_app
    from tickwheel_admin.cli.mcp.server import make_server

    host, port = args.http
    if not args.tls_cert and not _is_loopback(host):
        raise UsageFailure(
            f"tokens would cross the network to {host} in the clear: give --tls-cert and --tls-key,"
            " or serve on 127.0.0.1 with a proxy in front that has TLS, and give its --name"
        )
    server = make_server(
        api_of_request(target_of(args), args.timeout),
        actions=args.allow_actions,
        asks=not args.without_asking,
    )
    uvicorn.run(
        make_app(server, host=host, names=[*args.name, *([] if _is_loopback(host) else [host])]),
        host=host,
        port=port,
        ssl_certfile=args.tls_cert,
        ssl_keyfile=args.tls_key,
        log_level="warning",
        server_header=False,
    )


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
