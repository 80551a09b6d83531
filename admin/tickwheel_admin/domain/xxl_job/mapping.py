"""A job of XXL-JOB as one of ours: the form that the API takes, and what had to be said about it.

Both the import, which reads XXL-JOB's tables, and whoever answers XXL-JOB's own job API come here
with `XxlJobFields`. Nothing is guessed: what cannot be carried over is a reason, and what is
carried over differently is a remark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.imports.names import cleaned, shortened
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.input.job import (
    MAX_NAME_CHARS,
    MAX_OWNER_CHARS,
    MAX_TIMEOUT_MS,
    job_to_raw,
    read_job,
)
from tickwheel_admin.domain.input.run_rules import MAX_RETRIES
from tickwheel_admin.domain.jobs.secret_references import as_text
from tickwheel_admin.domain.names import normal_name
from tickwheel_admin.domain.runs.script import HANDLER, MAX_REMARK_CHARS
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.xxl_job.glue import BEAN, LANGUAGES
from tickwheel_admin.domain.xxl_job.job_fields import XxlJobFields
from tickwheel_admin.domain.xxl_job.records import ScheduleType

ROUTING = {
    "FIRST": "first",
    "LAST": "last",
    "ROUND": "round_robin",
    "RANDOM": "random",
    "CONSISTENT_HASH": "consistent_hash",
    "LEAST_FREQUENTLY_USED": "least_frequently_used",
    "LEAST_RECENTLY_USED": "least_recently_used",
    "FAILOVER": "failover",
    "BUSYOVER": "busy_over",
    "SHARDING_BROADCAST": "broadcast",
}
BLOCKING = {
    "SERIAL_EXECUTION": "serial",
    "DISCARD_LATER": "discard_later",
    "COVER_EARLY": "cover_early",
}
MISFIRE = {"DO_NOTHING": "skip", "FIRE_ONCE_NOW": "fire_once"}
_RETRY_SECONDS = 10  # XXL-JOB looks for failed runs so often


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedJob:
    """A job in our form."""

    raw: Mapping[str, Any]  # as `POST …/jobs` takes it, every field named; without children
    children: tuple[int, ...]  # XXL-JOB's ids, as written: `link_children` says which can be had
    notes: tuple[ImportNote, ...]  # what is different here
    reasons: tuple[ImportNote, ...]  # why it cannot be had; then `raw` is not to be used


def map_job(
    fields: XxlJobFields,
    *,
    cron_zone: str,
    their_id: int | None = None,
    now: int | None = None,
) -> MappedJob:
    """The job in our form.

    Args:
        cron_zone: in which its cron expression is read.
        their_id: its id there, kept as a tag; None: it comes from nowhere.
        now: UTC epoch ms; a schedule that never fires after it is left out. None: not looked at.
    """
    notes: list[ImportNote] = []
    reasons: list[ImportNote] = []
    raw: dict[str, Any] = {
        "name": _name(fields.name, their_id, notes),
        "handler": fields.handler,
        "owner": _owner(fields.author, notes),
        "tags": [] if their_id is None else [f"xxl-job:{their_id}"],
        "parameters": {"param": as_text(fields.param)} if fields.param else {},
        "routing": _routing(fields, reasons),
        "blocking": _blocking(fields, notes),
        "triggers": _triggers(fields, cron_zone, notes, reasons),
        **_limits(fields, notes),
    }
    if fields.glue_type != BEAN:
        script = _script(fields, notes, reasons)
        if script is not None:
            raw |= {"handler": HANDLER, "script": script}
    elif not fields.handler:
        reasons.append(note("no_handler", "it names no handler"))
    if fields.alarm_emails:
        mails = ", ".join(fields.alarm_emails)
        notes.append(note("alarm_mail", f"alarm mails are not imported ({shortened(mails)})"))
    children, wrong = _child_ids(fields.child_job_ids)
    notes += wrong
    config, problems = read_job(raw, Protocol.XXL_JOB)
    if not any(each.code in ("glue", "no_handler") for each in reasons):
        reasons += [_of_problem(each) for each in problems]
    elif problems:
        reasons += [_of_problem(each) for each in problems if each.field != "handler"]
    if not problems:
        if now is not None and config.triggers and _is_over(config.triggers[0], now):
            notes.append(
                note(
                    "never_fires",
                    f"“{shortened(fields.schedule_conf)}” never fires again; no trigger",
                )
            )
            config = replace(config, triggers=())
        raw = job_to_raw(config)
    raw.pop("children", None)
    return MappedJob(
        raw=raw,
        children=children,
        notes=tuple(notes),
        reasons=tuple({each.text: each for each in reasons}.values()),
    )


# --- fields --------------------------------------------------------------------------------------


def _script(
    fields: XxlJobFields, notes: list[ImportNote], reasons: list[ImportNote]
) -> dict[str, str] | None:
    language = LANGUAGES.get(fields.glue_type)
    kind = shortened(fields.glue_type)
    if language is None:
        reasons.append(note("glue", f"it is a script in a language that is not known ({kind})"))
        return None
    if fields.glue_source is None:
        reasons.append(note("glue", f"it is a script ({kind}), and scripts are not added this way"))
        return None
    notes.append(note("script", f"it is a script in {language}, and goes on running there"))
    remark = cleaned(fields.glue_remark)[:MAX_REMARK_CHARS]
    return {"language": language, "source": fields.glue_source, "remark": remark}


def _name(text: str, their_id: int | None, notes: list[ImportNote]) -> str:
    name = cleaned(text)
    if not name and their_id is not None:
        notes.append(note("no_name", "it has no name"))
        return f"XXL-JOB {their_id}"
    if len(name) > MAX_NAME_CHARS:
        notes.append(note("name_cut", f"its name is cut to {MAX_NAME_CHARS} characters"))
        return name[: MAX_NAME_CHARS - 1].rstrip() + "…"
    if name != normal_name(text):
        notes.append(note("name_cleaned", "its name had characters that nobody sees"))
    return name


def _owner(text: str, notes: list[ImportNote]) -> str:
    owner = cleaned(text)
    if len(owner) > MAX_OWNER_CHARS:
        notes.append(note("author_cut", f"its author is cut to {MAX_OWNER_CHARS} characters"))
    return owner[:MAX_OWNER_CHARS]


def _routing(fields: XxlJobFields, reasons: list[ImportNote]) -> str:
    routing = ROUTING.get(fields.route_strategy)
    if routing is None:
        strategy = shortened(fields.route_strategy)
        reasons.append(note("route_strategy", f"its route strategy “{strategy}” is not known"))
        return "round_robin"
    return routing


def _blocking(fields: XxlJobFields, notes: list[ImportNote]) -> str:
    blocking = BLOCKING.get(fields.block_strategy)
    if blocking is None:  # which is what executors do
        strategy = shortened(fields.block_strategy)
        notes.append(
            note("block_strategy", f"its block strategy “{strategy}” is not known: serial")
        )
        return "serial"
    return blocking


def _limits(fields: XxlJobFields, notes: list[ImportNote]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    longest = MAX_TIMEOUT_MS // 1_000
    if fields.timeout_seconds > 0:
        limits["timeout_seconds"] = min(fields.timeout_seconds, longest)
    if fields.timeout_seconds > longest:
        notes.append(note("timeout_cut", f"its timeout is cut to {longest:,} seconds, a week"))
    if fields.retries > 0:
        limits |= {
            "retries": min(fields.retries, MAX_RETRIES),
            "retry_delay_seconds": _RETRY_SECONDS,
            "retry_backoff": "fixed",
        }
    if fields.retries > MAX_RETRIES:
        notes.append(note("retries_cut", f"its retries are cut to {MAX_RETRIES}"))
    return limits


def _triggers(
    fields: XxlJobFields, cron_zone: str, notes: list[ImportNote], reasons: list[ImportNote]
) -> list[dict[str, Any]]:
    conf = fields.schedule_conf
    match fields.schedule_type:
        case ScheduleType.NONE:
            return []
        case ScheduleType.CRON:
            trigger: dict[str, Any] = {
                "kind": "cron",
                "expression": conf,
                "dialect": "quartz",
                "timezone": cron_zone,
            }
        case ScheduleType.FIX_RATE:
            if not (conf.isascii() and conf.isdigit() and len(conf) < 10):
                text = f"“{shortened(conf)}” is not a number of seconds"
                reasons.append(note("fix_rate", text))
                return []
            trigger = {"kind": "fixed_rate", "every_seconds": int(conf)}
        case _:
            text = f"its schedule type “{shortened(fields.schedule_type)}” is not known"
            reasons.append(note("schedule_type", text))
            return []
    misfire = MISFIRE.get(fields.misfire_strategy)
    if misfire is None and fields.misfire_strategy:
        strategy = shortened(fields.misfire_strategy)
        notes.append(
            note("misfire_strategy", f"its misfire strategy “{strategy}” is not known: skip")
        )
    return [trigger | {"misfire": misfire or "skip"}]


def _child_ids(text: str) -> tuple[tuple[int, ...], list[ImportNote]]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    good = [part for part in parts if part.isascii() and part.isdigit() and len(part) < 19]
    bad = [part for part in parts if part not in good]
    notes = [note("child_unknown", f"child “{shortened(each)}” is no id, left out") for each in bad]
    return tuple(dict.fromkeys(int(part) for part in good)), notes


def _is_over(spec: Any, now: int) -> bool:
    try:
        return parse(spec, saved_at=now).next_after(now) is None
    except ScheduleError:
        return False


# --- texts ---------------------------------------------------------------------------------------


def _of_problem(problem: Problem) -> ImportNote:
    field = problem.field.removeprefix("triggers[0].")
    return note(problem.code, f"{field}: {problem.message}".rstrip("."))
