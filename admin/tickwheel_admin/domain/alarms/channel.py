"""A channel: one way to tell people of alarms, and what it needs for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAX_NAME_CHARS = 100
MAX_PER_MINUTE = 600  # messages that a channel may be allowed in a minute


class ChannelKind(StrEnum):
    """How a channel sends. The values are stored, and part of the API."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    DINGTALK = "dingtalk"
    WECOM = "wecom"
    FEISHU = "feishu"
    SLACK = "slack"
    TEAMS = "teams"
    APPRISE = "apprise"  # any service that Apprise knows, by its URL


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel as its sender gets it: secrets are readable here and must not be printed."""

    id: int
    name: str
    kind: ChannelKind
    language: str  # of its messages: one of web.i18n.LANGUAGES
    time_zone: str  # in which its messages tell instants: an IANA name
    # What its kind needs, by field; the fields of each kind are in `channels.kinds`.
    settings: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
