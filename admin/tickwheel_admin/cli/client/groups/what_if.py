"""`tickwheel what-if`: what changes would bring before they are saved."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import exit_codes, names
from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.inputs import read_document
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.output.table import Item, instant, made, number, text
from tickwheel_admin.cli.client.output.words import length, local_time, visible
from tickwheel_admin.cli.client.registration import Invocation, add_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tickwheel_admin.cli.client.connection import AdminApi

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_HOURS = 24
_OF_PLACE = ("id", "revision", "executor", "executor_id")  # of a job, but not of its configuration
_ABOUT = """\
Simulates the next hours twice, as things are and with all that is asked for here, and prints both
side by side. Nothing is saved. Runs take as long as those that were measured.

examples:
  tickwheel what-if --drain node-2
  tickwheel what-if --slots node-1=4 --hours 168
  tickwheel what-if --pause billing/report --pause billing/export
  tickwheel what-if --job billing/report=report.yaml
  tickwheel what-if --new-job billing=export.yaml --pool warehouse=2
  tickwheel what-if --calendar germany.yaml -o json

exit codes: 0 nothing gets worse, 1 deadlines are missed, fires are skipped or children starve that
would not be otherwise.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers, "what-if", _ask, told="what changes would bring, before they are saved",
        more=_ABOUT,
    )  # fmt: skip
    for flag, metavar, told in (
        ("--job", "JOB=FILE", "the job gets the configuration in this file (YAML or JSON)"),
        ("--new-job", "EXECUTOR=FILE", "the executor gets the job in this file (YAML or JSON)"),
        ("--pause", "JOB", "the job is paused"),
        ("--resume", "JOB", "the job is resumed"),
        ("--pause-executor", "EXECUTOR", "the executor is paused"),
        ("--resume-executor", "EXECUTOR", "the executor is resumed"),
        ("--drain", "NODE", "the node takes no more runs"),
        ("--undrain", "NODE", "the node takes runs again"),
        ("--slots", "NODE=N", "the node runs so many at once"),
        ("--pool", "POOL=N", "the pool has so many slots; 0 closes it"),
        ("--calendar", "FILE", "the calendar gets the days in this file (YAML or JSON)"),
    ):
        parser.add_argument(flag, action="append", default=[], metavar=metavar, help=told)
    parser.add_argument(
        "--hours",
        type=int,
        default=DEFAULT_HOURS,
        metavar="N",
        help=f"how far to look, 1 to 168 (default: {DEFAULT_HOURS})",
    )


def _ask(call: Invocation) -> int:
    changes = list(_changes(call.api, call.args))
    if not changes:
        raise UsageFailure("say what would change: see `tickwheel what-if --help`")
    found = call.api.post("/what-if", {"changes": changes, "hours": call.args.hours})
    if call.printer.is_for_people:
        call.printer.line(visible(_sentence(found)))
        call.printer.line("")
    sections = [
        Subtable(title="jobs that change", items=found["jobs"], columns=_JOBS),
        Subtable(title="better minutes", items=found["spread"], columns=_SPREAD),
    ]
    call.printer.one(found, _ROWS, sections=sections)
    if call.printer.is_for_people:
        call.printer.line("")
        if found["with_spread"] is not None:
            call.printer.line(visible(_spread(found)))
        call.printer.line(visible(_basis(found["basis"])))
        if found["truncated"]:
            call.printer.line(f"It ends early, at {local_time(found['end'], None)}: too many runs.")
    return exit_codes.FAILED if _is_worse(found) else exit_codes.DONE


def _changes(api: AdminApi, args: argparse.Namespace) -> Sequence[dict[str, Any]]:
    changes: list[dict[str, Any]] = []
    for each in args.job:
        job, file = _pair(each, "--job JOB=FILE")
        changes.append(
            {"kind": "job", "job_id": names.job_id(api, job), "config": _config_in(file)}
        )
    for each in args.new_job:
        executor, file = _pair(each, "--new-job EXECUTOR=FILE")
        executor_id = names.executor_id(api, executor)
        changes.append({"kind": "new_job", "executor_id": executor_id, "config": _config_in(file)})
    for flag, paused in (("pause", True), ("resume", False)):
        for job in getattr(args, flag):
            job_id = names.job_id(api, job)
            changes.append({"kind": "job_pause", "job_id": job_id, "paused": paused})
    for flag, paused in (("pause_executor", True), ("resume_executor", False)):
        for executor in getattr(args, flag):
            found = names.executor_id(api, executor)
            changes.append({"kind": "executor_pause", "executor_id": found, "paused": paused})
    for flag, drain in (("drain", True), ("undrain", False)):
        for node in getattr(args, flag):
            changes.append({"kind": "node", "node_id": names.node_id(api, node), "drain": drain})
    for each in args.slots:
        node, slots = _slots(each, "--slots NODE=N")
        changes.append({"kind": "node", "node_id": names.node_id(api, node), "slots": slots})
    for each in args.pool:
        pool, slots = _slots(each, "--pool POOL=N")
        changes.append({"kind": "pool", "pool_id": names.pool_id(api, pool), "slots": slots})
    for file in args.calendar:
        calendar = read_document(file)
        for key in ("id", "version"):
            calendar.pop(key, None)
        changes.append({"kind": "calendar", "calendar": calendar})
    return changes


def _pair(given: str, form: str) -> tuple[str, str]:
    name, sign, value = given.rpartition("=")
    if not sign or not name or not value:
        raise UsageFailure(f"{given} is not of the form {form}")
    return name, value


