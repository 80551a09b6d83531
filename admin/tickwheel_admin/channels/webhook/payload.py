"""What webhooks get: docs/alarm-webhook.schema.json is made from these structures.

The schema has a version. Fields are added within a version; none is removed or changes its meaning.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from tickwheel_admin.channels.text.cleaning import clean
from tickwheel_admin.channels.text.letter import Letter, LetterSection, fitted
from tickwheel_admin.channels.text.plain import plain_text
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.message import MAX_ENTRIES, AlarmEntry, AlarmMessage, Occasion
from tickwheel_admin.domain.fields import instant_to_iso, optional_iso

VERSION = 1
MAX_TEXT_CHARS = 20_000  # of the plain text; the alarms are there one by one as well

Instant = Annotated[
    str, msgspec.Meta(description="ISO 8601 in UTC", examples=["2026-03-29T01:15:00Z"])
]


class WebhookAlarm(msgspec.Struct, kw_only=True, frozen=True):
    """One alarm. Names and texts may hold any character: escape them for where you show them."""

    alarm_id: Annotated[int, msgspec.Meta(description="0 in a test message")]
    occasion: Annotated[Occasion, msgspec.Meta(description="why it is told now")]
    kind: Annotated[AlarmKind, msgspec.Meta(description="what is the matter")]
    severity: Severity
    title: Annotated[str, msgspec.Meta(description="occasion, kind and subject")]
    text: Annotated[str, msgspec.Meta(description="what is the matter, as a sentence")]
    own_text: Annotated[str, msgspec.Meta(description="the rule's own text; may have lines")]
    since: Instant
    last_at: Instant
    closed_at: Annotated[
        Instant | None, msgspec.Meta(description="null: it was open when this was sent")
    ]
    count: Annotated[int, msgspec.Meta(ge=1, description="how often it happened")]
    rule: str
    executor: str | None
    job: str | None
    owner: str | None
    run_id: Annotated[int | None, msgspec.Meta(description="of the newest run it is about")]
    error_line: str | None
    next_fire_at: Instant | None
    links: Annotated[
        dict[str, str],
        msgspec.Meta(
            description="URLs of pages: failure, run, log, retry, answer, job, executor, alarm"
        ),
    ]


class WebhookMessage(msgspec.Struct, kw_only=True, frozen=True):
    """A message: one alarm, or a digest of several."""

    version: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)]
    id: Annotated[
        str, msgspec.Meta(description="the same at each attempt; also the Idempotency-Key")
    ]
    written_at: Instant
    installation: str
    severity: Annotated[Severity, msgspec.Meta(description="the worst of its alarms")]
    subject: str
    text: Annotated[str, msgspec.Meta(description="all of it as plain text")]
    covered: Annotated[
        int, msgspec.Meta(ge=1, description="alarms it covers; those beyond 50 are not listed")
    ]
    link: Annotated[str, msgspec.Meta(description="URL of the page that lists all of them")]
    alarms: Annotated[list[WebhookAlarm], msgspec.Meta(min_length=1, max_length=MAX_ENTRIES)]


def payload(message: AlarmMessage, letter: Letter) -> WebhookMessage:
    """What is sent for a message."""
    return WebhookMessage(
        version=VERSION,
        id=message.id,
        written_at=instant_to_iso(message.written_at),
        installation=message.installation,
        severity=message.severity,
        subject=letter.subject,
        text=fitted(letter, plain_text, size=len, limit=MAX_TEXT_CHARS),
        covered=letter.covered,
        link=message.link,
        alarms=[
            _alarm(entry, section)
            for entry, section in zip(message.entries, letter.sections, strict=True)
        ],
    )


def schema() -> dict[str, Any]:
    """JSON Schema of what is sent, with everything in one document."""
    [found], parts = msgspec.json.schema_components([WebhookMessage], ref_template="#/$defs/{name}")
    name = found["$ref"].rpartition("/")[2]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **parts.pop(name),
        "title": f"Alarms of Tickwheel, version {VERSION}",
        "$defs": dict(sorted(parts.items())),
    }


def _alarm(entry: AlarmEntry, section: LetterSection) -> WebhookAlarm:
    return WebhookAlarm(
        alarm_id=entry.alarm_id,
        occasion=entry.occasion,
        kind=entry.kind,
        severity=entry.severity,
        title=section.title,
        text=section.sentence,
        own_text="\n".join(section.own_lines),
        since=instant_to_iso(entry.since),
        last_at=instant_to_iso(entry.last_at),
        closed_at=None if entry.closed_at is None else instant_to_iso(entry.closed_at),
        count=max(entry.count, 1),
        rule=entry.rule_name,
        executor=entry.executor_name,
        job=entry.job_name,
        owner=entry.owner,
        run_id=entry.run_id,
        error_line=None if entry.error_line is None else clean(entry.error_line),
        next_fire_at=optional_iso(entry.next_fire_at),
        links=dict(entry.links),
    )
