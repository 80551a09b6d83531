"""Words for what the domain names by codes: states, origins, reasons, strategies."""

from __future__ import annotations

from tickwheel_admin.console.i18n import gettext as _
from tickwheel_admin.console.reader import instant, length_in_words
from tickwheel_admin.domain.retry import RetryPolicy
from tickwheel_admin.domain.routing import Routing
from tickwheel_admin.domain.run import Origin, Run, RunState
from tickwheel_admin.domain.schedule.describe import describe
from tickwheel_admin.domain.trigger import MisfirePolicy, TriggerKind, TriggerSpec
from tickwheel_admin.services.run_waiting import Waiting


def state_name(state: str) -> str:
    """The word for a run's state, or for "retrying", a queued run that was tried before."""
    return {
        RunState.QUEUED: _("Queued"),
        RunState.DISPATCHED: _("Starting"),
        RunState.RUNNING: _("Running"),
        RunState.SUCCEEDED: _("Succeeded"),
        RunState.FAILED: _("Failed"),
        RunState.TIMED_OUT: _("Timed out"),
        RunState.CANCELLED: _("Cancelled"),
        RunState.LOST: _("Lost"),
        RunState.SKIPPED: _("Skipped"),
        "retrying": _("Retrying"),
    }[state]


def state_names() -> dict[str, str]:
    """Every word, for scripts."""
    return {state: state_name(state) for state in (*map(str, RunState), "retrying")}


def shown_state(run: Run) -> str:
    """The state as people should see it."""
    if run.state is RunState.QUEUED and run.tries > 0:
        return "retrying"
    return run.state.value


def origin_name(origin: Origin) -> str:
    """Why a run exists."""
    return {
        Origin.SCHEDULE: _("Schedule"),
        Origin.MISFIRE: _("Missed fire"),
        Origin.MANUAL: _("By hand"),
        Origin.API: _("API"),
        Origin.RETRY: _("Retry"),
    }[origin]


def reason_text(reason: str | None) -> str | None:
    """What a run's reason code means; None when it adds nothing to the state."""
    return {
        "node_lost": _("The node's lease ended before a result came."),
        "timeout_not_enforced": _("The node did not end the attempt in time."),
        "misfire": _("The fire was missed and its trigger skips missed fires."),
        "full": _("The node had no free slot after all."),
        "draining": _("The node is shutting down."),
        "unknown_handler": _("The node does not know this handler."),
        "spool_failed": _("The node could not make results safe on its disk."),
        "never_seen": _("The node never received the attempt."),
        "cancelled": None,
        "retry": None,
    }.get(reason or "", reason)


def waiting_text(waiting: Waiting) -> str:
    """Why a queued run does not start, in a sentence that also says what helps."""
    due_at = waiting.params.get("due_at")
    text = {
        "not_due": _("It is due at %(time)s."),
        "retry": _("It failed; try %(number)s of %(of)s begins at %(time)s."),
        "no_live_node": _("No node of its executor is connected. Start one, and the run begins."),
        "no_handler": _(
            "None of the %(nodes)s live nodes offers the handler “%(handler)s”."
            " Deploy it, or edit the job."
        ),
        "no_free_slot": _("All %(slots)s slots are taken; it begins when one is free."),
    }.get(waiting.code, _(waiting.template))
    return text % (waiting.params | {"time": instant(due_at, "time") if due_at else ""})


def routing_choices() -> list[tuple[str, str, str]]:
    """Each routing strategy with its name and what it does."""
    return [
        (
            Routing.ROUND_ROBIN.value,
            _("Round robin"),
            _("One node after the other. Right for most jobs."),
        ),
        (
            Routing.LEAST_BUSY.value,
            _("Least busy"),
            _("The node with the most free slots. For runs of uneven length."),
        ),
        (Routing.RANDOM.value, _("Random"), _("Any node with a free slot, each equally likely.")),
        (
            Routing.FAILOVER.value,
            _("Failover"),
            _("Always the first node by name; others only stand in for it."),
        ),
    ]


def routing_name(routing: Routing) -> str:
    """The short name of a strategy."""
    return next(name for value, name, _what in routing_choices() if value == routing.value)


def misfire_choices() -> list[tuple[str, str, str]]:
    """What happens with fires that were missed while no admin ran."""
    return [
        (
            MisfirePolicy.FIRE_ONCE.value,
            _("Run once, late"),
            _("One run for the latest missed fire, as soon as possible."),
        ),
        (
            MisfirePolicy.SKIP.value,
            _("Skip them"),
            _("Nothing runs for them; a skipped run says how many were missed."),
        ),
        (
            MisfirePolicy.FIRE_ALL.value,
            _("Run each"),
            _("A run for every missed fire, oldest first; for the latest 1,000 at most."),
        ),
    ]


def misfire_name(policy: MisfirePolicy) -> str:
    """The short name of a misfire policy."""
    return next(name for value, name, _what in misfire_choices() if value == policy.value)


def schedule_text(spec: TriggerSpec) -> str:
    """When a trigger fires, in words."""
    if spec.kind is TriggerKind.ONCE and spec.at is not None:
        return _("Once, on %(moment)s") % {"moment": instant(spec.at)}
    return describe(spec, _)


def schedule_rule(spec: TriggerSpec) -> str:
    """When a trigger fires, as it was written down."""
    if spec.kind is TriggerKind.CRON:
        zone = spec.timezone or "UTC"
        return f"{spec.expression}" if zone == "UTC" else f"{spec.expression}  {zone}"
    if spec.kind is TriggerKind.FIXED_RATE:
        return _("fixed rate")
    if spec.kind is TriggerKind.FIXED_DELAY:
        return _("fixed delay")
    return _("one-off")


def retry_text(policy: RetryPolicy) -> str:
    """How often and how soon a failed run is tried again."""
    if policy.retries == 0:
        return _("none")
    first = length_in_words(policy.delay_ms)
    if policy.factor == 1 or policy.retries == 1:
        return _("%(n)s×, every %(delay)s") % {"n": policy.retries, "delay": first}
    return _("%(n)s×, %(first)s up to %(last)s apart") % {
        "n": policy.retries,
        "first": first,
        "last": length_in_words(min(policy.max_delay_ms, policy.delay_after(policy.retries))),
    }
