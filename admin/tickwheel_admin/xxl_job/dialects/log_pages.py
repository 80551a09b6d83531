"""Pages of a run's log, whichever client counted the lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tickwheel_admin.xxl_job.dialects import json_text

# What clients write in place of a page when they have no log of that run. Real lines end with a
# line feed or begin with a time, so that none is equal to these.
_MISSING = frozenset(
    (
        "readLog fail, logFile not exists",  # Java, PHP
        "readLog fail, logFile not found",
        "No such logid logs.",  # pyxxl
    )
)
_MISSING_REFUSAL = re.compile(r"log not found, logid", re.IGNORECASE)  # Node, with code 500
_NUMBER = rb'"%s"\s*:\s*"?(\d{1,15})'
_FROM, _CONTENT = re.compile(_NUMBER % b"fromLineNum"), re.compile(rb'"logContent"\s*:\s*"')
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+')
_STRING = msgspec.json.Decoder(str)
_MAX_LINE = (1 << 53) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLogPage:
    """Some lines of a log."""

    from_line: int  # of the first line here, counted from 1
    to_line: int  # of the last; from_line - 1 when there is none: the next page begins behind it
    content: str
    is_end: bool  # as the executor says it; Java's is false on every page
    missing: bool  # the executor has no log of this run, so that it has not begun there
    truncated: bool = False  # the answer was cut
    key: str = ""  # under which it stood in the answer: content or data; "": it is not known


def read_page(found: dict[str, Any]) -> WireLogPage:
    """The page in an answer's content or data; lines are counted again where it miscounts."""
    content = found.get("logContent")
    content = json_text.storable(content) if isinstance(content, str) else ""
    from_line = _line(found.get("fromLineNum"))
    is_end = found.get("isEnd") in (True, "true")
    if content in _MISSING:
        return missing_page(from_line)
    told = _line(found.get("toLineNum"), least=0) - from_line + 1
    if content.startswith("\n") and told == line_count(content) - 1:
        content = content[1:]  # the client in Node begins each page with a line feed
    if is_end and 0 < told + from_line - 1 < from_line:
        # Go's default handler answers the same line whatever is asked for, as line 2 and the last.
        content = ""
    # Beyond the end pyxxl gives the asked line as the last, and Java 0 or the number of lines.
    count = line_count(content)
    count = told if 0 < told < count else count
    return WireLogPage(
        from_line=from_line,
        to_line=from_line + count - 1,
        content=content,
        is_end=is_end,
        missing=False,
    )


def as_whole_log(page: WireLogPage) -> WireLogPage:
    """The page of an executor that gives the log from its first line on each time."""
    if page.missing:
        return page
    return replace(page, from_line=1, to_line=line_count(page.content))


def missing_page(from_line: int) -> WireLogPage:
    """There is no log."""
    return WireLogPage(
        from_line=from_line, to_line=from_line - 1, content="", is_end=True, missing=True
    )


def is_missing(message: str) -> bool:
    """Whether a refusal says that there is no log."""
    return _MISSING_REFUSAL.match(message) is not None


def cut_to(page: WireLogPage, from_line: int) -> WireLogPage:
    """Without lines that were read before: some executors give the whole log each time."""
    extra = from_line - page.from_line
    if extra <= 0 or page.missing:
        return page
    lines = page.content.split("\n", extra)
    rest = lines[extra] if len(lines) > extra else ""
    return replace(
        page, from_line=from_line, to_line=max(page.to_line, from_line - 1), content=rest
    )


def read_page_prefix(body: bytes, from_line: int) -> WireLogPage | None:
    """The whole lines of a page whose answer was cut; None: it was cut before its content.

    Args:
        body: the beginning of the answer.
        from_line: of the first line, where the answer does not tell it in time.

    A single line that is longer than what was read is given as far as it goes, and counts as
    read: else nobody would ever come past it.
    """
    begin = _CONTENT.search(body)
    if begin is None:
        return None
    number = _FROM.search(body, 0, begin.start())
    from_line = _line(int(number[1])) if number else from_line
    text = _text_of(body[begin.end() :])
    lines, feed, _ = text.rpartition("\n")
    content = lines + feed if feed and lines else text
    # A line feed at the beginning may be Node's: it is not counted, so that a line may come
    # twice, and none is left out.
    count = line_count(content.removeprefix("\n"))
    return WireLogPage(
        from_line=from_line,
        to_line=from_line + max(count, 1) - 1,
        content=json_text.storable(content),
        is_end=False,
        missing=False,
    )


def _text_of(body: bytes) -> str:
    """The JSON string up to its end or to where it was cut."""
    found = _IN_STRING.match(body)
    text = found[0] if found else b""
    end = len(text)
    # Cut between two halves of a pair or inside a character, the first part says nothing.
    text = re.sub(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\Z", b"", text)
    text = text.decode(errors="ignore" if end == len(body) else "replace").encode()
    try:
        return str(json_text.read(b'"' + text + b'"', _STRING))
    except json_text.NotJson:
        return text.decode(errors="replace")


def line_count(content: str) -> int:
    """How many lines these are, the last one with or without its line feed."""
    return content.count("\n") + (content != "" and not content.endswith("\n"))


def _line(value: object, *, least: int = 1) -> int:
    number = json_text.whole_number(value)
    return min(max(number if number is not None else least, least), _MAX_LINE)
