"""The shape of alarms, rules, channels and messages in requests and answers."""

from __future__ import annotations

from typing import Annotated, NotRequired, Required, TypedDict

from msgspec import Meta

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.api.rule_types import AlarmRuleConfigJson
from tickwheel_admin.domain.alarms.channel import MAX_NAME_CHARS, ChannelKind
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.notification import NotificationState
from tickwheel_admin.web.input_fields import MAX_ID

_Version = Annotated[int, Meta(ge=1, le=MAX_ID, description="That the change is based on.")]


class AlarmJson(TypedDict):
    """What is or was the matter."""

    id: int
    kind: AlarmKind
    severity: Severity
    text: Annotated[str, doc("In the language of the request.")]
    rule_id: int | None
    rule_name: str | None
    executor_id: int | None
    executor_name: str | None
    job_id: int | None
    job_name: str | None
    failure_group_id: Annotated[
        int | None, doc("It speaks of this failure; job and run are the newest ones of it.")
    ]
    run_id: Annotated[int | None, doc("The newest run that it is about.")]
    count: int
    since: Instant | None
    last_at: Instant | None
    acknowledged_at: Instant | None
    acknowledged_by: str | None
    assigned_to: str | None
    muted_until: Instant | None
    escalated_at: Instant | None
    closed_at: Instant | None
    closed_by: Annotated[str | None, doc("Null: it is over, or its rule is gone.")]


class MessageOfAlarmJson(TypedDict):
    """A message that told of an alarm."""

    id: int
    channel_id: int
    channel_name: str | None
    state: NotificationState
    alarms: Annotated[int, doc("How many it tells of.")]
    written_at: Instant | None
    ended_at: Instant | None
    error: str | None


class AlarmDetailJson(AlarmJson):
    """An alarm with the messages that told of it."""

    assignees: Annotated[list[str], doc("Who may treat it, for whoever may.")]
    messages: list[MessageOfAlarmJson]


class AlarmRuleJson(TypedDict):
    """A rule: who is told of what."""

    id: int
    version: int
    executor_name: str | None
    job_name: str | None
    config: AlarmRuleConfigJson


class AlarmRuleChangeJson(AlarmRuleConfigJson, total=False):
    """What a rule shall be."""

    version: Required[_Version]


class NewChannelJson(TypedDict, total=False):
    """A channel to add."""

    name: Required[Annotated[str, Meta(max_length=MAX_NAME_CHARS)]]
    kind: Required[ChannelKind]
    language: Annotated[str | None, doc("Of its messages, such as `en`.")]
    time_zone: Annotated[str | None, doc("IANA name.")]
    per_minute: Annotated[int, Meta(ge=1, description="Messages.")] | None
    settings: Annotated[dict[str, str | None] | None, doc("As its kind has them.")]
    secrets: Annotated[
        dict[str, str | None] | None,
        doc("Only ever written. In a change, what is left out stays, and null forgets one."),
    ]


class ChannelChangeJson(NewChannelJson, total=False):
    """What a channel shall be."""

    version: Required[_Version]


class ChannelJson(TypedDict):
    """How people are told."""

    id: int
    version: int
    name: str
    kind: ChannelKind
    language: str
    time_zone: str
    per_minute: int
    enabled: bool
    settings: dict[str, str]
    secrets_set: Annotated[list[str], doc("Names of the secrets that are set.")]
    readable: Annotated[bool, doc("The admin that answers has the key.")]


class TriedChannelJson(TypedDict):
    """What the provider said to a test."""

    delivered: bool
    answer: str | None
    error: str | None


class MessageJson(TypedDict):
    """A message in the outbox."""

    id: int
    message_id: Annotated[str, doc("The same at each attempt.")]
    channel_id: int
    channel_name: str | None
    state: NotificationState
    alarms: Annotated[int, doc("How many it tells of.")]
    attempts: int
    written_at: Instant | None
    due_at: Annotated[Instant | None, doc("Of the next attempt.")]
    ended_at: Instant | None
    answer: str | None
    error: str | None


class CoveredAlarmJson(TypedDict):
    """An alarm that a message tells of."""

    alarm_id: int
    occasion: Occasion
    kind: AlarmKind | None
    job_id: int | None
    executor_id: int | None
    run_id: int | None


class MessageDetailJson(MessageJson):
    """A message with a page of what it covers."""

    covers: list[CoveredAlarmJson]
    next: NotRequired[str | None]
