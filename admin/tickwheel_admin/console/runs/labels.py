"""Words for what the ledger names by codes: states, origins, reasons, what a run waits for."""

from __future__ import annotations

from tickwheel_admin.console.frame.formatting import duration, instant, number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import message_text
from tickwheel_admin.domain.planning.missed_fires import MissedFires, missed_fires_of
from tickwheel_admin.domain.runs.reasons import REASONS
from tickwheel_admin.domain.runs.run import CUT_OFF, LIVE, STILL_RUNNING, Origin, Run, RunState
from tickwheel_admin.services.runs.service import NO_STEP, AttemptView
from tickwheel_admin.services.runs.waiting import Waiting


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
        Origin.CHILD: _("Child run"),
        Origin.STEP: _("Step of a workflow"),
        Origin.BACKFILL: _("Backfill"),
        Origin.TRY: _("Try of a script"),
    }[origin]


def origins_name(origin: str) -> str:
    """The same for a word that people filter by."""
    return _("All but steps") if origin == NO_STEP else origin_name(Origin(origin))


def reason_text(reason: str | None) -> str | None:
    """What a run's reason code means; None when it adds nothing to the state."""
    words = REASONS.get(reason or "")
    if words is not None:
        return _(words)
    said_elsewhere = reason in _OTHERWISE_TOLD or (reason or "").startswith("retry_after_")
    return None if said_elsewhere else reason


_OTHERWISE_TOLD = frozenset({"blocked", "cancelled", "retry", "shards"})


def note(run: Run) -> str | None:
    """What people should know of how a run ended or stands, beyond its state."""
    if (missed := missed_fires_of(run)) is not None:
        return _missed(missed)
    return message_text(run.message) if run.message else reason_text(run.reason)


def _missed(told: MissedFires) -> str:
    """How many fires a summary stands for, and when they were."""
    if told.count == 1:
        return _("The fire of %(time)s was missed; it is skipped.") % {
            "time": instant(told.first_at)
        }
    return _("%(n)s fires were missed from %(first)s to %(last)s; they are skipped.") % {
        "n": number(told.count) + ("+" if told.capped else ""),
        "first": instant(told.first_at),
        "last": instant(told.last_at),
    }


def is_still_running(run: Run) -> bool:
    """Whether its node was told to end it and did not in time."""
    return run.state in LIVE and run.reason == STILL_RUNNING


def can_be_released(run: Run) -> bool:
    """Whether an operator may stop waiting for its node, and has reason to."""
    return (
        run.state in LIVE
        and not run.has_no_node
        and run.cancel_requested_at is not None
        and run.reason in (STILL_RUNNING, CUT_OFF)
    )


def stopping_name(run: Run) -> str:
    """Why a live run is being ended."""
    if run.cancel_reason == "timeout":
        return _("Timed out, stopping")
    if run.cancel_reason == "covered":
        return _("Making way for a newer run")
    return _("Cancelling")


def late_text(view: AttemptView, next_began_at: int | None) -> str:
    """What came of an attempt after another one had begun, and that it changed nothing."""
    words = {
        "succeeded": _("A success came late"),
        "failed": _("A failure came late"),
        "timed_out": _("A timeout came late"),
        "cancelled": _("A cancellation came late"),
        "skipped": _("A skip came late"),
    }
    what = words.get(view.late_outcome or "", _("A result came late"))
    if view.late_at is None or next_began_at is None:
        return _("%(what)s; it is not counted.") % {"what": what}
    return _("%(what)s, %(time)s after the next attempt began; it is not counted.") % {
        "what": what,
        "time": duration(max(view.late_at - next_began_at, 0)),
    }


def skipped_text(code: str) -> str:
    """Why runs were left alone when something was done with many; follows their number."""
    return {
        "run.ended": _("had already ended"),
        "run.not_ended": _("have not ended yet"),
        "run.retry_succeeded": _("have been retried, with success"),
        "run.retry_goes_on": _("have a retry that has not ended yet"),
        "run.no_failed_shards": _("have no shard that failed"),
        "run.not_sharded": _("belong to a job that is no longer cut into shards"),
        "run.nodes_gone": _("were shards of nodes that have ended"),
        "run.job_busy": _("wait for another run of their job to end"),
        "job.deleted": _("belong to a job that has been deleted"),
        "run.is_step": _("are steps of workflows; the run of a workflow can be retried"),
        "not_allowed": _("may not be operated by you"),
        "not_found": _("are not there any more"),
    }.get(code, code)


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


def waiting_note(waiting: Waiting) -> str:
    """The same in a few words, for a row of a list; of a single run that it waits for, not its
    number."""
    due_at = waiting.params.get("due_at")
    params = waiting.params | {
        "time": instant(due_at, "time") if due_at else "",
        "executor": waiting.executor,
    }
    if waiting.code == "blocked" and len(waiting.runs) == 1:
        return _("waiting for run")
    if waiting.code == "blocked":
        return _("waiting for %(n)s earlier runs") % {"n": number(len(waiting.runs))}
    if waiting.code == "pinned_node" and "node" in params:
        return _("waiting for the node %(node)s") % params
    return {
        "paused": _("paused; it will be skipped"),
        "not_due": _("due at %(time)s"),
        "retry": _("next try at %(time)s"),
        "pinned_node": _("waiting for the node it must run on"),
        "no_live_node": _("waiting for a node of %(executor)s"),
        "no_handler": _("waiting for a node with its handler"),
        "no_matching_node": _("waiting for a node with its labels or name"),
        "cordoned": _("waiting: every node for it is cordoned or shutting down"),
        "draining": _("waiting: every node for it is shutting down"),
        "job_busy_everywhere": _("waiting: every node runs this job already"),
        "no_free_slot": _("waiting for a slot on %(executor)s"),
        "secret": _("waiting for the secret %(names)s"),
        "pool": _("waiting for a slot of the pool %(name)s"),
        "starting": _("about to start"),
    }.get(waiting.code, _(waiting.template)) % params
