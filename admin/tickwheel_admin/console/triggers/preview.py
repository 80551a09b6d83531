"""What a trigger that is being typed would do: in words, with its next fires."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.formatting import instant
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.frame.units import FormFields
from tickwheel_admin.console.triggers.fire_lines import fire_lines
from tickwheel_admin.console.triggers.form import TriggerCard, cards_as_sent
from tickwheel_admin.console.triggers.labels import details, dialect_choices, schedule_text
from tickwheel_admin.console.triggers.values import read_card
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron import parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.triggers.service import Disagreement
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

SHOWN_FIRES = 6

routes = Routes()


@routes.get("/jobs/preview", permission=Permission.DEVELOP)
async def preview_schedule(request: web.Request) -> web.Response:
    """A broken rule is no error of the request: people are in the middle of typing."""
    set_locale(request)
    cards = cards_as_sent(request.query)
    if not cards:
        return web.Response()
    card = cards[0]
    try:
        context = await _preview(request, FormFields(values=card.values, problems=[]))
    except InvalidInput as error:
        context = {
            "problem": error.problems[0],
            "expression": card["expression"],
            "dialect_id": card.id_of("dialect"),
            "dialects": _other_dialects(card),
        }
    return await render(request, "triggers/preview.html", context)


def _other_dialects(card: TriggerCard) -> list[tuple[str, str]]:
    """Dialects in which what was typed as Unix cron says something: (value, name)."""
    if card["kind"] != CronSpec.kind or card["dialect"] != Dialect.UNIX:
        return []
    if len(card["expression"].split()) not in (6, 7):
        return []
    names = dict(dialect_choices())
    found = []
    for dialect in (Dialect.QUARTZ, Dialect.SPRING):
        try:
            parse_cron(card["expression"], dialect)
        except ScheduleError:
            continue
        found.append((dialect.value, names[dialect.value]))
    return found


async def _preview(request: web.Request, typed: FormFields) -> dict[str, Any]:
    """Raises InvalidInput like `Triggers.preview`, also for what cannot even be read."""
    raw = read_card(typed)
    if typed.problems:
        raise InvalidInput(typed.problems)
    found = await request.app[SERVICES].triggers.preview(raw, n=SHOWN_FIRES, translate=_)
    return {
        "problem": None,
        "words": schedule_text(found.spec),
        "zone": found.spec.timezone,
        "details": [*_without(found.spec), *details(found.spec)],
        "lines": fire_lines(found.spec, found.fires, found.removed),
        "delay": _delay_text(found.spec),
        "second_opinion": _second_opinion(found.disagreement),
    }


def _without(spec: TriggerSpec) -> list[str]:
    if spec.calendar is None:
        return []
    return [_("Without what the calendar “%(calendar)s” takes away") % {"calendar": spec.calendar}]


def _delay_text(spec: TriggerSpec) -> str | None:
    """A fixed delay has no next fires before its runs have ended."""
    if not isinstance(spec, FixedDelaySpec):
        return None
    if spec.initial_delay_ms == 0:
        return _("The first run begins as soon as the job is saved.")
    return _("The first run begins this long after the job is saved.")


def _second_opinion(found: Disagreement | None) -> str | None:
    if found is None:
        return None
    never = _("never")
    return _(
        "Another cron library, croniter, says %(theirs)s where this says %(ours)s: %(why)s"
    ) % {
        "theirs": never if found.theirs is None else instant(found.theirs),
        "ours": never if found.ours is None else instant(found.ours),
        "why": _(found.why),
    }
