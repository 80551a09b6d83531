"""Jobs of Quartz as ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tickwheel_admin.domain.imports.foreign import ForeignJob
from tickwheel_admin.domain.imports.names import cleaned, shortened
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.imports.quartz.job_data import read_job_data
from tickwheel_admin.domain.imports.quartz.records import QuartzJob
from tickwheel_admin.domain.imports.quartz.triggers import (
    CalendarZones,
    NotCarried,
    map_trigger,
)
from tickwheel_admin.domain.input.job import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, MAX_TAG_CHARS

_DEFAULT_GROUP = "DEFAULT"
_RECOVERIES = 3  # tries after a node was lost; Quartz has no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartzRules:
    """What the tables do not say."""

    source: str  # names the scheduler
    known: CalendarZones
    handlers: Mapping[str, str] = field(default_factory=dict)  # names here, by class
    simple_names: bool = False  # whether other handlers are called as their class, without package


def map_quartz_job(job: QuartzJob, rules: QuartzRules) -> Iterator[ForeignJob]:
    """The job, and one more that cannot be had for each trigger that cannot."""
    label = job.name if job.group == _DEFAULT_GROUP else f"{job.group}.{job.name}"
    place = f"job {shortened(label)}" + (f", part {job.part}" if job.part > 1 else "")
    parameters, notes = read_job_data(job.data)
    described = [job.description]
    raws: list[Mapping[str, Any]] = []
    paused: list[int] = []
    for trigger in job.triggers:
        try:
            mapped = map_trigger(trigger, rules.known)
        except NotCarried as error:
            yield ForeignJob(
                source=rules.source,
                key=f"trigger\0{trigger.group}\0{trigger.name}",
                place=f"{place}, trigger {shortened(trigger.label)}",
                name="",
                reasons=(error.note,),
            )
            continue
        if mapped is None:
            text = f"trigger {trigger.label} fires no more, left out"
            notes.append(note("complete", text))
        elif mapped.raw in raws:
            text = f"trigger {trigger.label} fires as another one of the job does, left out"
            notes.append(note("duplicate", text))
        else:
            if mapped.is_paused:
                paused.append(len(raws))
            raws.append(mapped.raw)
            notes += mapped.notes
            if trigger.description:
                described.append(f"{trigger.label}: {trigger.description}")
    notes += _notes(job)
    yield ForeignJob(
        source=rules.source,
        key="\0".join((job.group, job.name, str(job.part))),
        place=place,
        name=_name(label, job.part),
        raw={
            "handler": _handler(job.class_name, rules),
            "description": "\n".join(each for each in described if each)[:MAX_DESCRIPTION_CHARS],
            "tags": _tags(job),
            "parameters": parameters,
            "blocking": "serial" if job.is_nonconcurrent else "parallel",
            "triggers": raws,
            **_recovery(job),
        },
        paused=tuple(paused),
        notes=tuple(notes),
    )


def _name(label: str, part: int) -> str:
    suffix = f" (part {part})" if part > 1 else ""
    return shortened(label, MAX_NAME_CHARS - len(suffix)) + suffix


def _handler(class_name: str, rules: QuartzRules) -> str:
    if class_name in rules.handlers:
        return rules.handlers[class_name]
    name = class_name.rpartition(".")[2] if rules.simple_names else class_name
    return cleaned(name)[:MAX_NAME_CHARS]


def _tags(job: QuartzJob) -> list[str]:
    tags = ["quartz"]
    group = shortened(job.group, MAX_TAG_CHARS)
    if job.group != _DEFAULT_GROUP and group and "," not in group:
        tags.append(group)
    return list(dict.fromkeys(tags))


def _recovery(job: QuartzJob) -> dict[str, Any]:
    if not job.requests_recovery:
        return {}
    return {"retries": _RECOVERIES, "retry_on": [], "retry_on_lost": True}


def _notes(job: QuartzJob) -> Iterator[ImportNote]:
    if job.keeps_data:
        text = "it keeps its data from run to run in Quartz; here a run keeps state: run.state"
        yield note("keeps_data", text)
    if job.requests_recovery:
        text = f"it is tried again when its node is lost, {_RECOVERIES} times; in Quartz always"
        yield note("recovery", text)
    if job.part > 1:
        text = "a job has 50 triggers here: the further ones belong to a job of their own"
        yield note("part", text)
