"""What executors answer to us, and what their words mean."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tickwheel_admin.xxl_job.dialects import json_text
from tickwheel_admin.xxl_job.dialects.log_pages import (
    WireLogPage,
    as_whole_log,
    cut_to,
    is_missing,
    missing_page,
    read_page,
    read_page_prefix,
)

OK = 200
_MAX_MESSAGE_CHARS = 4000


class BadAnswer(ValueError):
    """Not an answer of this protocol: it says nothing about what the executor did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireAnswer:
    """What an executor said."""

    code: int  # 200: done
    message: str
    log: WireLogPage | None


class Meaning(StrEnum):
    """What follows from an answer."""

    OK = "ok"
    HANDLER_UNKNOWN = "handler_unknown"  # it has no handler of that name
    BUSY = "busy"  # a run of this job is there, and the executor does not take another
    REPEATED = "repeated"  # it has this very logId in its queue: it took it before
    GLUE_UNSUPPORTED = "glue_unsupported"  # it cannot run scripts of this language
    TOKEN_WRONG = "token_wrong"  # noqa: S105 - or, in dialect C, the appname
    WRONG_PATH = "wrong_path"  # it speaks another dialect: try the other path
    SHAPE = "shape"  # it reads other JSON there: it speaks another dialect
    OTHER = "other"


# In this order, each at the beginning of the text: behind it stand names and parameters, in which
# anything may be written.
_MEANINGS = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (Meaning.HANDLER_UNKNOWN, r"(bean )?(job ?)?handler (\[.*\] |\S* )?(is )?not found"),
        (Meaning.HANDLER_UNKNOWN, r"task not registered"),  # Go
        (Meaning.HANDLER_UNKNOWN, r"no matched jobhandler"),  # Node
        (Meaning.BUSY, r"block strategy effect"),  # Java
        (Meaning.BUSY, r"job thread is running or has trigger queue"),
        (Meaning.BUSY, r"there are tasks running|task is busy"),  # Go
        (Meaning.BUSY, r"the same job \[.*discarded\.?$"),  # pyxxl
        (Meaning.BUSY, r"job -?\d+ is running"),
        (Meaning.BUSY, r"there is already have a same job is running|busy$"),  # Node
        (Meaning.REPEATED, r"repeate? trigger job"),
        (Meaning.GLUE_UNSUPPORTED, r"glue ?type\b.* (is )?not (valid|support)"),
        (Meaning.TOKEN_WRONG, r"the access token is wrong|access token incorrect"),
        (Meaning.TOKEN_WRONG, r"invalid request, accesstoken or appname"),
        (Meaning.WRONG_PATH, r"invalid request, uri-mapping\(.*not found"),
        (Meaning.SHAPE, r"[\w .:]*expected begin_"),
    )
)
_BY_CODE = {
    OK: Meaning.OK,
    401: Meaning.TOKEN_WRONG,
    403: Meaning.TOKEN_WRONG,
    404: Meaning.WRONG_PATH,
    405: Meaning.WRONG_PATH,
}
# In place of an answer of the protocol, from servers that the client is only mounted in.
_TELLING_STATUSES = frozenset(_BY_CODE) - {OK}


def read_answer(status: int, body: bytes) -> WireAnswer:
    """Read an answer of any client.

    Raises:
        BadAnswer: another status, an empty body, no JSON or no code in it. Whether the executor
            did what it was told is not known then.
    """
    if status in _TELLING_STATUSES:
        return WireAnswer(code=status, message=f"HTTP status {status}", log=None)
    if not 200 <= status < 300:
        raise BadAnswer(f"HTTP status {status}")
    if not body or body.isspace():
        raise BadAnswer("the answer is empty")
    try:
        content = json_text.read(body)
    except json_text.NotJson:
        raise BadAnswer("the answer is no JSON") from None
    if isinstance(content, list) and content:  # Go refuses a run in the form of a callback
        content = _from_callback(content[0])
    if not isinstance(content, dict):
        raise BadAnswer("the answer is no JSON object")
    code = json_text.whole_number(content.get("code"))
    if code is None:
        raise BadAnswer("the answer has no code")
    return WireAnswer(code=code, message=_message(code, content), log=_log(content))


def meaning(answer: WireAnswer) -> Meaning:
    """What follows from this answer."""
    found = _BY_CODE.get(answer.code)
    if found is not None:
        return found
    for kind, pattern in _MEANINGS:
        if pattern.match(answer.message):
            return kind
    return Meaning.OTHER


def read_log(
    status: int, body: bytes, *, from_line: int, truncated: bool = False, whole: bool = False
) -> WireLogPage:
    """The page that answers a request for the log from this line on.

    Args:
        status: of HTTP.
        body: what was read of the answer.
        from_line: that was asked for.
        truncated: whether there was more of it than we read.
        whole: whether the executor gives the log from its first line on, whatever was asked.

    Raises:
        BadAnswer: it is none, or a refusal for another reason than that there is no log.
    """
    if truncated and 200 <= status < 300:
        page = read_log_prefix(body, from_line)
        return cut_to(as_whole_log(page) if whole else page, from_line)
    answer = read_answer(status, body)
    if answer.log is not None:
        page = as_whole_log(answer.log) if whole else answer.log
        page = missing_page(from_line) if page.missing else cut_to(page, from_line)
        return replace(page, key=answer.log.key)
    if is_missing(answer.message):
        return missing_page(from_line)
    raise BadAnswer(f"no log came: {answer.message or answer.code}"[:300])


def read_log_prefix(body: bytes, from_line: int = 1) -> WireLogPage:
    """As many whole lines as are in the beginning of an answer that was too large to read.

    Args:
        body: the beginning.
        from_line: that was asked for.

    Raises:
        BadAnswer: nothing of the log is in it.
    """
    page = read_page_prefix(body, from_line)
    if page is None:
        raise BadAnswer("the answer is too large, and no log begins in it")
    return page


def _from_callback(element: Any) -> Any:
    if not isinstance(element, dict):
        return element
    result = element.get("executeResult")
    result = result if isinstance(result, dict) else {}
    return {
        "code": element.get("handleCode", result.get("code")),
        "msg": element.get("handleMsg", result.get("msg")),
    }


def _message(code: int, content: dict[str, Any]) -> str:
    texts = [
        text for key in ("msg", "content", "data") if isinstance(text := content.get(key), str)
    ]
    told = [text for text in texts if text]
    if not told:
        return ""
    # With 200, what is worth saying stands behind "Success".
    return json_text.storable(told[-1] if code == OK else told[0], _MAX_MESSAGE_CHARS)


def _log(content: dict[str, Any]) -> WireLogPage | None:
    for key in ("content", "data"):
        found = content.get(key)
        if isinstance(found, dict) and ("logContent" in found or "toLineNum" in found):
            return replace(read_page(found), key=key)
    return None
