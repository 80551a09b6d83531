"""Where a channel sends, in a few words that hold no secret."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from tickwheel_admin.domain.alarms.channel import ChannelKind


def destination(kind: ChannelKind, settings: Mapping[str, str], secrets: Mapping[str, str]) -> str:
    """Such as "ops@example.com +2" or "hooks.slack.com"; of Apprise only the service, "tgram".

    To be stored beside the channel when it is written, because nobody reads its secrets back.
    """
    if kind is ChannelKind.EMAIL:
        first, *others = settings.get("recipients", "").split("\n")
        return f"{first} +{len(others)}" if others else first
    url = settings.get("url") or secrets.get("url", "")
    if kind is ChannelKind.APPRISE:  # what stands where a host would stand may be a token
        return url.partition("://")[0]
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
