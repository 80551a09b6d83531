"""The detail of an audit row as people read it: facts, and what was before and after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tickwheel_admin.console.frame.formatting import instant, length_in_words, number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.jobs.declared_labels import field_names
from tickwheel_admin.console.runs.labels import state_name
from tickwheel_admin.console.system.audit_labels import MAX_TOLD
from tickwheel_admin.console.users.labels import grants_text, role_name
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role

if TYPE_CHECKING:
    from tickwheel_admin.services.system.audit import AuditItem

_SHOWN_ELSEWHERE = frozenset({"name", "before", "changes", "by_token", "request"})
_COUNTS = frozenset({"sessions_ended", "api_tokens_revoked", "jobs"})  # none is not worth a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that an audit row tells."""

    label: str
    value: str
    before: str | None = None  # "" for nothing; None: it tells no change


def facts_of(item: AuditItem, executors: Mapping[int, str]) -> list[Fact]:
    """What is told beyond who, when and what.

    Args:
        executors: names by id, for roles.
    """
    if isinstance(item.detail.get("changes"), dict):
        changes = [
            Fact(
                label=_label(name),
                value=_value(name, change.get("after"), executors),
                before=_value(name, change.get("before"), executors),
            )
            for name, change in item.detail["changes"].items()
            if isinstance(change, dict)
        ]
        return changes + _by_token(item)
    facts = []
    for name, value in item.detail.items():
        if name in _SHOWN_ELSEWHERE or (name == "user" and item.action.startswith("token.")):
            continue
        if name in _COUNTS and not value:
            continue
        if name == "jobs" and item.is_bulk:
            facts.append(Fact(label=_("Selected"), value=_value(name, value, executors)))
            continue
        if name == "job" and item.job_name is not None:
            value = f"{item.job_name} (#{value})"
        before = item.detail.get("before") if name == "grants" else None
        facts.append(
            Fact(
                label=_label(name),
                value=_value(name, value, executors),
                before=None if before is None else _value("grants", before, executors),
            )
        )
    return facts + _by_token(item)


def _by_token(item: AuditItem) -> list[Fact]:
    """The API token that acted, if one did; where it was made, the audit tells its name."""
    token = item.detail.get("by_token")
    if token is None:
        return []
    shown = f"#{token}" if item.token_name is None else f"{item.token_name} (#{token})"
    return [Fact(label=_("With API token"), value=shown)]


def _label(name: str) -> str:
    return {
        "revision": _("Revision"),
        "to": _("To revision"),
        "done": _("Done"),
        "skipped": _("Left alone"),
        "filter": _("All that match"),
        "runs": _("Selected"),
        "changed": _("Changed"),
        "state": _("State before"),
        "job": _("Job"),
        "jobs": _("Jobs that went with it"),
        "trigger": _("Trigger"),
        "retry_of": _("Retry of"),
        "cleared": _("Cleared"),
        "declared": _("What code declares"),
        "renamed_from": _("Renamed from"),
        "policy": _("Rule"),
        "provider": _("OpenID provider"),
        "overlap_seconds": _("Former token works for"),
        "older_than_seconds": _("Older than"),
        "keep_newest": _("All but the newest"),
        "script": _("Script"),
        "remark": _("Remark"),
        "slots": _("Slots"),
        "weight": _("Weight"),
        "version": _("Version"),
        "tag": _("Tag"),
        "secret": _("Secret"),
        "secrets": _("Secrets that it uses from now on"),
        "grants": _("Roles"),
        "role": _("Role"),
        "executors": _("Executors"),
        "expires_at": _("Expires"),
        "sessions_ended": _("Sessions ended"),
        "api_tokens_revoked": _("API tokens revoked"),
        "language": _("Language"),
        "theme": _("Theme"),
        "timezone": _("Time zone"),
        "instance_name": _("Name of the installation"),
        "retention_days": _("Days that runs are kept"),
        "audit_retention_days": _("Days that the audit is kept"),
        "default_timezone": _("Time zone of readers"),
        "address": _("Address"),
        "approved": _("Approved"),
        "assigned_to": _("Assigned to"),
        "change": _("Change"),
        "channel": _("Channel"),
        "description": _("Description"),
        "instants": _("Instants"),
        "key": _("Key"),
        "kind": _("Kind"),
        "message": _("Message"),
        "parallel": _("At a time"),
        "path": _("Path"),
        "protocol": _("Protocol"),
        "seconds": _("For"),
        "since": _("From"),
        "step": _("Step"),
        "subject": _("About"),
        "until": _("To"),
    }.get(name, name)


def _value(name: str, value: Any, executors: Mapping[int, str]) -> str:
    """A value in words; what is not known is shown as the JSON that it is."""
    if value is None or value == [] or value == "":
        return _("none") if name == "grants" else ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if name == "grants" and isinstance(value, list):
        return _grants(value, executors)
    if name == "changed" and isinstance(value, list):
        names = field_names()
        return _(", ").join(names.get(str(each), str(each)) for each in value)
    if name == "executors" and isinstance(value, list):
        return _(", ").join(executors.get(each, f"#{each}") for each in value)
    if name == "role" and value in set(Role):
        return role_name(Role(value))
    if name == "state" and value in set(RunState):
        return state_name(value)
    if name.endswith("seconds") and isinstance(value, int | float):
        return length_in_words(round(value * 1000))
    if name in ("expires_at", "since", "until") and isinstance(value, int):
        return instant(value, "short")
    if name in ("job", "trigger", "retry_of") and not isinstance(value, str):
        return f"#{value}"
    if name in ("filter", "skipped") and isinstance(value, dict):
        each = (f"{key}: {_plain(one)}" for key, one in value.items())
        return _(", ").join(each) or _("everything")
    if name == "done" and isinstance(value, int):
        return number(value) if value <= MAX_TOLD else f"{number(MAX_TOLD)}+"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _grants(raw: list[Any], executors: Mapping[int, str]) -> str:
    """Roles as the audit keeps them."""
    grants, names = {}, dict(executors)
    for each in raw:
        try:
            executor_id = each["executor_id"] or ALL_EXECUTORS
            grants[executor_id] = Grant(Role(each["role"]), bool(each.get("scripts")))
        except (AttributeError, KeyError, TypeError, ValueError):  # of an admin of another version
            return json.dumps(raw, ensure_ascii=False)
        if executor_id != ALL_EXECUTORS:
            names.setdefault(executor_id, f"#{executor_id}")
    return grants_text(grants, names)
