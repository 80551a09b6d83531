"""Words for how a job is configured: overlaps, retries, children."""

from __future__ import annotations

from tickwheel_admin.console.frame.choices import Choices, name_of
from tickwheel_admin.console.frame.formatting import length_in_words, number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.domain.jobs.children import ChildOn
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy, WhenCutOff
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import RunState


def _with_xxl_job_name(what: str, xxl_job: str) -> str:
    """What a choice does, and what XXL-JOB calls it."""
    return f"{what} {_('XXL-JOB: %(xxl_job)s.') % {'xxl_job': xxl_job}}"


# --- overlaps --------------------------------------------------------------------------------


def blocking_choices() -> Choices:
    """What happens when a run is due while an earlier one is still running."""
    return [
        (
            Blocking.PARALLEL.value,
            _("Run side by side"),
            _("It starts at once, however many are running already."),
        ),
        (
            Blocking.SERIAL.value,
            _("One after the other"),
            _with_xxl_job_name(
                _("It waits in line until the earlier ones have ended. Nothing is left out."),
                "单机串行",
            ),
        ),
        (
            Blocking.DISCARD_LATER.value,
            _("Skip the later one"),
            _with_xxl_job_name(
                _("It is skipped, which is no failure; the run that is going on is left alone."),
                "丢弃后续调度",
            ),
        ),
        (
            Blocking.COVER_EARLY.value,
            _("The newest wins"),
            _with_xxl_job_name(
                _("The earlier run is cancelled, and this one starts as soon as that has ended."),
                "覆盖之前调度",
            ),
        ),
    ]


def blocking_text(policy: BlockingPolicy) -> str:
    """What may run side by side, and how many may wait."""
    parts = [name_of(blocking_choices(), policy.strategy.value)]
    if policy.strategy is not Blocking.PARALLEL and policy.concurrency > 1:
        parts.append(_("%(n)s at a time") % {"n": number(policy.concurrency)})
    if policy.max_waiting is not None:
        parts.append(_("at most %(n)s waiting") % {"n": number(policy.max_waiting)})
    return " · ".join(parts)


def cut_off_choices() -> Choices:
    """What becomes of an attempt whose node hears from no admin."""
    return [
        (
            WhenCutOff.STOP.value,
            _("Stop it"),
            _("Its node ends it after 12 seconds, so that the next run can start soon."),
        ),
        (
            WhenCutOff.CONTINUE.value,
            _("Let it finish"),
            _("It goes on and keeps its place: nothing starts beside it."),
        ),
    ]


def cut_off_text(policy: BlockingPolicy) -> str:
    """What a node that is cut off does, and how long its place is kept."""
    return _("%(what)s; its place is kept for %(time)s at most") % {
        "what": name_of(cut_off_choices(), policy.when_cut_off.value),
        "time": length_in_words(policy.hold_lost_ms),
    }


# --- retries and children --------------------------------------------------------------------


def retry_text(policy: RetryPolicy) -> str:
    """How often and how soon a failed run is tried again."""
    if policy.retries == 0:
        return _("none")
    first = length_in_words(policy.delay_ms)
    if policy.factor == 1 or policy.retries == 1:
        text = _("%(n)s×, every %(delay)s") % {"n": policy.retries, "delay": first}
    else:
        last = min(policy.max_delay_ms, policy.delay_after(policy.retries))
        if policy.jitter:  # the delay without what chance adds
            last = round(min(policy.delay_ms * policy.factor ** (policy.retries - 1), last))
        text = _("%(n)s×, %(first)s up to %(last)s apart") % {
            "n": policy.retries,
            "first": first,
            "last": length_in_words(last),
        }
    if policy.jitter:
        text += " " + _("(+ up to %(share)s %% by chance)") % {"share": f"{policy.jitter * 100:g}"}
    return text


def retried_states(policy: RetryPolicy) -> list[RunState]:
    """The ends after which there is another try."""
    if policy.retries == 0:
        return []
    return [*policy.outcomes, *([RunState.LOST] if policy.on_lost else [])]


def child_choices() -> list[tuple[str, str]]:
    """After which end of its parent a child runs."""
    return [
        (ChildOn.SUCCESS.value, _("when it succeeded")),
        (ChildOn.FAILURE.value, _("when it failed")),
        (ChildOn.ALWAYS.value, _("in both cases")),
    ]


def child_on_text(on: ChildOn) -> str:
    return dict(child_choices())[on.value]
