"""Jobs and triggers as people and programs write them: field names, limits, defaults, and back.

`parse_job` notes every problem before it refuses; `job_to_raw` is its exact inverse. Revisions are
stored in the domain's own form (`config_to_json`), which needs no checking and so can be read again
however strict the rules for new input become.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.fields import (
    INVISIBLE_CHARACTER,
    Fields,
    as_seconds,
    checked_name,
    is_clean,
    raise_if_any,
)
from tickwheel_admin.domain.input.job_alarms import job_alarm_to_raw, read_job_alarms
from tickwheel_admin.domain.input.json_text import BadJson, normalized, text_of_object
from tickwheel_admin.domain.input.routing import ROUTING_FIELDS, read_routing, routing_to_raw
from tickwheel_admin.domain.input.run_rules import (
    BLOCKING_FIELDS,
    POOL_FIELDS,
    RETRY_FIELDS,
    blocking_to_raw,
    children_to_raw,
    pool_to_raw,
    read_blocking,
    read_children,
    read_pool,
    read_retry,
    retry_to_raw,
)
from tickwheel_admin.domain.input.script import (
    check_script_of_xxl_job,
    handler_with_script,
    read_script,
    script_to_raw,
)
from tickwheel_admin.domain.input.trigger import parse_trigger as parse_trigger
from tickwheel_admin.domain.input.trigger import read_trigger
from tickwheel_admin.domain.input.trigger import trigger_to_raw as trigger_to_raw
from tickwheel_admin.domain.input.workflow import (
    check_fields_of_workflow,
    handler_with_workflow,
    read_workflow,
    workflow_to_raw,
)
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import MARK
from tickwheel_admin.domain.names import normal_name, unseen_character
from tickwheel_admin.domain.planning.fires import merged_parameters
from tickwheel_admin.domain.runs.script import Script
from tickwheel_admin.domain.triggers.kinds import AnySpec
from tickwheel_admin.domain.triggers.trigger_json import all_fields
from tickwheel_admin.domain.workflows.graph import HANDLER
from tickwheel_shared.protocol import MAX_PARAMETERS_BYTES

JOB_FIELDS = (
    "name",
    "handler",
    "script",
    "workflow",
    "description",
    "owner",
    "tags",
    "parameters",
    *ROUTING_FIELDS,
    *BLOCKING_FIELDS,
    "priority",
    *POOL_FIELDS,
    "timeout_seconds",
    "start_within_seconds",
    *RETRY_FIELDS,
    "children",
    "alarms",
    "triggers",
)

MAX_NAME_CHARS = 200
MAX_DESCRIPTION_CHARS = 4_000
MAX_OWNER_CHARS = 100
MAX_TAGS = 20
MAX_TAG_CHARS = 50
MAX_TAGS_CHARS = 500  # joined with commas, as the column stores them
MAX_TRIGGERS = 50
MAX_TIMEOUT_MS = 604_800_000
MAX_START_WITHIN_MS = 604_800_000
_TAG_RULE = "A tag is a text of 1 to %(limit)d characters without commas."


def parse_job(raw: Mapping[str, Any], protocol: Protocol = Protocol.TICKWHEEL) -> JobConfig:
    """A job's configuration from a request.

    Args:
        protocol: of its executor.

    Raises:
        InvalidInput: with every problem found.
    """
    config, problems = read_job(raw, protocol)
    raise_if_any(problems)
    return config


def read_job(
    raw: Mapping[str, Any], protocol: Protocol = Protocol.TICKWHEEL
) -> tuple[JobConfig, list[Problem]]:
    """The same with every problem found; what breaks a rule is read as its default."""
    problems: list[Problem] = []
    fields = Fields(raw, "", problems)
    fields.only(JOB_FIELDS)
    config = JobConfig(
        name=fields.text("name", max_chars=MAX_NAME_CHARS, required=True, is_name=True),
        handler=_read_handler(fields, protocol),
        script=_read_script(fields, protocol),
        workflow=read_workflow(fields),
        description=fields.text("description", max_chars=MAX_DESCRIPTION_CHARS, lines=True),
        owner=fields.text("owner", max_chars=MAX_OWNER_CHARS, is_name=True),
        tags=_read_tags(fields),
        parameters=_read_parameters(fields),
        routing=read_routing(fields),
        blocking=read_blocking(fields, protocol),
        priority=fields.integer("priority", low=1, high=9, default=5),
        pool=read_pool(fields),
        timeout_ms=fields.seconds_as_ms("timeout_seconds", low_ms=1_000, high_ms=MAX_TIMEOUT_MS),
        start_within_ms=fields.seconds_as_ms(
            "start_within_seconds", low_ms=1_000, high_ms=MAX_START_WITHIN_MS
        ),
        retry=read_retry(fields),
        children=read_children(fields),
        alarms=read_job_alarms(fields),
        triggers=_read_triggers(fields),
    )
    check_fields_of_workflow(fields)
    if not problems:
        _check_merged_parameters(fields, config)
        _check_secrets_of_workflow(fields, config)
    return config, problems


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
        "script": script_to_raw(config.script),
        "workflow": workflow_to_raw(config.workflow),
        "description": config.description,
        "owner": config.owner,
        "tags": list(config.tags),
        "parameters": json.loads(config.parameters),
        **routing_to_raw(config.routing),
        **blocking_to_raw(config.blocking),
        "priority": config.priority,
        **pool_to_raw(config.pool),
        "timeout_seconds": _seconds(config.timeout_ms),
        "start_within_seconds": _seconds(config.start_within_ms),
        **retry_to_raw(config.retry),
        "children": children_to_raw(config.children),
        "alarms": [job_alarm_to_raw(alarm) for alarm in config.alarms],
        "triggers": [trigger_to_raw(spec) for spec in config.triggers],
    }


def changed_fields(before: JobConfig | None, after: JobConfig) -> dict[str, tuple[Any, Any]]:
    """What each field of the API said and says, for those that differ; None: nothing was there.

    A script is told by its hash, not by its source.
    """
    old = {} if before is None else job_to_raw(without_source(before))
    new = job_to_raw(without_source(after))
    return {name: (old.get(name), value) for name, value in new.items() if old.get(name) != value}


def without_source(config: JobConfig) -> JobConfig:
    """The same with its script known by the hash alone, as revisions are stored."""
    script, workflow = config.script, config.workflow
    if workflow is not None:
        config = dataclasses.replace(config, workflow=workflow.without_sources())
    if script is None or script.source is None:
        return config
    return dataclasses.replace(config, script=dataclasses.replace(script, source=None))


def config_to_json(config: JobConfig) -> str:
    """The form in which a revision is stored."""
    config = without_source(config)  # it is kept once
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    fields["triggers"] = [all_fields(spec) for spec in config.triggers]
    fields["script"] = script_to_raw(config.script)
    return msgspec.json.encode(fields).decode()


def config_from_json(text: str) -> JobConfig:
    """A stored revision; fields it does not know yet have their defaults."""
    return msgspec.json.decode(text, type=JobConfig)


def parse_tag(text: str, *, is_there: bool = False) -> str:
    """A tag, trimmed; unless it may be there since before that was asked for, in its one form.

    Raises:
        InvalidInput: of the field "tag".
    """
    tag = text.strip() if is_there else checked_name("tag", text)
    if _is_tag(tag):
        return tag
    raise InvalidInput.one("tag", "tag.invalid", _TAG_RULE, limit=MAX_TAG_CHARS)


def _is_tag(text: str) -> bool:
    return 0 < len(text) <= MAX_TAG_CHARS and "," not in text and is_clean(text)


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
        text = normal_name(tag) if isinstance(tag, str) else ""
        if (unseen := unseen_character(text)) is not None and is_clean(text):
            fields.refuse(
                f"tags[{index}]", "invisible_character", INVISIBLE_CHARACTER, character=unseen
            )
            continue
        if _is_tag(text):
            if text not in tags:
                tags.append(text)
            continue
        fields.refuse(f"tags[{index}]", "tag.invalid", _TAG_RULE, limit=MAX_TAG_CHARS)
    if len(",".join(tags)) > MAX_TAGS_CHARS:
        fields.refuse(
            "tags", "too_long", "At most %(limit)d characters in all, please.", limit=MAX_TAGS_CHARS
        )
    return tuple(tags)


def _read_handler(fields: Fields, protocol: Protocol) -> str:
    required = not fields.has("script") and not fields.has("workflow")
    handler = fields.text(
        "handler", max_chars=MAX_NAME_CHARS, required=required, is_name=True, exact=True
    )
    if fields.has("workflow") or handler == HANDLER:
        return handler_with_workflow(fields, handler)
    return handler_with_script(fields, handler, protocol)


def _read_script(fields: Fields, protocol: Protocol) -> Script | None:
    if not fields.has("script"):
        return None
    script = read_script(fields.raw["script"], fields.where("script"), fields.problems)
    if script is not None and protocol is Protocol.XXL_JOB:
        check_script_of_xxl_job(fields, script)
    return script


def _read_parameters(fields: Fields) -> str:
    if not fields.has("parameters"):
        return "{}"
    try:
        return text_of_object(fields.raw["parameters"])
    except BadJson as error:
        fields.refuse("parameters", error.code, error.template, **error.params)
        return "{}"


def _read_triggers(fields: Fields) -> tuple[AnySpec, ...]:
    if not fields.has("triggers"):
        return ()
    value = fields.raw["triggers"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse("triggers", "wrong_type", "This must be a list of triggers.")
        return ()
    if len(value) > MAX_TRIGGERS:
        fields.refuse("triggers", "too_many", "At most %(limit)d, please.", limit=MAX_TRIGGERS)
        return ()
    specs: dict[AnySpec, int] = {}
    for index, raw in enumerate(value):
        path = fields.where(f"triggers[{index}]")
        spec = read_trigger(Fields(raw, path, fields.problems))
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


def _check_merged_parameters(fields: Fields, config: JobConfig) -> None:
    """A run gets the job's parameters with the trigger's over them: they must fit together."""
    for index, spec in enumerate(config.triggers):
        if spec.parameters is None:
            continue
        merged = merged_parameters(config.parameters, spec.parameters)
        if len(merged.encode()) > MAX_PARAMETERS_BYTES:
            fields.refuse(
                f"triggers[{index}].parameters",
                "json.too_large",
                "Together with the job's parameters this is larger than %(limit)d KiB.",
                limit=MAX_PARAMETERS_BYTES // 1024,
            )


def _check_secrets_of_workflow(fields: Fields, config: JobConfig) -> None:
    """They would reach the steps as the text that names them."""
    if config.workflow is None:
        return
    given = {"parameters": config.parameters} | {
        f"triggers[{index}].parameters": spec.parameters or ""
        for index, spec in enumerate(config.triggers)
    }
    for field, text in given.items():
        if MARK in text:
            fields.refuse(
                field,
                "workflow.secret",
                "A workflow takes no secrets: name them in the parameters of its steps.",
            )


def _seconds(ms: int | None) -> int | float | None:
    return None if ms is None else as_seconds(ms)
