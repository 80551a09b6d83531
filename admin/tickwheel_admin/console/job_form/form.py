"""The job form: what its fields mean as the raw input of a job, and back.

Everything typed comes back as it was typed when something is wrong; the rules themselves are in
`domain.job_input`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multidict import MultiMapping

from tickwheel_admin.console.frame.units import FormFields, in_percent, in_units, pretty
from tickwheel_admin.console.job_form import routing_fields as routing_form
from tickwheel_admin.console.job_form import script_fields as script_form
from tickwheel_admin.console.job_form.alarm_fields import alarms_as_text, alarms_as_typed
from tickwheel_admin.console.job_form.kinds import (
    READY_MADE,
    JobKind,
    KindChoice,
    first_choice,
    handler_of,
    kind_of,
)
from tickwheel_admin.console.job_form.yaml_view import YamlView, with_plain_ends, yaml_as_sent
from tickwheel_admin.console.parameters.form import (
    ParameterForm,
    is_about_parameters,
    parameter_form,
    switched,
    text_of_form,
)
from tickwheel_admin.console.parameters.form import form_as_sent as parameters_as_sent
from tickwheel_admin.console.triggers.form import (
    TriggerCard,
    card_of_trigger,
    cards_as_sent,
    cards_with,
    changed_cards,
    is_of_a_card,
    read_cards,
)
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import as_seconds
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.executors.service import ExecutorDetail

# Where the form shows what the rules call by another name.
_PLACES = {
    "timeout_seconds": "timeout",
    "start_within_seconds": "start_within",
    "hold_lost_seconds": "hold_lost",
    "retry_delay_seconds": "retry_delay",
    "retry_max_delay_seconds": "retry_max_delay",
    "retry_on_lost": "retry_on",
}
_CHILD = re.compile(r"children\[([0-9]+)\]")
_LISTS = re.compile(r"(tags|nodes)\[")  # shown in one field each
_GROUPS = frozenset({"retry_on", "children"})  # places that are no single field
# The folded parts, and the fields in each; problems of children belong to "after".
_FOLDS: Mapping[str, frozenset[str]] = {
    "where": frozenset(routing_form.DEFAULTS),
    "overlap": frozenset({"blocking", "concurrency", "max_waiting", "when_cut_off", "hold_lost"}),
    "wrong": frozenset(
        {
            "timeout", "start_within", "retries", "retry_delay", "retry_backoff",
            "retry_max_delay", "retry_jitter", "retry_on",
        }
    ),
    "after": frozenset({"children"}),
    "more": frozenset({"priority", "pool", "pool_slots", "owner", "tags", "description"}),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRow:
    """One job to run afterwards, as it was typed."""

    job: str  # "executor / name", or "#id"
    on: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForm:
    """The values of all fields, as text, and what is wrong with them."""

    values: Mapping[str, str]
    triggers: tuple[TriggerCard, ...] = ()
    children: tuple[ChildRow, ...] = ()
    problems: tuple[Problem, ...] = ()
    sent: MultiMapping[str] | None = None  # all that was filled in; None: nobody did yet
    yaml: YamlView | None = None  # the job is typed in YAML, and only a few fields count
    kept_yaml: str = ""  # the YAML that the form was made of, to be found again on the way back

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")

    @property
    def handler(self) -> str:
        """The name of the handler that it means, whatever kind was chosen."""
        return handler_of(self["what"], self["handler"])

    def name_of(self, name: str) -> str:
        """Name of a field in the form."""
        return name

    def id_of(self, name: str) -> str:
        """Id of a field in the page."""
        return f"f-{name.replace('_', '-')}"

    def problem(self, name: str) -> Problem | None:
        """What is wrong with one field; children are "child-0", "child-1" …."""
        return next((p for p in self.problems if self._place(p) == name), None)

    @property
    def unplaced(self) -> list[Problem]:
        """Problems that belong to no field of the form."""
        rows = {f"child-{index}" for index in range(len(self.children))}
        places = self.values.keys() | _GROUPS | rows
        return [
            p
            for p in self.problems
            if self._place(p) not in places and not is_of_a_card(p, self.triggers)
        ]

    @property
    def cards(self) -> list[TriggerCard]:
        """Its triggers, each with what is wrong with it."""
        return cards_with(self.triggers, self.problems)

    def opens(self, fold: str) -> bool:
        """Whether something in a folded part needs another look."""
        places = [self._place(problem) for problem in self.problems]
        if fold == "after" and any(place.startswith("child-") for place in places):
            return True
        return any(place in _FOLDS[fold] for place in places)

    def parameters(self, schema: str | None) -> ParameterForm:
        """Its parameters, by what the handler takes."""
        if self.sent is None:
            found = parameter_form(schema, self["parameters"], problems=self.problems)
        elif "do" in self.sent:
            found = switched(schema, self.sent)
        else:
            found = parameters_as_sent(schema, self.sent, problems=self.problems)
        return found.of_handler(self.handler)

    def refused(self, problems: Sequence[Problem]) -> JobForm:
        """The same, with what is wrong."""
        yaml = None if self.yaml is None else self.yaml.refused(problems)
        return replace(self, problems=tuple(problems), yaml=yaml)

    def with_kind(self, choices: Sequence[KindChoice], executor: ExecutorDetail | None) -> JobForm:
        """The same with an answer to "What runs?".

        What was chosen stays, unless it was chosen for another executor, and this one lacks it.
        """
        chosen = self["what"]
        if self["what_of"] != self["executor_id"] and executor is not None:
            closed = {each.kind for each in choices if not each.is_open}
            is_open = self["handler"].strip() if chosen not in READY_MADE else chosen not in closed
            chosen = chosen if is_open else ""
        what = chosen or first_choice(choices, executor).value
        values = {**self.values, "what": what, "what_of": self["executor_id"]}
        return replace(self, values=values)

    def changed(self, action: str, *, timezone: str, today: str) -> JobForm:
        """The same with a trigger more or less: "add:cron", "duplicate:0", "remove:0"."""
        cards = changed_cards(self.triggers, action, timezone=timezone, today=today)
        return replace(self, triggers=cards)

    def _place(self, problem: Problem) -> str:
        if is_about_parameters(problem):
            return "parameters"
        if child := _CHILD.match(problem.field):
            return f"child-{child[1]}"
        field = _PLACES.get(problem.field, problem.field)
        if of_list := _LISTS.match(field):
            return of_list[1]
        return field


def empty_form(*, executor_id: int | None, kind: str = "") -> JobForm:
    """The form of a new job.

    Args:
        kind: what runs, as a JobKind; "" and what is none: not chosen yet.
    """
    executor = str(executor_id or "")
    what = kind if kind in frozenset(JobKind) else ""
    return JobForm(values=_DEFAULTS | {"executor_id": executor, "what": what, "what_of": executor})


def form_of_job(
    config: JobConfig,
    *,
    executor_id: int,
    revision: int,
    children: Sequence[ChildRow],
) -> JobForm:
    """The form of a stored job."""
    timeout, timeout_unit = in_units(config.timeout_ms)
    start_within, start_within_unit = in_units(config.start_within_ms)
    values = _DEFAULTS | {
        "executor_id": str(executor_id),
        "revision": str(revision),
        "name": config.name,
        "what": kind_of(config.handler).value,
        "what_of": str(executor_id),
        "handler": "" if config.handler in READY_MADE else config.handler,
        **script_form.values_of(config.script, is_stored=revision > 0),
        "description": config.description,
        "owner": config.owner,
        "tags": ", ".join(config.tags),
        "parameters": pretty(config.parameters),
        "priority": str(config.priority),
        "pool": "" if config.pool is None else config.pool.name,
        "pool_slots": "1" if config.pool is None else str(config.pool.slots),
        "alarms": alarms_as_text(config.alarms),
        "timeout": timeout,
        "timeout_unit": timeout_unit,
        "start_within": start_within,
        "start_within_unit": start_within_unit,
        **routing_form.values_of(config.routing),
        **_values_of_blocking(config.blocking),
        **_values_of_retry(config.retry),
    }
    cards = tuple(card_of_trigger(str(n), spec) for n, spec in enumerate(config.triggers))
    return JobForm(values=values, triggers=cards, children=tuple(children))


def _values_of_blocking(policy: BlockingPolicy) -> dict[str, str]:
    values = {"blocking": policy.strategy.value}
    if policy.strategy is Blocking.PARALLEL:
        return values
    hold_lost, unit = in_units(policy.hold_lost_ms)
    return values | {
        "concurrency": str(policy.concurrency),
        "max_waiting": "" if policy.max_waiting is None else str(policy.max_waiting),
        "when_cut_off": policy.when_cut_off.value,
        "hold_lost": hold_lost,
        "hold_lost_unit": unit,
    }


def _values_of_retry(policy: RetryPolicy) -> dict[str, str]:
    return {
        "retries": str(policy.retries),
        "retry_delay": str(as_seconds(policy.delay_ms)),
        "retry_max_delay": str(as_seconds(policy.max_delay_ms)),
        "retry_backoff": "fixed" if policy.factor == 1 else "exponential",
        "retry_jitter": in_percent(policy.jitter),
        "retry_on_failed": _yes(RunState.FAILED in policy.outcomes),
        "retry_on_timed_out": _yes(RunState.TIMED_OUT in policy.outcomes),
        "retry_on_lost": _yes(policy.on_lost),
    }


def form_as_sent(sent: MultiMapping[str], problems: Sequence[Problem] = ()) -> JobForm:
    """The form as somebody filled it in."""
    # A checkbox that is off is not sent; its default must not turn it on again.
    values = _DEFAULTS | dict.fromkeys(_CHECKBOXES, "")
    known = {name: sent[name] for name in values if name in sent}
    if "what" not in sent and "handler" in sent:
        known["what"] = kind_of(sent["handler"].strip()).value
    pairs = zip(sent.getall("child_job", []), sent.getall("child_on", []), strict=False)
    children = tuple(ChildRow(job=job.strip(), on=on) for job, on in pairs if job.strip())
    return JobForm(
        values=values | known,
        triggers=cards_as_sent(sent),
        children=children,
        problems=tuple(problems),
        sent=sent,
        yaml=yaml_as_sent(sent),
        kept_yaml=with_plain_ends(sent.get("kept_yaml", "")),
    )


def draft_of_form(
    form: JobForm, *, children: Sequence[Mapping[str, Any]], schema: str | None = None
) -> tuple[dict[str, Any], list[Problem]]:
    """The raw job that the form says as far as it can be read, and what cannot.

    Args:
        schema: what its handler takes.
        children: the raw children that its rows name, found by `console.child_jobs`.

    What is typed is read as numbers, JSON and local times. Rules that concern the meaning are
    checked where the raw job goes.
    """
    problems: list[Problem] = []
    values = dict(form.values)
    if form.sent is not None:
        values["parameters"], problems = text_of_form(schema, form.sent)
    values["handler"] = form.handler
    typed = FormFields(values=values, problems=problems)
    raw: dict[str, Any] = {
        "name": form["name"],
        "handler": form.handler,
        **script_form.read(values),
        "description": form["description"],
        "owner": form["owner"],
        "tags": [tag.strip() for tag in form["tags"].split(",") if tag.strip()],
        "parameters": typed.parameters("parameters"),
        "priority": typed.whole("priority"),
        "pool": form["pool"],
        # What a field holds that is of no use without the other does not count.
        "pool_slots": typed.whole("pool_slots") if form["pool"].strip() else None,
        "timeout_seconds": typed.length("timeout", form["timeout_unit"]),
        "start_within_seconds": typed.length("start_within", form["start_within_unit"]),
        "children": list(children),
        "alarms": alarms_as_typed(values["alarms"], problems),
        **routing_form.read(typed),
        **_read_blocking(typed),
        **_read_retry(typed),
        "triggers": read_cards(form.triggers, problems),
    }
    return raw, problems


def _read_blocking(typed: FormFields) -> dict[str, Any]:
    """Fields of a strategy that is not chosen are not shown, so what they hold does not count."""
    strategy = typed.text("blocking")
    raw: dict[str, Any] = {"blocking": strategy}
    if strategy == Blocking.PARALLEL:
        return raw
    raw["concurrency"] = typed.whole("concurrency")
    raw["when_cut_off"] = typed.text("when_cut_off")
    raw["hold_lost_seconds"] = typed.length("hold_lost", typed.text("hold_lost_unit"))
    if strategy == Blocking.SERIAL:
        raw["max_waiting"] = typed.whole("max_waiting")
    return raw


def _read_retry(typed: FormFields) -> dict[str, Any]:
    outcomes = (RunState.FAILED, RunState.TIMED_OUT)
    return {
        "retries": typed.whole("retries"),
        "retry_delay_seconds": typed.length("retry_delay"),
        "retry_backoff": typed.text("retry_backoff"),
        "retry_max_delay_seconds": typed.length("retry_max_delay"),
        "retry_jitter": typed.share("retry_jitter"),
        "retry_on": [each.value for each in outcomes if typed.text(f"retry_on_{each}") == "yes"],
        "retry_on_lost": typed.text("retry_on_lost") == "yes",
    }


def _yes(value: bool) -> str:
    return "yes" if value else ""


_CHECKBOXES = ("retry_on_failed", "retry_on_timed_out", "retry_on_lost")
_DEFAULTS: dict[str, str] = {
    "executor_id": "",
    "revision": "",
    "name": "",
    "what": "",
    "what_of": "",
    "handler": "",
    **script_form.DEFAULTS,
    "description": "",
    "owner": "",
    "tags": "",
    "parameters": "{}",
    "alarms": "",
    **routing_form.DEFAULTS,
    "blocking": "parallel",
    "concurrency": "1",
    "max_waiting": "",
    "when_cut_off": "stop",
    "hold_lost": "10",
    "hold_lost_unit": "m",
    "timeout": "",
    "timeout_unit": "m",
    "start_within": "",
    "start_within_unit": "m",
    "retries": "0",
    "retry_delay": "10",
    "retry_backoff": "exponential",
    "retry_max_delay": "3600",
    "retry_jitter": "0",
    "retry_on_failed": "yes",
    "retry_on_timed_out": "yes",
    "retry_on_lost": "yes",
    "priority": "5",
    "pool": "",
    "pool_slots": "1",
}
