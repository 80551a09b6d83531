"""The log of a run: what there is, or line by line until the run has ended."""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import NotReached
from tickwheel_admin.cli.client.output.style import logged
from tickwheel_admin.cli.client.output.table import Item
from tickwheel_admin.cli.client.output.words import local_time
from tickwheel_admin.cli.client.registration import Invocation

_LINES = 1_000  # of a request
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 1.0
SLOWER = 1.5  # factor between two pauses
_OUTAGE_SECONDS = 60.0
ENDED = frozenset({"succeeded", "failed", "timed_out", "cancelled", "lost", "skipped"})
_LEVELS = ("debug", "info", "warning", "error")
_COLOURS = {"warning": "warning", "error": "error", "debug": "skipped"}


def add_log_flags(command: argparse.ArgumentParser) -> None:
    """Which lines, and whether those to come."""
    command.add_argument("-f", "--follow", action="store_true", help="go on until it has ended")
    command.add_argument("--attempt", type=int, metavar="N", help="of this attempt (default: last)")
    command.add_argument("--tail", type=int, metavar="N", help="only the last lines so far")
    command.add_argument("--level", choices=_LEVELS, default="debug", help="at least this level")
    command.add_argument("--plain", action="store_true", help="the text alone, without instants")


def print_log(call: Invocation, run_id: int) -> None:
    """The lines that there are."""
    args = call.args
    lines: Any = _wanted(lines_of(call.api, run_id, args.attempt), args.level)
    if args.tail is not None:
        lines = deque(lines, maxlen=max(args.tail, 0))
    if not call.printer.is_for_people:
        call.printer.items(lines, (), none="")
        return
    for line in lines:
        print_line(call, line)


def follow_log(call: Invocation, run_id: int) -> None:
    """The same, and what comes, until the run has ended."""
    args = call.args
    api = Patient(call.api, sleep=time.sleep)
    found = followed(api, run_id, args.attempt, tail=args.tail, sleep=time.sleep)
    lines = _wanted(found, args.level)
    if not call.printer.is_for_people:
        call.printer.items(lines, (), none="")
        return
    for line in lines:
        print_line(call, line)


def print_line(call: Invocation, line: Item) -> None:
    """One line, with its instant and level; at once."""
    style = call.printer.style
    told = logged(line["text"], style)
    if getattr(call.args, "plain", False):
        call.printer.line(told)
        call.printer.flush()
        return
    level = str(line["level"])
    shown = style.coloured(f"{level.upper():7}", _COLOURS.get(level, ""))
    call.printer.line(f"{local_time(line['at'], style.zone)} {shown} {told}")
    call.printer.flush()


def lines_of(api: AdminApi, run_id: int, attempt: int | None) -> Iterator[Item]:
    """All lines that there are."""
    for page in _pages(api, run_id, attempt):
        yield from page["lines"]


class Patient:
    """Reads that survive a restart of all admins: for a minute nobody need answer."""

    def __init__(self, api: AdminApi, *, sleep: Callable[[float], None]) -> None:
        self._api = api
        self._sleep = sleep

    def get(self, path: str, **query: object) -> Any:
        """As of `AdminApi.get`."""
        ends_at = time.monotonic() + _OUTAGE_SECONDS
        while True:
            try:
                return self._api.get(path, **query)
            except NotReached:
                if time.monotonic() > ends_at:
                    raise
            self._sleep(LONGEST_PAUSE_SECONDS)


def followed(
    api: AdminApi | Patient,
    run_id: int,
    attempt: int | None = None,
    *,
    tail: int | None = None,
    sleep: Callable[[float], None],
) -> Iterator[Item]:
    """Lines as they come, of the tries that follow too, until the run has ended.

    Args:
        attempt: only this one; None: from the last one so far.
        tail: only so many of those that there are already.
        sleep: pauses between two questions; seconds.
    """
    only_one = attempt is not None
    after, pause, over = 0, FIRST_PAUSE_SECONDS, False
    if tail is not None:
        last: deque[Item] = deque(maxlen=max(tail, 0))
        for page in _pages(api, run_id, attempt):
            last += page["lines"]
            attempt, after = page["attempt"] or None, page["next"]
        yield from last
    while True:
        page = _page(api, run_id, attempt, after)
        yield from page["lines"]
        attempt, after = page["attempt"] or None, page["next"]
        if page["more"]:
            continue
        if page["ended"] or attempt is None:
            if only_one and page["ended"]:
                return
            run = api.get(f"/runs/{run_id}")
            if attempt is not None and run["attempt"] > attempt:
                attempt, after = attempt + 1, 0
                continue
            if run["state"] in ENDED:
                if over or (page["ended"] and attempt is not None):
                    return
                over = True  # lines may have come after the page was read
                continue
        sleep(pause)
        pause = FIRST_PAUSE_SECONDS if page["lines"] else min(pause * SLOWER, LONGEST_PAUSE_SECONDS)


def _pages(api: AdminApi | Patient, run_id: int, attempt: int | None) -> Iterator[Any]:
    """The pages of what there is."""
    after, more = 0, True
    while more:
        page = _page(api, run_id, attempt, after)
        yield page
        attempt, after, more = page["attempt"] or None, page["next"], page["more"]


def _page(api: AdminApi | Patient, run_id: int, attempt: int | None, after: int) -> Any:
    return api.get(f"/runs/{run_id}/log", attempt=attempt, after=after, limit=_LINES)


def _wanted(lines: Iterator[Item], level: str) -> Iterator[Item]:
    wanted = _LEVELS[_LEVELS.index(level) :]
    return (line for line in lines if line["level"] in wanted)
