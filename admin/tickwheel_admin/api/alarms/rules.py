"""/api/v1/alarm-rules: who is told of what."""

from __future__ import annotations

from typing import cast

from aiohttp import web

from tickwheel_admin.api.alarms.shapes import AlarmRuleChangeJson, AlarmRuleJson
from tickwheel_admin.api.answers import NewVersionJson, PageJson, answer, page_view
from tickwheel_admin.api.inputs import ID, PAGING, page_of, path_id, query_fields, taken_id
from tickwheel_admin.api.rule_types import AlarmRuleConfigJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.alarm_rule import alarm_rule_to_raw
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.alarms.rules import AlarmRuleItem
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import optional_id
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/alarm-rules"
_EXECUTOR = optional_id("executor_id", "Rules about this executor and its jobs.")
_JOB = optional_id("job_id", "Rules about this job.")
_CHANGED = ("alarm_rule.changed", "alarm_rule.name_taken", "job.changed", "job.managed_by_code")
_ONE = f"{_ALL}/{{rule_id:{ID}}}"


@routes.get(
    _ALL,
    permission=Permission.VIEW,
    api=True,
    query=(_EXECUTOR, _JOB, *PAGING),
    answers=PageJson[AlarmRuleJson],
)
async def list_rules(request: web.Request) -> web.Response:
    """A page of rules."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    executor_id, job_id = _EXECUTOR.of(fields), _JOB.of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].alarm_rules.page(
        actor_of(request), executor_id=executor_id, job_id=job_id, cursor=cursor, limit=limit
    )
    return answer(page_view(page, rule_view))


@routes.post(
    _ALL,
    permission=Permission.DEVELOP,
    api=True,
    body=AlarmRuleConfigJson,
    answers=NewVersionJson,
    status=201,
    conflicts=(*_CHANGED, "alarm_rule.too_many", "alarm_rule.too_many_of_job"),
)
async def create_rule(request: web.Request) -> web.Response:
    """Add a rule."""
    rule_id = await request.app[SERVICES].alarm_rules.create(
        actor_of(request), await read_json(request)
    )
    return answer({"id": rule_id, "version": 1}, status=201, location=f"{_ALL}/{rule_id}")


@routes.get(_ONE, permission=Permission.VIEW, api=True, answers=AlarmRuleJson)
async def get_rule(request: web.Request) -> web.Response:
    """One rule."""
    item = await request.app[SERVICES].alarm_rules.get(
        actor_of(request), path_id(request, "rule_id")
    )
    return answer(rule_view(item))


@routes.put(
    _ONE,
    permission=Permission.DEVELOP,
    api=True,
    body=AlarmRuleChangeJson,
    answers=NewVersionJson,
    conflicts=_CHANGED,
)
async def update_rule(request: web.Request) -> web.Response:
    """Replace what a rule says."""
    rule_id = path_id(request, "rule_id")
    raw = await read_json(request)
    version = taken_id(raw, "version")
    version = await request.app[SERVICES].alarm_rules.update(
        actor_of(request), rule_id, raw, version=version
    )
    return answer({"id": rule_id, "version": version})


@routes.delete(
    _ONE,
    permission=Permission.DEVELOP,
    api=True,
    answers=NoContent,
    conflicts=("job.changed", "job.managed_by_code"),
)
async def delete_rule(request: web.Request) -> web.Response:
    """Delete a rule; its open alarms are closed."""
    await request.app[SERVICES].alarm_rules.delete(actor_of(request), path_id(request, "rule_id"))
    return web.Response(status=204)


def rule_view(item: AlarmRuleItem) -> AlarmRuleJson:
    return {
        "id": item.rule.id,
        "version": item.rule.version,
        "executor_name": item.executor_name,
        "job_name": item.job_name,
        "config": cast("AlarmRuleConfigJson", alarm_rule_to_raw(item.rule)),
    }
