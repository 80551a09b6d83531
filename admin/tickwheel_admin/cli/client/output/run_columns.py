"""How runs are shown in tables."""

from __future__ import annotations

from tickwheel_admin.cli.client.output.style import Style
from tickwheel_admin.cli.client.output.table import (
    Item,
    TableColumn,
    instant,
    made,
    number,
    optional,
    state,
    text,
)
from tickwheel_admin.cli.client.output.words import between, plain


def _took(item: Item, style: Style) -> str:
    return between(item["started_at"], item["ended_at"], style.now())


def job_of(item: Item) -> str:
    """`executor/job` of a run."""
    return f"{item['executor_name']}/{item['job_name']}"


TOOK = TableColumn(title="TOOK", cell=_took, right=True)
_MESSAGE = text("MESSAGE", "message", cuttable=True)

RUNS = (
    number("RUN", "id"),
    made("JOB", job_of, cuttable=True),
    state("STATE", "state"),
    optional(text("ORIGIN", "origin")),
    instant("SCHEDULED", "scheduled_at"),
    TOOK,
    optional(text("NODE", "node_name", cuttable=True)),
    _MESSAGE,
)
SHARDS = (
    number("SHARD", "shard_index"),
    number("RUN", "id"),
    state("STATE", "state"),
    TOOK,
    text("NODE", "node_name", cuttable=True),
    _MESSAGE,
)
ATTEMPTS = (
    number("ATTEMPT", "attempt"),
    state("STATE", "state"),
    instant("STARTED", "started_at"),
    TOOK,
    text("NODE", "node_name", cuttable=True),
    _MESSAGE,
)
ONE_RUN = (
    number("run", "id"),
    made("job", job_of),
    state("state", "state"),
    text("message", "message"),
    text("waits for", "why_waiting"),
    text("origin", "origin"),
    text("requested by", "requested_by"),
    instant("scheduled", "scheduled_at"),
    instant("due", "due_at"),
    instant("started", "started_at"),
    instant("ended", "ended_at"),
    TableColumn(title="took", cell=_took),
    text("attempt", "attempt"),
    text("node", "node_name"),
    text("why this node", "why_node"),
    made("progress", lambda run: _progress(run)),
    text("log lines", "log_lines"),
    text("revision", "job_revision"),
    text("retry of", "retry_of"),
    text("retried as", "retried_as.run_id"),
    text("parameters", "parameters"),
    text("result", "result"),
)


def _progress(run: Item) -> str | None:
    if run["progress"] is None:
        return None
    told = f"{run['progress']:.0%}"
    return f"{told} {plain(run['progress_text'])}" if run["progress_text"] else told
