"""Words for jobs declared in code: what became of each, and what would change, as the job form
names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.console.alarms.labels import alarm_line
from tickwheel_admin.console.frame.choices import Choices, name_of
from tickwheel_admin.console.frame.formatting import length_in_words, percent
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.jobs import policy_labels, routing_labels
from tickwheel_admin.console.runs.labels import state_name
from tickwheel_admin.console.triggers import labels as trigger_labels
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.trigger import parse_trigger
from tickwheel_admin.domain.jobs.children import ChildOn
from tickwheel_admin.domain.jobs.declared_job import CodeJobs, DeclaredReason, DeclaredState
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.services.jobs.declared.service import DeclaredItem, Difference
from tickwheel_admin.services.jobs.yaml_writer import write_yaml

UNDECLARED = "undeclared"  # managed by code, and declared by no live node
_ORDER = (
    DeclaredState.WAITING.value,
    DeclaredState.INVALID.value,
    UNDECLARED,
    DeclaredState.APPLIED.value,
    DeclaredState.IGNORED.value,
    DeclaredState.RELEASED.value,
)
MONO = frozenset({"handler", "script", "workflow", "parameters", "selector", "hash_by"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """One field in which code and the job differ, in words."""

    name: str
    before: Sequence[str]  # lines; none: the job says nothing
    after: Sequence[str]
    mono: bool


def policy_choices() -> Choices:
    """What an executor does with declared jobs."""
    return [
        (
            CodeJobs.APPLY.value,
            _("Apply"),
            _(
                "Jobs are added and changed as soon as a new process declares them. What may do"
                " harm waits all the same: a name that is taken, and a probable rename."
            ),
        ),
        (
            CodeJobs.ASK.value,
            _("Ask"),
            _("Each new or changed job waits here until somebody accepts it."),
        ),
        (
            CodeJobs.IGNORE.value,
            _("Ignore"),
            _("Jobs are only listed here; none is added or changed."),
        ),
    ]


def state_of(item: DeclaredItem) -> str:
    """A DeclaredState, or UNDECLARED."""
    return UNDECLARED if item.undeclared else item.state.value


def in_order(items: Sequence[DeclaredItem]) -> list[DeclaredItem]:
    """First what somebody should look at."""
    return sorted(items, key=lambda item: (_ORDER.index(state_of(item)), item.name))


def badge_of(state: str) -> tuple[str, str, str]:
    """Class, icon and word of a state."""
    return {
        DeclaredState.WAITING.value: ("s-warning", "clock", _("Waits for a decision")),
        DeclaredState.INVALID.value: ("s-failed", "warning", _("Broken")),
        UNDECLARED: ("s-warning", "offline", _("Not declared any more")),
        DeclaredState.APPLIED.value: ("s-healthy", "check", _("As declared")),
        DeclaredState.IGNORED.value: ("s-idle", "cancel", _("Ignored")),
        DeclaredState.RELEASED.value: ("s-idle", "user", _("In people’s hands")),
    }[state]


def explanation(item: DeclaredItem) -> str:
    """Why it is in its state, and what follows from that."""
    state = state_of(item)
    if state == UNDECLARED:
        return _(
            "No live node declares this job any more. It goes on as it is until you delete it or"
            " take it out of code’s hands."
        )
    if state == DeclaredState.INVALID:
        return _("No job can be made of what code says. Change the code:")
    if state == DeclaredState.APPLIED:
        return _("The job is as code declares it.")
    if state == DeclaredState.RELEASED:
        return _("People edit this job. What code declares is left alone.")
    if state == DeclaredState.IGNORED:
        return _ignored(item.reason)
    if item.reason == DeclaredReason.MADE_BY_HAND:
        return _(
            "There is a job of this name that code did not make. Accepting it lets code manage"
            " that job, which keeps its runs."
        )
    if item.reason == DeclaredReason.RENAMED and item.renamed_from is not None:
        return _(
            "Probably the new name of “%(name)s”: it has the same handler and triggers, and code"
            " does not declare the old name any more. As a second job it would do everything twice."
        ) % {"name": item.renamed_from}
    if item.managed:
        return _("Code declares this job differently now.")
    return _("Code declares a job that is not there yet.")


def _ignored(reason: str | None) -> str:
    if reason == DeclaredReason.POLICY_IGNORE:
        return _("This executor ignores what code declares.")
    if reason == DeclaredReason.DELETED:
        return _("The job was deleted by hand, so no new one is made of it.")
    return _("Somebody chose to ignore it.")


def changes(differences: Sequence[Difference]) -> list[FieldDifference]:
    """What accepting would change, in the order of the job form."""
    names = field_names()
    return [
        FieldDifference(
            name=names.get(each.field, each.field),
            before=value_lines(each.field, each.before),
            after=value_lines(each.field, each.after),
            mono=each.field in MONO,
        )
        for each in differences
    ]


def field_names() -> dict[str, str]:
    """What the job form calls the fields of the API, in the order of both."""
    return {
        "name": _("Name"),
        "handler": _("Handler"),
        "script": _("Script"),
        "workflow": _("Workflow"),
        "description": _("Description"),
        "owner": _("Owner"),
        "tags": _("Tags"),
        "parameters": _("Parameters"),
        "routing": _("Routing"),
        "shards": _("Number of shards"),
        "nodes": _("Nodes"),
        "selector": _("Only nodes with these labels"),
        "hash_by": _("Parameter that decides"),
        "blocking": _("Overlap"),
        "concurrency": _("Runs at a time"),
        "max_waiting": _("Most that may wait"),
        "when_cut_off": _("When cut off"),
        "hold_lost_seconds": _("Keep its place for at most"),
        "priority": _("Priority"),
        "pool": _("Pool"),
        "pool_slots": _("Slots of the pool"),
        "timeout_seconds": _("Timeout"),
        "start_within_seconds": _("Start within"),
        "retries": _("Retries"),
        "retry_delay_seconds": _("Wait before a retry"),
        "retry_backoff": _("Each further wait"),
        "retry_max_delay_seconds": _("Longest wait"),
        "retry_jitter": _("Extra wait by chance"),
        "retry_on": _("Retry when it"),
        "retry_on_lost": _("Retry when lost with its node"),
        "children": _("What runs afterwards"),
        "alarms": _("Alarms"),
        "triggers": _("When"),
    }


def value_lines(field: str, value: Any) -> list[str]:
    """A value of the API as the job form would say it; nothing for none."""
    if value is None or value in ("", [], {}):
        return []
    if (words := _WORDS.get(field)) is not None:
        return words(value)
    if field.endswith("_seconds"):
        return [length_in_words(round(value * 1000))]
    if isinstance(value, bool):
        return [_("yes") if value else _("no")]
    if isinstance(value, list):
        return [", ".join(str(each) for each in value)]
    return str(value).splitlines()


def _triggers(raw: list[Any]) -> list[str]:
    found = []
    for each in raw:
        try:
            spec = parse_trigger(each)
        except InvalidInput:  # its calendar or zone is known elsewhere only
            found.append(json.dumps(each, ensure_ascii=False))
            continue
        rule = trigger_labels.schedule_rule(spec)
        found.append(f"{trigger_labels.schedule_text(spec)} ({rule})")
        found += trigger_labels.details(spec)
    return found


def _children(raw: list[Any]) -> list[str]:
    on_text = policy_labels.child_on_text
    return [
        f"{_('job #%(id)s') % {'id': each['job']}} {on_text(ChildOn(each['on']))}" for each in raw
    ]


def _alarms(raw: list[Any]) -> list[str]:
    return [alarm_line(each) for each in raw]


def _workflow(raw: dict[str, Any]) -> list[str]:
    return write_yaml(raw).splitlines()


def _script(raw: dict[str, Any]) -> list[str]:
    """Its hash stands for its source, which is shown on a page of its own."""
    told = [f"{raw['language']} {raw['sha256']}", raw["remark"]]
    if raw["signature"]:
        told.append(_("signed"))
    return [line for line in told if line]


def _backoff(value: str) -> list[str]:
    return [_("the same") if value == "fixed" else _("twice as long as the one before")]


_WORDS: dict[str, Callable[[Any], list[str]]] = {
    "script": _script,
    "workflow": _workflow,
    "parameters": lambda value: json.dumps(value, indent=2, ensure_ascii=False).splitlines(),
    "routing": lambda value: [routing_labels.name_of(Routing(value))],
    "blocking": lambda value: [name_of(policy_labels.blocking_choices(), value)],
    "when_cut_off": lambda value: [name_of(policy_labels.cut_off_choices(), value)],
    "retry_backoff": _backoff,
    "retry_jitter": lambda value: [percent(value, 1)],
    "retry_on": lambda value: [", ".join(state_name(each) for each in value)],
    "triggers": _triggers,
    "children": _children,
    "alarms": _alarms,
}
