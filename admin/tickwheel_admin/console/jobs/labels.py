"""The configuration of a job in words: every field, as the job form calls it and says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.jobs.declared_labels import MONO, field_names, value_lines
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.jobs.job import JobConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One field and what it says."""

    field: str  # its name in the API
    name: str
    lines: Sequence[str]
    mono: bool
    says_nothing: bool  # the lines say what holds instead


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigGroup:
    """Fields that belong together, as in the form."""

    key: str
    heading: str
    rows: Sequence[ConfigRow]


def groups_of(config: JobConfig) -> list[ConfigGroup]:
    """Every field that applies to this job; one that it leaves open with what holds instead."""
    headings = (
        (
            "what",
            _("What"),
            (
                "name", "handler", "script", "workflow", "description", "owner", "tags",
                "parameters",
            ),
        ),
        ("when", _("When"), ("triggers",)),
        (
            "where",
            _("Where"),
            (
                "routing", "shards", "nodes", "selector", "hash_by", "priority", "pool",
                "pool_slots",
            ),
        ),
        (
            "overlap",
            _("If the one before still runs"),
            ("blocking", "concurrency", "max_waiting", "when_cut_off", "hold_lost_seconds"),
        ),
        (
            "wrong",
            _("If it goes wrong"),
            (
                "timeout_seconds", "start_within_seconds", "retries", "retry_delay_seconds",
                "retry_backoff", "retry_max_delay_seconds", "retry_jitter", "retry_on",
                "retry_on_lost",
            ),
        ),
        ("after", _("What runs afterwards"), ("children",)),
        ("alarms", _("Alarms"), ("alarms",)),
    )  # fmt: skip
    raw, names, open_ones = job_to_raw(config), field_names(), _when_open()
    groups = []
    for key, heading, fields in headings:
        rows = []
        for field in fields:
            lines = value_lines(field, raw[field])
            if not lines and field not in open_ones:
                continue  # it belongs to a choice that this job has not made
            if field.startswith("retry_") and not config.retry.retries:
                continue
            rows.append(
                ConfigRow(
                    field=field,
                    name=names[field],
                    lines=lines or [open_ones[field]],
                    mono=field in MONO and bool(lines),
                    says_nothing=not lines,
                )
            )
        groups.append(ConfigGroup(key=key, heading=heading, rows=rows))
    return groups


def skipped_job_text(code: str) -> str:
    """Why jobs were left alone when something was done with many; follows their number."""
    return {
        "job.managed_by_code": _("are declared in code"),
        "job.changed": _("were changed by somebody else meanwhile"),
        "too_many": _("would have too many tags"),
        "not_allowed": _("may not be changed by you"),
        "not_found": _("are not there any more"),
    }.get(code, code)


def _when_open() -> dict[str, str]:
    """What holds when a field says nothing."""
    none = _("none")
    return {
        "description": none,
        "owner": none,
        "tags": none,
        "parameters": none,
        "triggers": _("By hand only"),
        "selector": _("any"),
        "timeout_seconds": none,
        "start_within_seconds": _("any time"),
        "pool": none,
        "children": none,
        "alarms": _("none of its own"),
    }
