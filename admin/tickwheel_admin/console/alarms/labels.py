"""Words and icons for alarms, their rules, channels and messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import message_text
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.domain.alarms import labels
from tickwheel_admin.domain.alarms.alarm import Alarm, page_to_answer
from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.domain.alarms.channel_fields import CHANNEL_KINDS
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.labels import KIND_TITLES, OCCASION_TITLES, SEVERITY_TITLES
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.notification import NotificationState
from tickwheel_admin.domain.alarms.rule import RULE_KINDS, RuleLimits, RuleScope
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.input.job_alarms import read_job_alarms
from tickwheel_admin.services.alarms.rules import AlarmRuleItem
from tickwheel_admin.web.i18n import translate


def kind_title(kind: AlarmKind) -> str:
    """What is the matter, in a few words."""
    return _(KIND_TITLES[kind])


def kind_choices() -> list[tuple[str, str]]:
    """(value, words) of every kind that a rule may have."""
    return [(kind.value, kind_title(kind)) for kind in RULE_KINDS]


def severity_title(severity: Severity) -> str:
    """How bad it is."""
    return _(SEVERITY_TITLES[severity])


def severity_choices() -> list[tuple[str, str]]:
    """(value, words) of every severity."""
    return [(severity.value, severity_title(severity)) for severity in Severity]


def calendar_choices(names: Sequence[str]) -> list[tuple[str, str]]:
    """(value, words) of calendars."""
    return [(name, name) for name in names]


def occasion_title(occasion: Occasion, alarm: Alarm | None) -> str:
    """Why it was told; None: the alarm is gone."""
    if alarm is None:
        return _(OCCASION_TITLES[occasion])
    return _(labels.occasion_title(occasion, alarm.kind))


def look_of(alarm: Alarm) -> tuple[str, str]:
    """(class of its icon, icon)."""
    if not alarm.is_open:
        return "ok", "check"
    return ("bad" if alarm.severity is Severity.ERROR else "warn"), "bell"


def alarm_text(alarm: Alarm) -> str:
    """What is the matter, in the reader's language."""
    params = alarm.told.params
    if alarm.failure_group_id is not None and "error" in params:
        params = {**params, "error": message_text(str(params["error"]))}
    return translate(alarm.told.template, params, REQUEST_LOCALE.get().language)


def answer_page(alarm: Alarm) -> str | None:
    """Where one answers the step that an alarm is about; None: it is over, or of another kind."""
    if alarm.kind is not AlarmKind.APPROVAL_WAITS or not alarm.is_open:
        return None
    return page_to_answer(alarm)


def scope_title(scope: RuleScope) -> str:
    """What a rule of this scope is about."""
    return {
        RuleScope.INSTALLATION: _("The whole installation"),
        RuleScope.EXECUTOR: _("An executor"),
        RuleScope.TAG: _("Jobs with a tag"),
        RuleScope.JOB: _("A job"),
    }[scope]


def place_text(item: AlarmRuleItem) -> str:
    """What a rule is about."""
    rule = item.rule
    match rule.scope:
        case RuleScope.INSTALLATION:
            return _("The whole installation")
        case RuleScope.EXECUTOR:
            return item.executor_name or f"#{rule.executor_id}"
        case RuleScope.TAG:
            if item.executor_name is None:
                return _("Jobs tagged “%(tag)s”") % {"tag": rule.tag}
            return _("Jobs of %(executor)s tagged “%(tag)s”") % {
                "executor": item.executor_name,
                "tag": rule.tag,
            }
        case RuleScope.JOB:
            return item.job_name or f"#{rule.job_id}"


def alarm_line(raw: Mapping[str, Any]) -> str:
    """An alarm of a job's configuration, as the API writes it, in a line."""
    try:
        (alarm,) = read_job_alarms(Fields({"alarms": [raw]}, "", []))
    except ValueError:
        return json.dumps(raw, ensure_ascii=False)
    parts = [kind_title(alarm.kind), _limits_text(alarm.limits), severity_title(alarm.severity)]
    if alarm.channels:
        parts.append(_("told by %(channels)s") % {"channels": ", ".join(alarm.channels)})
    if alarm.escalate_to:
        told = {"channels": ", ".join(alarm.escalate_to)}
        parts.append(_("escalated by %(channels)s") % told)
    if not alarm.enabled:
        parts.append(_("off"))
    return f"{alarm.name}: {', '.join(part for part in parts if part)}"


def names_in(text: str) -> list[str]:
    """Names of the alarms in a text of JSON, as far as they can be read."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = [each.get("name") for each in raw if isinstance(each, dict)]
    return [name for name in found if isinstance(name, str)]


def limits_text(item: AlarmRuleItem) -> str:
    """From when on it counts, as far as the rule says so."""
    return _limits_text(item.rule.limits)


def _limits_text(limits: RuleLimits) -> str:
    parts = []
    if limits.count is not None:
        parts.append(_("%(n)s failures in a row") % {"n": limits.count})
    if limits.by is not None:
        zone = limits.timezone or "UTC"
        parts.append(_("by %(time)s %(zone)s") % {"time": limits.by[:5], "zone": zone})
    if limits.calendar is not None:
        parts.append(_("calendar %(name)s") % {"name": limits.calendar})
    if limits.seconds is not None:
        parts.append(_("more than %(n)s s") % {"n": limits.seconds})
    if limits.factor is not None:
        parts.append(_("more than %(n)s × as long as usual") % {"n": f"{limits.factor:g}"})
    return ", ".join(parts)


def channel_kind_title(kind: ChannelKind) -> str:
    """What a kind of channel is called."""
    return _(CHANNEL_KINDS[kind].title)


def state_badge(state: NotificationState) -> tuple[str, str, str]:
    """(class, icon, words) of where a message stands."""
    return {
        NotificationState.WAITING: ("s-idle", "clock", _("waiting")),
        NotificationState.SENDING: ("s-running", "clock", _("being sent")),
        NotificationState.DELIVERED: ("s-ok", "check", _("delivered")),
        NotificationState.DEAD: ("s-warning", "warning", _("given up")),
    }[state]


def state_choices() -> list[tuple[str, str]]:
    """(value, words) of where messages stand."""
    return [(state.value, state_badge(state)[2]) for state in NotificationState]
