"""The types of inputs name the fields that the parsers read; each is written at one place only."""

from __future__ import annotations

from typing import Any

import pytest

from tickwheel_admin.api.alarms.shapes import NewChannelJson
from tickwheel_admin.api.calendars.shapes import CalendarConfigJson
from tickwheel_admin.api.jobs.config_types import JobConfigJson, ScriptConfigJson, StepConfigJson
from tickwheel_admin.api.pools.shapes import NewPoolJson
from tickwheel_admin.api.rule_types import AlarmRuleConfigJson, JobAlarmJson
from tickwheel_admin.domain.input.alarm_channel import CHANNEL_FIELDS
from tickwheel_admin.domain.input.alarm_rule import RULE_FIELDS
from tickwheel_admin.domain.input.calendar import CALENDAR_FIELDS
from tickwheel_admin.domain.input.job import JOB_FIELDS
from tickwheel_admin.domain.input.job_alarms import JOB_ALARM_FIELDS
from tickwheel_admin.domain.input.pool import POOL_FIELDS
from tickwheel_admin.domain.input.script import SCRIPT_FIELDS
from tickwheel_admin.domain.input.workflow_steps import STEP_FIELDS


@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        (JobConfigJson, JOB_FIELDS),
        (ScriptConfigJson, SCRIPT_FIELDS),
        (StepConfigJson, STEP_FIELDS),
        (JobAlarmJson, JOB_ALARM_FIELDS),
        (AlarmRuleConfigJson, RULE_FIELDS),
        (CalendarConfigJson, CALENDAR_FIELDS),
        (NewPoolJson, POOL_FIELDS),
        (NewChannelJson, CHANNEL_FIELDS),
    ],
)
def test_a_type_has_the_fields_that_its_parser_knows(type_: Any, fields: tuple[str, ...]) -> None:
    assert set(type_.__annotations__) == set(fields)
