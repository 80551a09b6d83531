"""What flags and files say: instants, lengths, parameters, documents, and a yes or no."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tickwheel_admin.cli.client.errors import UsageFailure

_LENGTH = re.compile(r"(\d{1,9})(s|m|h|d|w)?", re.ASCII)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]{1,80}")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, None: 1}


def seconds_of(text: str) -> int:
    """A length such as 90, 90s, 15m, 2h, 7d or 1w in seconds, as the type of a flag."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time such as 90s, 15m, 2h, 7d")
    return int(match[1]) * _SECONDS[match[2]]


def instant_of(text: str) -> str:
    """An instant, or a length before now, as the API takes it; as the type of a flag.

    Without an offset from UTC the time is that of this machine's zone.
    """
    if _LENGTH.fullmatch(text):
        before = datetime.now(UTC) - timedelta(seconds=seconds_of(text))
        return _iso(before)
    try:
        return _iso(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a length before now (2h, 7d) nor a date with a time, such as"
            " 2026-03-01T08:00"
        ) from None


def clock_or_instant(text: str) -> str:
    """The same; or the last time that the clocks of this machine showed a time such as 03:00."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return instant_of(text)
    now = datetime.now().astimezone()
    shown = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
    if shown > now:
        shown = (shown - timedelta(days=1)).replace(tzinfo=None).astimezone()
    return _iso(shown)


def key_of(text: str) -> str:
    """An `Idempotency-Key`, as the type of a flag."""
    if not _KEY.fullmatch(text):
        raise argparse.ArgumentTypeError("use 1 to 80 visible ASCII characters")
    return text


def parameters_of(whole: str | None, single: Sequence[str]) -> dict[str, Any] | None:
    """Parameters of a run: a JSON object or @FILE, with single ones over it; None: none.

    Each single one is `key=value`; a value that is JSON counts as that, any other one as a text.
    """
    if whole is None and not single:
        return None
    text = "{}" if whole is None else whole
    if text.startswith("@"):
        text = read_text(text[1:])
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageFailure(f"--parameters is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageFailure("--parameters must be a JSON object")
    for each in single:
        key, equals, value = each.partition("=")
        if not (key and equals):
            raise UsageFailure(f"-p {each!r}: write key=value")
        found[key] = _value(value)
    return found


def read_text(file: str) -> str:
    """The text of a file, or of the standard input for `-`."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageFailure(f"{file} is not text in UTF-8") from None
    except OSError as error:
        raise UsageFailure(f"{file} cannot be read: {error.strerror}") from None


def read_document(file: str) -> dict[str, Any]:
    """The object in a file of YAML or JSON."""
    return document_of(read_text(file), file)


def document_of(text: str, place: str) -> dict[str, Any]:
    """The object in a text of YAML or JSON; dates in it are texts."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Takes nothing but data, and a date as it is written."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in each if tag != "tag:yaml.org,2002:timestamp"]
        for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        found = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise UsageFailure(f"{place} is neither YAML nor JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageFailure(f"{place} must hold one object, with a field on each line")
    return found


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the user agrees; UsageFailure otherwise.

    Args:
        yes: they did so by a flag.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageFailure(f"{question} Give --yes if that is meant.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageFailure("nothing was changed")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _iso(moment: datetime) -> str:
    told = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return told.replace("+00:00", "Z")
