"""Rules of alarms: listed, made, edited, switched and deleted."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.alarms.rule_form import (
    AlarmRuleForm,
    form_of_rule,
    new_rule_form,
    rule_form_as_sent,
    rule_of_form,
)
from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import done_or_back, go_to, render
from tickwheel_admin.console.frame.units import problems_at_fields, whole_number
from tickwheel_admin.console.frame.zone_choices import zone_choices
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.alarms.rules import AlarmRuleItem
from tickwheel_admin.services.lists.paging import MAX_LIMIT
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

PER_PAGE = 100
RULES = "/alarms/rules"
RULE = f"{RULES}/{{rule_id:[0-9]{{1,18}}}}"

routes = Routes()


@routes.get(RULES, permission=Permission.VIEW)
async def list_rules(request: web.Request) -> web.Response:
    actor = actor_of(request)
    executor_id = whole_number(request.query.get("executor"))
    job_id = whole_number(request.query.get("job"))
    page = await request.app[SERVICES].alarm_rules.page(
        actor,
        executor_id=executor_id,
        job_id=job_id,
        cursor=request.query.get("cursor"),
        limit=PER_PAGE,
    )
    return await render(
        request,
        "alarms/rules.html",
        {
            "items": page.items,
            "next_cursor": page.next,
            "executor_id": executor_id,
            "job_id": job_id,
        },
    )


@routes.get(f"{RULES}/new", permission=Permission.DEVELOP)
async def show_new(request: web.Request) -> web.Response:
    return await _form_page(request, new_rule_form(request.query))


@routes.post(f"{RULES}/new", permission=Permission.DEVELOP)
async def create_rule(request: web.Request) -> web.Response:
    form = rule_form_as_sent(await read_form(request))
    try:
        await request.app[SERVICES].alarm_rules.create(actor_of(request), rule_of_form(form))
    except (InvalidInput, Conflict) as error:
        return await _form_page(request, form.refused(problems_at_fields(error)), error=error)
    response = go_to(request, RULES)
    set_flash(response, "alarm.rule_created")
    return response


@routes.get(RULE, permission=Permission.DEVELOP)
async def show_edit(request: web.Request) -> web.Response:
    item = await _item(request)
    return await _form_page(request, form_of_rule(item.rule), item=item)


@routes.post(RULE, permission=Permission.DEVELOP)
async def save_rule(request: web.Request) -> web.Response:
    item = await _item(request)
    form = rule_form_as_sent(await read_form(request))
    try:
        await request.app[SERVICES].alarm_rules.update(
            actor_of(request),
            item.rule.id,
            rule_of_form(form),
            version=whole_number(form["version"]) or 0,
        )
    except (InvalidInput, Conflict) as error:
        return await _form_page(
            request, form.refused(problems_at_fields(error)), item=item, error=error
        )
    response = go_to(request, RULES)
    set_flash(response, "alarm.rule_saved")
    return response


@routes.post(f"{RULE}/switch", permission=Permission.DEVELOP)
async def switch_rule(request: web.Request) -> web.Response:
    enabled = (await read_form(request)).get("enabled") == "on"
    await request.app[SERVICES].alarm_rules.set_enabled(
        actor_of(request), _id(request), enabled=enabled
    )
    code = "alarm.rule_on" if enabled else "alarm.rule_off"
    return done_or_back(request, RULES, code, topics=("alarms",))


@routes.get(f"{RULE}/delete", permission=Permission.DEVELOP)
async def ask_delete(request: web.Request) -> web.Response:
    return await render(request, "alarms/rule_delete.html", {"item": await _item(request)})


@routes.post(f"{RULE}/delete", permission=Permission.DEVELOP)
async def delete_rule(request: web.Request) -> web.Response:
    await request.app[SERVICES].alarm_rules.delete(actor_of(request), _id(request))
    return done_or_back(request, RULES, "alarm.rule_deleted", topics=("alarms",))


async def _form_page(
    request: web.Request,
    form: AlarmRuleForm,
    *,
    item: AlarmRuleItem | None = None,
    error: InvalidInput | Conflict | None = None,
) -> web.Response:
    services, actor = request.app[SERVICES], actor_of(request)
    job_id = whole_number(form["job_id"])
    job_name = None if item is None else item.job_name
    if item is None and job_id is not None:
        job_name = (await services.jobs.get(actor, job_id)).item.job.config.name
    executors = await services.executors.names(actor)
    is_conflict = isinstance(error, Conflict) and not form.problems
    alike = [] if item is not None else await _alike(request, form)
    return await render(
        request,
        "alarms/rule_form.html",
        {
            "form": form,
            "item": item,
            "alike": alike,
            "job_name": job_name,
            "executors": [each for each in executors if actor.may(Permission.DEVELOP, each.id)],
            "may_all": actor.may(Permission.ADMINISTER),
            "channels": await services.alarm_channels.names(actor),
            "calendars": await services.calendars.names(actor),
            "zones": zone_choices(form["timezone"] or None),
            "quiet_zones": zone_choices(form["quiet_timezone"] or None),
            "conflict": error if is_conflict else None,
        },
        status=200 if error is None else error.status,
        block=None if error is None else "form",
    )


async def _alike(request: web.Request, form: AlarmRuleForm) -> list[AlarmRuleItem]:
    """Rules of the same kind about the same place: each of them would open an alarm of its own."""
    page = await request.app[SERVICES].alarm_rules.page(actor_of(request), limit=MAX_LIMIT)
    place = (form["kind"], form["scope"], form["executor_id"], form["job_id"], form["tag"])
    return [
        each
        for each in page.items
        if place
        == (
            each.rule.kind.value,
            each.rule.scope.value,
            str(each.rule.executor_id or ""),
            str(each.rule.job_id or ""),
            each.rule.tag or "",
        )
    ]


async def _item(request: web.Request) -> AlarmRuleItem:
    return await request.app[SERVICES].alarm_rules.get(actor_of(request), _id(request))


def _id(request: web.Request) -> int:
    return int(request.match_info["rule_id"])
