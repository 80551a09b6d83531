"""`tickwheel job`: see jobs, add, change and delete them, run and pause them."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import names
from tickwheel_admin.cli.client.editing import edited
from tickwheel_admin.cli.client.groups import job_bulk, job_coverage
from tickwheel_admin.cli.client.groups.job_filter import add_filter, filter_of
from tickwheel_admin.cli.client.inputs import read_document, read_text
from tickwheel_admin.cli.client.output.job_columns import (
    JOBS,
    ONE_JOB,
    RECENT,
    REVISIONS,
    TRIGGERS,
)
from tickwheel_admin.cli.client.output.printer import Subtable
from tickwheel_admin.cli.client.registration import Invocation, add_command, add_group, add_limit
from tickwheel_admin.cli.client.starting import add_start_flags, start

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EXAMPLES = """\
  tickwheel job list --executor billing --view failing
  tickwheel job show billing/report
  tickwheel job create --executor billing -f report.yaml
  tickwheel job edit billing/report            in $EDITOR; or with -f FILE
  tickwheel job run billing/report -p month=3 --wait
  tickwheel job pause billing/report billing/reminders
  tickwheel job pause --tag nightly --all-matching
  tickwheel job history billing/report
  tickwheel job coverage billing/report --from 30d
  tickwheel job export --executor billing > billing.yaml

JOB is an id, `executor/job`, or a name alone if only one job has it.
"""
_SORTS = ("name", "-name", "-changed", "next_fire", "-duration", "-failure_rate")


def register(subparsers: Subparsers) -> None:
    """Add the group."""
    group = add_group(
        subparsers, "job", told="see, add, change, run and delete jobs", examples=_EXAMPLES
    )
    command = add_command(group, "list", _list, told="list jobs by name")
    add_filter(command)
    command.add_argument("--sort", choices=_SORTS, default="name", help="(default: name)")
    add_limit(command)
    _add_job(add_command(group, "show", _show, told="show one with its triggers"))
    command = add_command(group, "create", _create, told="add the jobs of a file", more=_CREATE)
    command.add_argument("-f", "--file", required=True, help="YAML, or - for the standard input")
    command.add_argument("--executor", required=True, metavar="EXECUTOR", help="whose jobs")
    command = add_command(group, "edit", _edit, told="change one", more=_EDIT)
    _add_job(command)
    command.add_argument("-f", "--file", help="YAML or JSON of the whole job, instead of $EDITOR")
    command.add_argument(
        "--revision", type=int, metavar="N", help="refuse if the job is at another one by now"
    )
    command = add_command(group, "run", start, told="start a run; the same as `run start`")
    _add_job(command)
    add_start_flags(command)
    job_bulk.register(group)
    job_coverage.register(group)
    command = add_command(group, "history", _history, told="list the revisions of one")
    _add_job(command)
    add_limit(command)
    command = add_command(group, "roll-back", _roll_back, told="make an earlier revision current")
    _add_job(command)
    command.add_argument("revision", type=int, help="the revision to go back to")
    command = add_command(
        group, "export", _export, told="print some as YAML", more=_EXPORT, output=False
    )
    command.add_argument("jobs", metavar="JOB", nargs="*", help="which (default: by the filter)")
    add_filter(command)


_CREATE = """\
The file is what `job export` prints: a document for each job, with --- between them. Either all
jobs are added or none; what is wrong is told with its line.

example:
  tickwheel job create --executor billing -f - <<'END'
  name: report
  handler: report
  triggers:
    - kind: cron
      expression: 0 7 * * 1-5
      timezone: Europe/Berlin
  END
"""
_EDIT = """\
What the file leaves out gets its default. If somebody else changes the job meanwhile, the change is
refused, and your text stays in a file.
"""
_EXPORT = """\
examples:
  tickwheel job export billing/report > report.yaml
  tickwheel job export --tag nightly > nightly.yaml
"""


def _add_job(command: argparse.ArgumentParser) -> None:
    command.add_argument("job", help="its id, `executor/job`, or its name if that is unique")


def _list(call: Invocation) -> None:
    found = call.api.pages("/jobs", most=call.args.limit, sort=call.args.sort, **filter_of(call))
    call.printer.items(found, JOBS, none="There is no such job.")


def _show(call: Invocation) -> None:
    job = call.api.get(f"/jobs/{names.job_id(call.api, call.args.job)}")
    call.printer.one(
        job,
        ONE_JOB,
        sections=[
            Subtable(title="triggers", items=job["triggers"], columns=TRIGGERS),
            Subtable(title="recent runs", items=job["recent_runs"][::-1], columns=RECENT),
        ],
    )


def _create(call: Invocation) -> None:
    executor = names.executor_id(call.api, call.args.executor)
    text = read_text(call.args.file)
    answer = b"".join(
        call.api.text(
            "POST", "/jobs/import", text, content_type="application/yaml", executor_id=executor
        )
    )
    made: dict[str, Any] = json.loads(answer)
    told = ", ".join(str(each) for each in made["jobs"])
    call.printer.done(f"Added: job {told}.", made)


def _edit(call: Invocation) -> None:
    job_id = names.job_id(call.api, call.args.job)
    job = call.api.get(f"/jobs/{job_id}")
    revision = call.args.revision or job["revision"]
    path = f"/jobs/{job_id}"
    if call.args.file:
        config = read_document(call.args.file)
        made = call.api.put(path, {**config, "revision": revision})
    else:
        made = edited(
            job["config"],
            name=f"job-{job_id}",
            again=f"tickwheel job edit {job_id} --revision {revision} -f",
            save=lambda config: call.api.put(path, {**config, "revision": revision}),
        )
    if made is None:
        call.printer.done("Nothing was changed.", {"id": job_id, "revision": revision})
    else:
        call.printer.done(f"Job {job_id} is at revision {made['revision']} now.", made)


def _history(call: Invocation) -> None:
    job_id = names.job_id(call.api, call.args.job)
    found = call.api.pages(f"/jobs/{job_id}/revisions", most=call.args.limit)
    call.printer.items(found, REVISIONS, none="It has no revisions.")


def _roll_back(call: Invocation) -> None:
    job_id = names.job_id(call.api, call.args.job)
    current = call.api.get(f"/jobs/{job_id}")["revision"]
    body = {"to": call.args.revision, "revision": current}
    made = call.api.post(f"/jobs/{job_id}/roll-back", body)
    call.printer.done(f"Job {job_id} is at revision {made['revision']} now.", made)


def _export(call: Invocation) -> None:
    if call.args.jobs:
        chosen: dict[str, Any] = {"jobs": [names.job_id(call.api, each) for each in call.args.jobs]}
    else:
        given = filter_of(call)
        chosen = {"filter": {name: value for name, value in given.items() if value is not None}}
    call.printer.pieces(call.api.text("POST", "/jobs/export", chosen))
