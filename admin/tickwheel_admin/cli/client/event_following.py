"""Events of runs as they happen, without gaps, over lost connections and restarts of admins."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import ApiRefused, NotReached
from tickwheel_admin.cli.client.flags import api_of
from tickwheel_admin.cli.client.output.table import Item
from tickwheel_admin.cli.client.output.words import local_time, plain
from tickwheel_admin.cli.client.registration import Invocation
from tickwheel_admin.cli.client.wire import refusal

PAUSE_SECONDS = 1.0
_OUTAGE_SECONDS = 60.0  # for so long nobody need answer
_NAMES_KEPT = 10_000


def add_event_flags(command: argparse.ArgumentParser) -> None:
    """Which events, and from where on."""
    command.add_argument("--executor", metavar="EXECUTOR", help="of this executor's runs")
    command.add_argument("--job", metavar="JOB", help="of this job's runs")
    command.add_argument(
        "--state", metavar="STATE", help="that lead to this state; several between commas"
    )
    command.add_argument("--after", type=int, metavar="SEQ", help="from this number on")
    command.add_argument("--count", type=int, metavar="N", help="end after so many")


def follow_events(call: Invocation) -> None:
    """Print them until it is interrupted."""
    args = call.args
    query = {
        "executor_id": names.executor_id(call.api, args.executor) if args.executor else None,
        "job_id": names.job_id(call.api, args.job) if args.job else None,
        "state": args.state,
    }
    found = islice(events_of(call.api, after=args.after, sleep=time.sleep, **query), args.count)
    if not call.printer.is_for_people:
        _print_items(call, found)
        return
    with api_of(args) as asked:  # the connection of the stream is in use
        jobs = _JobNames(asked)
        for event in found:
            call.printer.line(_line(call, event, jobs.of(event["job_id"])))
            call.printer.flush()


def _print_items(call: Invocation, found: Iterator[Item]) -> None:
    """A list without an end: JSON as one object in a line, YAML item by item."""
    for event in found:
        if call.args.output == "json":
            call.printer.line(json.dumps(event, ensure_ascii=False))
        else:
            call.printer.value([event])
        call.printer.flush()


def events_of(
    api: AdminApi, *, after: int | None, sleep: Callable[[float], None], **query: object
) -> Iterator[Item]:
    """Events after this number, each once and in order, without end.

    Args:
        after: None: those to come.
        sleep: pauses before another connection; seconds.

    Raises:
        ApiRefused: also when what comes after the number is not kept any more.
        NotReached: nobody answered for a minute.
    """
    lost_at: float | None = None
    while True:
        try:
            for event, number, data in _blocks(api.lines("/events", after=after, **query)):
                lost_at = None
                if event == "gone":
                    raise refusal(410, json.loads(data)["error"])
                if number is not None:
                    after = number
                if event == "run":
                    yield json.loads(data)
        except NotReached:
            lost_at = time.monotonic() if lost_at is None else lost_at
            if time.monotonic() - lost_at > _OUTAGE_SECONDS:
                raise
        sleep(PAUSE_SECONDS)


def _blocks(lines: Iterator[str]) -> Iterator[tuple[str, int | None, str]]:
    """Event, id and data of what stands between two empty lines."""
    event, number, data = "", None, ""
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            yield event, number, data
            event, number, data = "", None, ""
        elif name == "event":
            event = value
        elif name == "id":
            number = int(value)
        elif name == "data":
            data = value


class _JobNames:
    """`executor/job` by id, each asked for once."""

    def __init__(self, api: AdminApi) -> None:
        self._api = api
        self._known: dict[int, str] = {}

    def of(self, job_id: int) -> str:
        if job_id not in self._known:
            if len(self._known) >= _NAMES_KEPT:
                self._known.clear()
            try:
                job: Any = self._api.get(f"/jobs/{job_id}")
            except ApiRefused:
                return f"job {job_id}"  # a script that is tried, or deleted since
            self._known[job_id] = f"{job['executor_name']}/{job['config']['name']}"
        return self._known[job_id]


def _line(call: Invocation, event: Item, job: str) -> str:
    style = call.printer.style
    state = style.coloured(event["state"], event["state"])
    parts = [local_time(event["at"], style.zone), f"run {event['run_id']}", plain(job), state]
    if event["attempt"]:
        parts.append(f"attempt {event['attempt']}")
    if event["reason"]:
        parts.append(f"({plain(event['reason'])})")
    return "  ".join(parts)
