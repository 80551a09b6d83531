"""The types of inputs name the fields that the parsers read; each is written at one place only."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from tickwheel_admin.api.alarms.shapes import NewChannelJson
from tickwheel_admin.api.calendars.shapes import CalendarConfigJson
from tickwheel_admin.api.jobs.config_types import JobConfigJson, ScriptConfigJson, StepConfigJson
from tickwheel_admin.api.pools.shapes import NewPoolJson
from tickwheel_admin.api.rule_types import AlarmRuleConfigJson, JobAlarmJson
from tickwheel_admin.api.trigger_types import Trigger
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.alarm_channel import CHANNEL_FIELDS
from tickwheel_admin.domain.input.alarm_rule import RULE_FIELDS
from tickwheel_admin.domain.input.calendar import CALENDAR_FIELDS
from tickwheel_admin.domain.input.job import JOB_FIELDS
from tickwheel_admin.domain.input.job_alarms import JOB_ALARM_FIELDS
from tickwheel_admin.domain.input.pool import POOL_FIELDS
from tickwheel_admin.domain.input.script import SCRIPT_FIELDS
from tickwheel_admin.domain.input.trigger import parse_trigger
from tickwheel_admin.domain.input.workflow_steps import STEP_FIELDS
from tickwheel_admin.domain.triggers.kinds import KINDS


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_trigger_s_type_requires_what_its_parser_requires(kind: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_trigger({"kind": kind})
    missing = {each.field for each in caught.value.problems if each.code == "required"}
    (type_,) = [each for each in get_args(Trigger) if each.__struct_config__.tag == kind]
    _, types = msgspec.json.schema_components([type_])
    assert set(types[type_.__name__]["required"]) == {"kind"} | missing
