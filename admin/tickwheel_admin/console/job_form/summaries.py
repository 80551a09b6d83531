"""One line about each folded part of the job form: what it holds, as it is typed."""

from __future__ import annotations

from tickwheel_admin.console.frame.formatting import length_in_words
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.console.frame.units import FormFields, whole_number
from tickwheel_admin.console.job_form.form import JobForm
from tickwheel_admin.console.jobs import policy_labels, routing_labels
from tickwheel_admin.domain.routing.strategies import STRATEGIES, Routing
from tickwheel_admin.domain.routing.strategy import Split
from tickwheel_admin.domain.runs.blocking import Blocking


def summaries_of(form: JobForm) -> dict[str, str]:
    """By the key of the part. What cannot be read is shown as it was typed."""
    parts = {
        "where": _where(form),
        "overlap": _overlap(form),
        "wrong": _wrong(form),
        "after": [row.job for row in form.children] or [_("nothing")],
        "more": _more(form),
    }
    return {key: " · ".join(texts) for key, texts in parts.items()}


def _where(form: JobForm) -> list[str]:
    chosen = form["routing"]
    if chosen not in frozenset(Routing):
        return [chosen]
    strategy = Routing(chosen)
    found = [routing_labels.name_of(strategy)]
    if STRATEGIES[strategy].split is Split.BY_NUMBER and form["shards"]:
        found.append(_("%(n)s shards") % {"n": form["shards"]})
    if STRATEGIES[strategy].names and form["nodes"].strip():
        found.append(", ".join(form["nodes"].split()))
    if form["selector"].strip():
        found.append(form["selector"].strip())
    return found


def _overlap(form: JobForm) -> list[str]:
    choices = policy_labels.blocking_choices()
    chosen = form["blocking"]
    found = [name for value, name, _what in choices if value == chosen] or [chosen]
    if chosen != Blocking.PARALLEL and form["concurrency"] not in ("", "1"):
        found.append(_("%(n)s at a time") % {"n": form["concurrency"]})
    if chosen == Blocking.SERIAL and form["max_waiting"]:
        found.append(_("at most %(n)s waiting") % {"n": form["max_waiting"]})
    return found


def _wrong(form: JobForm) -> list[str]:
    found = [
        _("timeout %(length)s") % {"length": _length(form, "timeout")}
        if form["timeout"]
        else _("no timeout")
    ]
    if form["start_within"]:
        found.append(_("start within %(length)s") % {"length": _length(form, "start_within")})
    retries = form["retries"].strip()
    if retries in ("", "0"):
        found.append(_("no retries"))
    elif (count := whole_number(retries)) is not None:
        found.append(ngettext("%(num)s retry", "%(num)s retries", count) % {"num": retries})
    else:
        found.append(retries)
    return found


def _more(form: JobForm) -> list[str]:
    found = [_("priority %(n)s") % {"n": form["priority"]}]
    if form["pool"].strip():
        found.append(_("pool %(name)s") % {"name": form["pool"].strip()})
    found += [form[name].strip() for name in ("owner", "tags") if form[name].strip()]
    if form["description"].strip():
        found.append(_("with a description"))
    return found


def _length(form: JobForm, name: str) -> str:
    typed = FormFields(values=form.values, problems=[])
    seconds = typed.length(name, form[f"{name}_unit"])
    return form[name] if seconds is None else length_in_words(round(seconds * 1000))
