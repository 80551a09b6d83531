"""Notices that a node writes to its log: English sentences about its hello and its code."""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel_admin.domain.jobs.declared_job import DeclaredReason, DeclaredState
from tickwheel_admin.engine.membership.clocks import CLOCK_LIMIT_MS
from tickwheel_admin.engine.ports import Arrival
from tickwheel_admin.services.jobs.declared.decisions import DeclarationOutcome
from tickwheel_admin.services.jobs.declared.reconciler import Reconciliation
from tickwheel_shared.protocol import MAX_MESSAGE_CHARS, Level, Notice

_REASONS = {
    DeclaredReason.POLICY_ASK: "this executor's policy is to ask",
    DeclaredReason.MADE_BY_HAND: "a job of this name was not made by code",
    DeclaredReason.POLICY_IGNORE: "this executor's policy is to ignore them",
    DeclaredReason.DELETED: "somebody deleted the job",
    DeclaredReason.PERSON: "somebody said so",
}


def notices_at_hello(arrival: Arrival, *, namesakes: Sequence[str], now: int) -> list[Notice]:
    """What is odd about a process that says its first hello.

    Args:
        namesakes: addresses of other live nodes of the same name.
        now: the database's time.
    """
    texts = []
    if namesakes:
        texts.append(
            f"another live node of this executor is called {arrival.name!r} too, at"
            f" {', '.join(namesakes)}; give each its own name, or people cannot tell them apart"
        )
    if arrival.clock is not None and abs(off := arrival.clock - now) > CLOCK_LIMIT_MS:
        texts.append(
            f"the clock of this machine is {_length(abs(off))}"
            f" {'ahead of' if off > 0 else 'behind'} the database's; schedules and timeouts do not"
            " depend on it, but the times of log lines do"
        )
    return [_notice(Level.WARNING, text) for text in texts]


def notices_of(executor_id: int, proposed: Reconciliation) -> list[Notice]:
    """What became of what a process says of its code; nothing is said of what is as it was."""
    page = f"/executors/{executor_id}/declared-jobs"
    found = [_notice(Level.ERROR, fault) for fault in proposed.faults]
    for each in proposed.outcomes:
        if each.ruling.state is DeclaredState.INVALID:
            problems = "; ".join(
                f"{problem.field}: {problem.message}" if problem.field else problem.message
                for problem in each.ruling.problems
            )
            found.append(
                _notice(Level.ERROR, f"the declared job {each.name!r} cannot be used: {problems}")
            )
    by_change: dict[str, list[str]] = {}
    for each in proposed.outcomes:
        if each.change is not None:
            by_change.setdefault(each.change, []).append(repr(each.name))
    if by_change:
        told = "; ".join(f"{change} {', '.join(names)}" for change, names in by_change.items())
        found.append(_notice(Level.INFO, f"jobs declared in code: {told}"))
    for state, level, beginning in (
        (DeclaredState.WAITING, Level.WARNING, "waiting for a person"),
        (DeclaredState.IGNORED, Level.INFO, "ignored"),
        (DeclaredState.RELEASED, Level.INFO, "no longer managed by code"),
    ):
        names = [_with_reason(each) for each in proposed.outcomes if each.ruling.state is state]
        if names:
            found.append(_notice(level, f"declared jobs {beginning}: {page}: {', '.join(names)}"))
    return found


def _with_reason(outcome: DeclarationOutcome) -> str:
    ruling = outcome.ruling
    if ruling.reason is None:
        return repr(outcome.name)
    if ruling.reason is DeclaredReason.RENAMED:
        return f"{outcome.name!r} (probably the new name of {ruling.renamed_from!r})"
    return f"{outcome.name!r} ({_REASONS[ruling.reason]})"


def _length(ms: int) -> str:
    seconds = round(ms / 1000)
    if seconds < 600:
        return f"{seconds} s"
    if seconds < 36_000:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600):,} h"


def _notice(level: Level, text: str) -> Notice:
    if len(text) > MAX_MESSAGE_CHARS:
        text = text[: MAX_MESSAGE_CHARS - 1] + "…"
    return Notice(level=level, text=text)
