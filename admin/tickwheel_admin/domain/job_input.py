"""Jobs and triggers as people and programs write them: field names, limits, defaults, and back.

`parse_job` notes every problem before it refuses; `job_to_raw` is its exact inverse. Revisions are
stored in the domain's own form (`config_to_json`), which needs no checking and so can be read again
however strict the rules for new input become.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tickwheel_admin.domain import schedule
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, as_seconds, instant_to_iso, is_clean, raise_if_any
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.json_text import BadJson, normalized, text_of_object
from tickwheel_admin.domain.retry import RetryPolicy
from tickwheel_admin.domain.routing import Routing
from tickwheel_admin.domain.schedule import ScheduleError
from tickwheel_admin.domain.trigger import (
    MAX_EVERY_MS,
    MIN_EVERY_MS,
    MisfirePolicy,
    TriggerKind,
    TriggerSpec,
)

JOB_FIELDS = (
    "name",
    "handler",
    "description",
    "owner",
    "tags",
    "parameters",
    "routing",
    "priority",
    "timeout_seconds",
    "retries",
    "retry_delay_seconds",
    "retry_backoff",
    "retry_max_delay_seconds",
    "retry_on_lost",
    "triggers",
)
TRIGGER_FIELDS: dict[TriggerKind, tuple[str, ...]] = {
    TriggerKind.CRON: ("kind", "expression", "dialect", "timezone", "misfire"),
    TriggerKind.FIXED_RATE: ("kind", "every_seconds", "anchor_at", "misfire"),
    TriggerKind.ONCE: ("kind", "at", "misfire"),
}

MAX_NAME_CHARS = 200
MAX_DESCRIPTION_CHARS = 4_000
MAX_OWNER_CHARS = 100
MAX_TAGS = 20
MAX_TAG_CHARS = 50
MAX_TAGS_CHARS = 500  # joined with commas, as the column stores them
MAX_TRIGGERS = 50
MAX_EXPRESSION_CHARS = 500
MAX_TIMEOUT_MS = 604_800_000
MAX_RETRIES = 100
MAX_RETRY_DELAY_MS = 86_400_000
_FACTORS = {"exponential": 2.0, "fixed": 1.0}
_DEFAULT_RETRY = RetryPolicy()


def parse_job(raw: Mapping[str, Any]) -> JobConfig:
    """A job's configuration from a request.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    fields = Fields(raw, "", problems)
    fields.only(JOB_FIELDS)
    config = JobConfig(
        name=fields.text("name", max_chars=MAX_NAME_CHARS, required=True),
        handler=fields.text("handler", max_chars=MAX_NAME_CHARS, required=True),
        description=fields.text("description", max_chars=MAX_DESCRIPTION_CHARS, lines=True),
        owner=fields.text("owner", max_chars=MAX_OWNER_CHARS),
        tags=_read_tags(fields),
        parameters=_read_parameters(fields),
        routing=fields.member("routing", Routing, default=Routing.ROUND_ROBIN),
        priority=fields.integer("priority", low=1, high=9, default=5),
        timeout_ms=fields.seconds_as_ms("timeout_seconds", low_ms=1_000, high_ms=MAX_TIMEOUT_MS),
        retry=_read_retry(fields),
        triggers=_read_triggers(fields),
    )
    raise_if_any(problems)
    return config


