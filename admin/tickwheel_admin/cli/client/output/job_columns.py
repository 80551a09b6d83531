"""How jobs are shown in tables."""

from __future__ import annotations

from tickwheel_admin.cli.client.output.run_columns import TOOK
from tickwheel_admin.cli.client.output.table import (
    Item,
    duration,
    instant,
    made,
    number,
    optional,
    state,
    text,
)
from tickwheel_admin.cli.client.output.words import plain


def name_of(item: Item) -> str:
    """`executor/job`."""
    return f"{item['executor_name']}/{item['config']['name']}"


def _ratio(item: Item) -> str | None:
    ended = item["recent_ended"]
    return f"{item['recent_succeeded']}/{ended}" if ended else None


def _schedule(item: Item) -> str:
    """What its triggers say, shortly."""
    told = []
    for trigger in item["config"].get("triggers") or ():
        if trigger.get("every_seconds"):
            told.append(f"every {trigger['every_seconds']} s")
        else:
            told.append(f"{trigger['kind']} {trigger.get('expression') or ''}".rstrip())
    return ", ".join(told)


JOBS = (
    number("ID", "id"),
    made("JOB", name_of, cuttable=True),
    optional(text("HANDLER", "config.handler", cuttable=True)),
    optional(made("SCHEDULE", _schedule, cuttable=True)),
    text("PAUSED", "paused"),
    instant("NEXT FIRE", "next_fire_at"),
    state("LAST RUN", "last_run.state"),
    optional(made("OK", _ratio, right=True)),
    optional(duration("USUALLY", "usual_duration_ms")),
)
ONE_JOB = (
    number("job", "id"),
    made("name", name_of),
    text("description", "config.description"),
    text("handler", "config.handler"),
    text("owner", "config.owner"),
    text("tags", "config.tags"),
    text("revision", "revision"),
    text("managed by code", "managed"),
    text("paused", "paused"),
    instant("executor paused", "executor_paused_at"),
    instant("everything paused", "everything_paused_at"),
    instant("next fire", "next_fire_at"),
    made("recent runs", lambda job: _ratio(job) and f"{_ratio(job)} succeeded"),
    duration("usually takes", "usual_duration_ms"),
    text("routing", "config.routing"),
    text("blocking", "config.blocking"),
    text("timeout", "config.timeout_seconds"),
    text("retries", "config.retries"),
    text("pool", "config.pool"),
    text("parameters", "config.parameters"),
)
TRIGGERS = (
    number("TRIGGER", "id"),
    text("KIND", "spec.kind"),
    made("SAYS", lambda trigger: _said(trigger["spec"]), cuttable=True),
    state("STATE", "state"),
    text("PAUSED", "paused"),
    instant("NEXT FIRE", "next_fire_at"),
    instant("LAST FIRE", "last_fire_at"),
    number("FIRES", "fires"),
)
RECENT = (
    number("RUN", "id"),
    state("STATE", "state"),
    instant("SCHEDULED", "scheduled_at"),
    TOOK,
)
REVISIONS = (
    number("REVISION", "revision"),
    instant("AT", "at"),
    text("BY", "by"),
    made("CHANGES", lambda item: _changes(item), cuttable=True),
)


def _said(spec: Item) -> str:
    left_out = ("kind", "parameters", "misfire", "misfire_threshold_seconds")
    told = {
        name: value
        for name, value in spec.items()
        if name not in left_out and value not in (None, "", 0, {}, [])
    }
    return ", ".join(f"{name} {plain(value)}" for name, value in told.items())


def _changes(item: Item) -> str:
    return ", ".join(
        f"{each['field']}: {plain(each['before'])} → {plain(each['after'])}"
        for each in item["changes"]
    )
