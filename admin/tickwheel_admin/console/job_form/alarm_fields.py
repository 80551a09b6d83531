"""The alarm rules of a job in its form, which carries them along: they are edited on the pages of
alarms, and in YAML.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tickwheel_admin.domain.alarms.job_alarm import JobAlarm
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.input.job_alarms import job_alarm_to_raw


def alarms_as_text(alarms: Sequence[JobAlarm]) -> str:
    """The value of the hidden field."""
    raw = [job_alarm_to_raw(alarm) for alarm in alarms]
    return json.dumps(raw, ensure_ascii=False) if raw else ""


def alarms_as_typed(text: str, problems: list[Problem]) -> Any:
    """What the field holds, to be read as any raw job; what is no JSON is noted."""
    if not text:
        return []
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        problems.append(
            Problem(
                field="alarms",
                code="json.invalid",
                template="The form was damaged on its way. Load the page again and repeat your"
                " change.",
            )
        )
        return []
