"""What the kinds of alarms and the occasions on which one tells of them are called."""

from __future__ import annotations

from collections.abc import Mapping

from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.errors import Word

KIND_TITLES: Mapping[AlarmKind, Word] = {
    AlarmKind.FAILED: Word("Run failed"),
    AlarmKind.TRY_FAILED: Word("Try failed"),
    AlarmKind.TIMED_OUT: Word("Run timed out"),
    AlarmKind.LOST: Word("Run lost"),
    AlarmKind.SKIPPED: Word("Fire skipped"),
    AlarmKind.STARTED_LATE: Word("Run started late"),
    AlarmKind.SLOW: Word("Run takes too long"),
    AlarmKind.DEADLINE_MISSED: Word("Deadline missed"),
    AlarmKind.DEADLINE_WARNING: Word("Deadline will be missed"),
    AlarmKind.COVERAGE_GAP: Word("Data not processed"),
    AlarmKind.FAILING_STREAK: Word("Fails again and again"),
    AlarmKind.RETRY_FAILED: Word("Retry failed"),
    AlarmKind.LAST_FAILED: Word("Last run failed"),
    AlarmKind.FAILURE_RATE: Word("Fails more often than usual"),
    AlarmKind.TRIGGER_ERROR: Word("Trigger in error"),
    AlarmKind.APPROVAL_WAITS: Word("Step waits for an answer"),
    AlarmKind.LOW_SUCCESS: Word("Many runs fail"),
    AlarmKind.NODES_LOST: Word("Nodes lost"),
    AlarmKind.NO_NODES: Word("No live node"),
    AlarmKind.FULL: Word("No free slots"),
    AlarmKind.DECLARED_WAITING: Word("Declared jobs wait for a decision"),
    AlarmKind.DECLARED_BROKEN: Word("Declared jobs break rules"),
    AlarmKind.LATE: Word("Due runs do not start"),
    AlarmKind.ADMIN_BEHIND: Word("Admin does not keep up"),
    AlarmKind.ADMIN_GONE: Word("Admin is gone"),
    AlarmKind.DATABASE_SLOW: Word("Database is slow"),
    AlarmKind.LEDGER_DIFFERENCE: Word("Self-audit found a difference"),
}

SEVERITY_TITLES: Mapping[Severity, Word] = {
    Severity.ERROR: Word("Error"),
    Severity.WARNING: Word("Warning"),
}

OCCASION_TITLES: Mapping[Occasion, Word] = {
    Occasion.OPENED: Word("New"),
    Occasion.REPEATED: Word("Still open"),
    Occasion.ESCALATED: Word("Escalated, because nobody acknowledged it"),
    Occasion.RECOVERED: Word("Recovered"),
    Occasion.TEST: Word("Test"),
}

_ANSWERED = Word("Answered, or over")


def occasion_title(occasion: Occasion, kind: AlarmKind) -> Word:
    """Why an alarm of this kind is told."""
    if kind is AlarmKind.APPROVAL_WAITS and occasion is Occasion.RECOVERED:
        return _ANSWERED  # nothing was wrong
    return OCCASION_TITLES[occasion]
