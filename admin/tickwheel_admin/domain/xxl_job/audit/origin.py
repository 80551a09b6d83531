"""Why a run of XXL-JOB was started: told by the first line of its `trigger_msg`.

That line is “label：name of the trigger type” in the language of the admin (English, simplified or
traditional Chinese). Only words of the name are looked for, so that another label or an admin whose
texts were adapted is understood as well.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache


class RowOrigin(StrEnum):
    """What started a run."""

    SCHEDULE = "schedule"  # its instant had come
    MISFIRE = "misfire"  # its instant was more than 5 s ago, FIRE_ONCE_NOW
    MANUAL = "manual"  # a person in the console
    PARENT = "parent"  # the end of another job
    API = "api"  # a program
    RETRY = "retry"  # a run that failed before
    UNKNOWN = "unknown"  # the message is empty, cut off, or in other words


BY_SCHEDULE = (RowOrigin.SCHEDULE, RowOrigin.MISFIRE)

_WORDS = (  # the first that occurs counts
    (RowOrigin.RETRY, ("retry", "重试", "重試")),
    (RowOrigin.MISFIRE, ("misfire", "过期", "過期")),
    (RowOrigin.PARENT, ("parent", "父任")),
    (RowOrigin.MANUAL, ("manual", "手动", "手動")),
    (RowOrigin.API, ("api",)),
    (RowOrigin.SCHEDULE, ("cron",)),
)
_TAG = re.compile(r"<[^>]*>?|&\w+;")


@lru_cache(maxsize=1_000)
def origin_of(trigger_head: str) -> RowOrigin:
    """From the first line of `trigger_msg`."""
    line = _TAG.sub(" ", re.split(r"<br|\n", trigger_head, maxsplit=1)[0])
    _label, colon, name = line.replace("：", ":").partition(":")
    if not colon:
        return RowOrigin.UNKNOWN
    name = name.casefold()
    return next(
        (origin for origin, words in _WORDS if any(word in name for word in words)),
        RowOrigin.UNKNOWN,
    )