def parse_trigger(raw: object, path: str = "") -> TriggerSpec:
    """One trigger from a request, its schedule proven to be computable.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    spec = _read_trigger(Fields(raw, path, problems))
    raise_if_any(problems)
    assert spec is not None  # noqa: S101 - nothing is refused without a problem
    return spec


def parse_parameters(text: str, *, field: str = "parameters") -> str:
    """Parameters typed as JSON text, in compact form; raises InvalidInput on `field`."""
    problems: list[Problem] = []
    result = "{}"
    try:
        result = normalized(text)
    except BadJson as error:
        problems.append(
            Problem(field=field, code=error.code, template=error.template, params=error.params)
        )
    raise_if_any(problems)
    return result


def job_to_raw(config: JobConfig) -> dict[str, Any]:
    """What `parse_job` reads as this configuration; every field is named."""
    return {
        "name": config.name,
        "handler": config.handler,
        "description": config.description,
        "owner": config.owner,
        "tags": list(config.tags),
        "parameters": json.loads(config.parameters),
        "routing": config.routing.value,
        "priority": config.priority,
        "timeout_seconds": None if config.timeout_ms is None else as_seconds(config.timeout_ms),
        "retries": config.retry.retries,
        "retry_delay_seconds": as_seconds(config.retry.delay_ms),
        "retry_backoff": "fixed" if config.retry.factor == 1.0 else "exponential",
        "retry_max_delay_seconds": as_seconds(config.retry.max_delay_ms),
        "retry_on_lost": config.retry.on_lost,
        "triggers": [trigger_to_raw(spec) for spec in config.triggers],
    }


def trigger_to_raw(spec: TriggerSpec) -> dict[str, Any]:
    """What `parse_trigger` reads as this specification."""
    raw: dict[str, Any] = {"kind": spec.kind.value}
    match spec.kind:
        case TriggerKind.CRON:
            raw["expression"] = spec.expression
            raw["dialect"] = spec.dialect
            raw["timezone"] = spec.timezone
        case TriggerKind.FIXED_RATE:
            raw["every_seconds"] = as_seconds(spec.every_ms or 0)
            raw["anchor_at"] = None if spec.anchor_at is None else instant_to_iso(spec.anchor_at)
        case TriggerKind.ONCE:
            raw["at"] = instant_to_iso(spec.at or 0)
    raw["misfire"] = spec.misfire.value
    return raw


def config_to_json(config: JobConfig) -> str:
    """The form in which a revision is stored."""
    return msgspec.json.encode(config).decode()


def config_from_json(text: str) -> JobConfig:
    """A stored revision; fields it does not know yet have their defaults."""
    return msgspec.json.decode(text, type=JobConfig)


def _read_tags(fields: Fields) -> tuple[str, ...]:
    if not fields.has("tags"):
        return ()
    value = fields.raw["tags"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse("tags", "wrong_type", "This must be a list of texts.")
        return ()
    if len(value) > MAX_TAGS:
        fields.refuse("tags", "too_many", "At most %(limit)d, please.", limit=MAX_TAGS)
        return ()
    tags: list[str] = []
    for index, tag in enumerate(value):
        text = tag.strip() if isinstance(tag, str) else ""
        if 0 < len(text) <= MAX_TAG_CHARS and "," not in text and is_clean(text):
            if text not in tags:
                tags.append(text)
            continue
        fields.refuse(
            f"tags[{index}]",
            "tag.invalid",
            "A tag is a text of 1 to %(limit)d characters without commas.",
            limit=MAX_TAG_CHARS,
        )
    if len(",".join(tags)) > MAX_TAGS_CHARS:
        fields.refuse(
            "tags", "too_long", "At most %(limit)d characters in all, please.", limit=MAX_TAGS_CHARS
        )
    return tuple(tags)


def _read_parameters(fields: Fields) -> str:
    if not fields.has("parameters"):
        return "{}"
    try:
        return text_of_object(fields.raw["parameters"])
    except BadJson as error:
        fields.refuse("parameters", error.code, error.template, **error.params)
        return "{}"


def _read_retry(fields: Fields) -> RetryPolicy:
    delay_ms = fields.seconds_as_ms("retry_delay_seconds", low_ms=0, high_ms=MAX_RETRY_DELAY_MS)
    max_ms = fields.seconds_as_ms("retry_max_delay_seconds", low_ms=0, high_ms=MAX_TIMEOUT_MS)
    if delay_ms is not None and max_ms is not None and max_ms < delay_ms:
        fields.refuse(
            "retry_max_delay_seconds",
            "out_of_range",
            "The longest delay must not be shorter than the first one, %(delay)s seconds.",
            delay=as_seconds(delay_ms),
        )
    if delay_ms is None:
        delay_ms = _DEFAULT_RETRY.delay_ms if max_ms is None else min(max_ms, 10_000)
    backoff = fields.choice("retry_backoff", tuple(_FACTORS), default="exponential")
    return RetryPolicy(
        retries=fields.integer("retries", low=0, high=MAX_RETRIES, default=0),
        delay_ms=delay_ms,
        factor=_FACTORS[backoff],
        max_delay_ms=max(_DEFAULT_RETRY.max_delay_ms, delay_ms) if max_ms is None else max_ms,
        on_lost=fields.boolean("retry_on_lost", default=_DEFAULT_RETRY.on_lost),
    )


def _read_triggers(fields: Fields) -> tuple[TriggerSpec, ...]:
    if not fields.has("triggers"):
        return ()
    value = fields.raw["triggers"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse("triggers", "wrong_type", "This must be a list of triggers.")
        return ()
    if len(value) > MAX_TRIGGERS:
        fields.refuse("triggers", "too_many", "At most %(limit)d, please.", limit=MAX_TRIGGERS)
        return ()
    specs: dict[TriggerSpec, int] = {}
    for index, raw in enumerate(value):
        path = fields.where(f"triggers[{index}]")
        spec = _read_trigger(Fields(raw, path, fields.problems))
        if spec is None:
            continue
        if spec in specs:
            fields.refuse(
                f"triggers[{index}]",
                "duplicate",
                "This is the same as trigger %(number)d; every fire would happen twice.",
                number=specs[spec] + 1,
            )
        specs.setdefault(spec, index)
    return tuple(specs)


def _read_trigger(fields: Fields) -> TriggerSpec | None:
    """The trigger, or None when a problem was noted."""
    before = len(fields.problems)
    if not fields.has("kind"):
        if not fields.is_object:
            return None
        fields.refuse("kind", "required", "This is required.")
        return None
    kind = fields.member("kind", TriggerKind, default=TriggerKind.CRON)
    if len(fields.problems) > before:
        return None  # which fields there may be is not known
    fields.only(TRIGGER_FIELDS[kind])
    misfire = fields.member("misfire", MisfirePolicy, default=MisfirePolicy.FIRE_ONCE)
    match kind:
        case TriggerKind.CRON:
            spec = TriggerSpec(
                kind=kind,
                expression=fields.text("expression", max_chars=MAX_EXPRESSION_CHARS, required=True),
                dialect=fields.choice("dialect", ("unix",), default="unix"),
                timezone=fields.text("timezone", max_chars=100, default="UTC"),
                misfire=misfire,
            )
        case TriggerKind.FIXED_RATE:
            spec = TriggerSpec(
                kind=kind,
                every_ms=_required(
                    fields,
                    "every_seconds",
                    fields.seconds_as_ms(
                        "every_seconds", low_ms=MIN_EVERY_MS, high_ms=MAX_EVERY_MS
                    ),
                ),
                anchor_at=fields.instant("anchor_at"),
                misfire=misfire,
            )
        case TriggerKind.ONCE:
            spec = TriggerSpec(
                kind=kind, at=_required(fields, "at", fields.instant("at")), misfire=misfire
            )
    if len(fields.problems) > before:
        return None
    return spec if _is_computable(spec, fields) else None


def _required(fields: Fields, name: str, value: int | None) -> int | None:
    if not fields.has(name):
        fields.refuse(name, "required", "This is required.")
    return value


def _is_computable(spec: TriggerSpec, fields: Fields) -> bool:
    try:
        schedule.parse(spec, saved_at=0)
    except ScheduleError as error:
        fields.refuse(error.field, f"{spec.kind.value}.invalid", error.template, **error.params)
        return False
    return True