def _slots(given: str, form: str) -> tuple[str, int]:
    name, slots = _pair(given, form)
    if not slots.isdecimal():
        raise UsageFailure(f"{slots} is no number of slots")
    return name, int(slots)


def _config_in(file: str) -> Item:
    return {key: value for key, value in read_document(file).items() if key not in _OF_PLACE}


def _sentence(found: Item) -> str:
    """What matters most, first."""
    before, after = found["before"], found["after"]
    told = []
    if missed := after["missed_deadlines"] - before["missed_deadlines"]:
        told.append(f"{abs(missed)} {'more' if missed > 0 else 'fewer'} deadlines are missed")
    starving = sum(job["starves"] for job in found["jobs"])
    if starving:
        told.append(f"{starving} job(s) that others ask for run no more")
    if found["fires_gone"] or found["fires_new"]:
        told.append(f"{found['fires_gone']} fires go and {found['fires_new']} come")
    skipped = sum(after["skipped"].values()) - sum(before["skipped"].values())
    if skipped:
        told.append(f"{abs(skipped)} {'more' if skipped > 0 else 'fewer'} fires are skipped")
    if before["late"] != after["late"]:
        told.append(f"{after['late']} runs start more than a minute late instead of"
                    f" {before['late']}")  # fmt: skip
    if not told:
        return "Nothing that would be noticed changes."
    return f"With this, {', '.join(told)}."


def _spread(found: Item) -> str:
    """What the better minutes would bring."""
    after, spread = found["after"], found["with_spread"]
    delay = _delay("start_delay_p95_seconds")
    return (
        f"With the better minutes: start delay of 95 of 100 {delay(spread)} instead of"
        f" {delay(after)}, all slots in use for {length(spread['full_seconds'] * 1000)} instead of"
        f" {length(after['full_seconds'] * 1000)}, {spread['late']} runs more than a minute late"
        f" instead of {after['late']}."
    )


def _basis(basis: Item) -> str:
    told = f"It rests on {basis['measured_runs']} measured runs of {basis['measured_jobs']} jobs"
    if basis["measured_since"] is not None:
        told += f" since {local_time(basis['measured_since'], None)}"
    told += "."
    if basis["assumed_jobs"]:
        assumed = length(basis["assumed_seconds"] * 1000)
        told += f" {basis['assumed_jobs']} jobs without history are taken to last {assumed}."
    if basis["workflows"]:
        told += f" {basis['workflows']} workflows go as in one of their last runs each."
    if basis["assumed_workflows"]:
        told += f" Of {basis['assumed_workflows']} none is known: all of their conditions hold."
    if basis["executors_left_out"]:
        told += f" {basis['executors_left_out']} executors beside are left out."
    return told


def _is_worse(found: Item) -> bool:
    before, after = found["before"], found["after"]
    return (
        after["missed_deadlines"] > before["missed_deadlines"]
        or sum(after["skipped"].values()) > sum(before["skipped"].values())
        or any(job["starves"] for job in found["jobs"])
    )


def _both(tell: Any) -> Any:
    def told(found: Item) -> str:
        before, after = tell(found["before"]), tell(found["after"])
        return f"{before} → {after}" if before != after else f"{before}"

    return told


def _delay(name: str) -> Any:
    return lambda side: "-" if side is None or side[name] is None else length(side[name] * 1000)


def _of_job(name: str) -> Any:
    return lambda job: 0 if job is None else job[name]


def _job_id(job: Item) -> object:
    return "new" if job["job_id"] is None else job["job_id"]


_ROWS = (
    instant("from", "start"),
    instant("to", "end"),
    made("fires", _both(lambda side: side["fires"])),
    made("runs", _both(lambda side: side["runs"])),
    made("slots", _both(lambda side: side["slots"])),
    made("all slots in use", _both(lambda side: length(side["full_seconds"] * 1000))),
    made("most waiting", _both(lambda side: side["most_waiting"])),
    made("start delay, half of the runs", _both(_delay("start_delay_p50_seconds"))),
    made("start delay, 95 of 100", _both(_delay("start_delay_p95_seconds"))),
    made("the same if runs are slow", _both(_delay("slow_start_delay_p95_seconds"))),
    made("more than a minute late", _both(lambda side: side["late"])),
    made("skipped", _both(lambda side: sum(side["skipped"].values()))),
    made("deadlines missed", _both(lambda side: side["missed_deadlines"])),
    made("the same if runs are slow", _both(lambda side: side["slow_missed_deadlines"])),
)
_JOBS = (
    made("JOB", _job_id, right=True),
    text("NAME", "job_name"),
    number("GONE", "fires_gone"),
    number("NEW", "fires_new"),
    made("RUNS", _both(_of_job("runs"))),
    made("DELAY P95", _both(_delay("start_delay_p95_seconds"))),
    made("SKIPPED", _both(_of_job("skipped"))),
    made("MISSED", _both(lambda job: 0 if job is None else len(job["missed_deadlines"]))),
    made("STARVES", lambda job: "yes" if job["starves"] else ""),
)
_SPREAD = (
    made("JOB", _job_id, right=True),
    text("NAME", "job_name"),
    made("MINUTE", lambda each: f"{each['minute']} → {each['new_minute']}"),
    text("EXPRESSION", "expression"),
    made("OTHERS USE", lambda each: f"{each['busy_share']:.0%} → {each['new_busy_share']:.0%}"),
)
