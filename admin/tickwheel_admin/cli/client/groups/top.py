"""`tickwheel top`: what runs and waits, live in a terminal or printed once."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client.registration import Invocation, add_command
from tickwheel_admin.cli.client.top.screen import SORTS, TopView, screen_lines
from tickwheel_admin.cli.client.top.snapshot import take_snapshot

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MORE = """\
keys:
  q quit   p or space stand still   s another order of the running runs

examples:
  tickwheel top
  tickwheel top --once                 printed once, as where the output is no terminal
  tickwheel top -o json                the same for programs
"""
_WIDE = 160  # columns, where the output is no terminal


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    command = add_command(
        subparsers,
        "top",
        _top,
        told="what runs, waits and needs attention, live in the terminal",
        more=_MORE,
    )
    command.add_argument(
        "--interval", type=_seconds, default=2.0, metavar="SECONDS", help="(default: 2)"
    )
    command.add_argument("--once", action="store_true", help="print it once")
    command.add_argument("--sort", choices=SORTS, default=SORTS[0], help="order of running runs")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0.5 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.5 and 3600 seconds")
    return seconds


def _top(call: Invocation) -> None:
    live = not call.args.once and call.printer.is_for_people
    if not (live and sys.stdout.isatty() and sys.stdin.isatty() and _is_shown(call)):
        _print_once(call)


def _is_shown(call: Invocation) -> bool:
    """Whether the live view could be shown."""
    try:
        import curses

        from tickwheel_admin.cli.client.top.live import Watch, show_live
    except ImportError:  # a Python without curses
        return False
    watch = Watch(lambda: take_snapshot(call.api), call.args.interval)
    try:
        show_live(watch, call.printer.style, TopView(sort=call.args.sort))
    except KeyboardInterrupt:
        pass  # as good as q
    except curses.error as error:
        print(f"tickwheel: this terminal shows no live view ({error})", file=sys.stderr)
        return False
    return True


def _print_once(call: Invocation) -> None:
    shot = take_snapshot(call.api)
    if not call.printer.is_for_people:
        call.printer.value(shot.as_json())
        return
    style = call.printer.style
    columns = style.columns or _WIDE
    view = TopView(sort=call.args.sort)
    for line in screen_lines(shot, view, columns=columns, rows=None, style=style):
        call.printer.line(style.coloured(line.text.rstrip(), line.word))
