"""No answer or error that is told, stored or logged holds a secret of its channel."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from tickwheel_admin.channels.text.cleaning import clean
from tickwheel_admin.domain.alarms.channel import Channel

MAX_TOLD_CHARS = 500
HIDDEN = "***"
_SHORTEST = 6  # a shorter part of a URL is a word that tells nothing


def told(text: str, channel: Channel) -> str:
    """What somebody answered, in one line of at most 500 characters, without the secrets."""
    text = text[: 4 * MAX_TOLD_CHARS]
    for secret in sorted(_hidden(channel), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return clean(text, MAX_TOLD_CHARS)


def _hidden(channel: Channel) -> set[str]:
    found: set[str] = set()
    for value in channel.secrets.values():
        parts = {value, *value.splitlines()}
        if "://" in value:
            parts.update(_parts_of_url(value))
        parts.update(line.partition(":")[2].strip() for line in value.splitlines())
        parts.update(word for line in value.splitlines() for word in line.split())
        found.update(part for part in parts if len(part) >= _SHORTEST)
    found |= {unquote(each) for each in found} | {quote(each, safe="") for each in found}
    return {each for each in found if len(each) >= _SHORTEST}


def _parts_of_url(url: str) -> Iterator[str]:
    """Everything of a URL that may be a token: all but its scheme and host."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    yield parts.path
    yield from parts.path.split("/")
    yield parts.query
    for _, value in parse_qsl(parts.query):
        yield value
    user, at, _ = parts.netloc.rpartition("@")
    if at:
        yield user
        yield from user.split(":")
    if parts.scheme not in ("http", "https"):
        yield parts.netloc  # of Apprise's URLs: a token as well
