"""`tickwheel job coverage`: whether each interval of a job was processed once."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import exit_codes, names
from tickwheel_admin.cli.client.inputs import instant_of
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import Item, instant, made, number, text
from tickwheel_admin.cli.client.registration import Invocation, add_command
from tickwheel_admin.domain.backfills.coverage import FAULTS, IntervalState

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

MAX_SHOWN = 1_000  # segments in a row that are not done
_MORE = """\
An interval lies between two instants of a schedule: the data that a run of the second one is about.
It is done when succeeded runs have covered it. Exit code 1: an interval was not processed, was
processed in part, or was processed twice. Intervals that wait, run or are not known any more do
not count. Fill the holes with `tickwheel backfill start JOB --only-holes`.
"""
_COUNTS = tuple(
    text(each.value.replace("_", " "), f"counts.{each.value}") for each in IntervalState
)
_ONE = (
    text("trigger", "trigger_id"),
    instant("from", "start_at"),
    instant("until", "end_at"),
    *_COUNTS,
)


def _runs(item: Item) -> str:
    return " ".join(str(each) for each in item["run_ids"])


def _what(item: Item) -> str:
    state = str(item["state"]).replace("_", " ")
    return f"{state} ({item['reason']})" if item["reason"] else state


_SEGMENTS = (
    instant("FROM", "start_at"),
    instant("FIRST INSTANT", "first_at"),
    instant("LAST INSTANT", "last_at"),
    number("INTERVALS", "intervals"),
    made("WHAT", _what),
    made("RUNS", _runs, cuttable=True),
)


def register(group: Subparsers) -> None:
    """Add the command to the group `job`."""
    command = add_command(
        group, "coverage", _coverage, told="whether each interval was processed once", more=_MORE
    )
    command.add_argument("job", help="its id, `executor/job`, or its name if that is unique")
    command.add_argument(
        "--from",
        dest="from_at",
        type=instant_of,
        metavar="WHEN",
        help="the first instant: 2026-03-01T00:00Z, or 7d before now (default: 30 days back)",
    )
    command.add_argument(
        "--until",
        dest="until_at",
        type=instant_of,
        metavar="WHEN",
        help="the first instant that is not wanted (default: now)",
    )
    command.add_argument(
        "--trigger", type=int, metavar="ID", help="whose intervals; needed if the job has several"
    )


def _coverage(call: Invocation) -> int:
    job_id = names.job_id(call.api, call.args.job)
    pages = list(_pages(call, job_id))
    counts: Counter[str] = Counter()
    for page in pages:
        counts.update(page["counts"])
    found: dict[str, Any] = {
        "trigger_id": pages[0]["trigger_id"],
        "start_at": pages[0]["start_at"],
        "end_at": pages[-1]["end_at"],
        "is_whole": all(page["is_whole"] for page in pages),
        "holes": sum(page["holes"] for page in pages),
        "counts": dict(counts),
        "segments": [each for page in pages for each in page["segments"]],
    }
    shown = [each for each in found["segments"] if each["state"] in FAULTS]
    sections = []
    if shown:
        title = "holes, and what was done twice or in part"
        sections = [Subtable(title=title, items=shown[:MAX_SHOWN], columns=_SEGMENTS)]
    call.printer.one(found, _ONE, sections=sections)
    return exit_codes.DONE if found["is_whole"] else exit_codes.FAILED


def _pages(call: Invocation, job_id: int) -> Iterator[dict[str, Any]]:
    """What the API tells, page by page, of one end that later fires do not move."""
    args = call.args
    begin, until = args.from_at, args.until_at or instant_of("0s")
    while True:
        page = call.api.get(
            f"/jobs/{job_id}/coverage", **{"from": begin}, until=until, trigger_id=args.trigger
        )
        yield page
        begin = page["next"]
        if begin is None:
            return
