"""The rules that a new installation has: they tell nobody, and show what is the matter."""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.rule import AlarmRule

# Names of rules are people's to change, so they are not translated.
_NAMES = {
    AlarmKind.FAILED: "Failed runs",
    AlarmKind.TIMED_OUT: "Timed-out runs",
    AlarmKind.LOST: "Lost runs",
    AlarmKind.DEADLINE_WARNING: "Deadlines that will be missed",
    AlarmKind.TRIGGER_ERROR: "Triggers in error",
    AlarmKind.NO_NODES: "Executors without nodes",
    AlarmKind.ADMIN_GONE: "Admins gone",
    AlarmKind.APPROVAL_WAITS: "Steps that wait for an answer",
    AlarmKind.LEDGER_DIFFERENCE: "Differences found by the self-audit",
}
_WARNINGS = (AlarmKind.APPROVAL_WAITS, AlarmKind.DEADLINE_WARNING)
DEFAULT_RULES = len(_NAMES)


def default_rules(ids: Sequence[int]) -> list[AlarmRule]:
    """Rules about the whole installation, without channels; takes `DEFAULT_RULES` ids."""
    return [
        AlarmRule(
            id=rule_id,
            name=name,
            kind=kind,
            severity=Severity.WARNING if kind in _WARNINGS else Severity.ERROR,
        )
        for rule_id, (kind, name) in zip(ids, _NAMES.items(), strict=True)
    ]
