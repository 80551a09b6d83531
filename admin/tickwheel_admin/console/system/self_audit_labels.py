"""Words for what the self-audit counts."""

from __future__ import annotations

from collections.abc import Mapping

from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.domain.errors import Word

_KINDS = {
    "missing": Word("Missing"),
    "doubled": Word("Doubled"),
    "late": Word("Late"),
    "unexplained": Word("Unexplained"),
}
_REASONS = {
    "paused": Word("paused"),
    "calendar": Word("removed by a calendar"),
    "misfire": Word("missed, and told of"),
    "edited": Word("edited just before"),
    "ended": Word("ended"),
    "error": Word("in error"),
    "purged": Word("purged"),
    "retention": Word("older than the retention"),
    "cancelled": Word("cancelled before its start"),
    "expired": Word("too late to start"),
    "discarded": Word("discarded"),
    "covered": Word("covered by a newer run"),
    "too_many_waiting": Word("too many waiting"),
    "node_gone": Word("its node is gone"),
    "job_deleted": Word("its job was deleted"),
}


def kind_text(kind: str) -> str:
    """How the ledger differs."""
    return _(_KINDS[kind]) if kind in _KINDS else kind


def has_words(reason: str) -> bool:
    """Whether `reason_text` knows more than the code of a reason."""
    return reason in _REASONS


def reason_text(reason: str) -> str:
    """Why an instant brought no run; a code that has no words stands for itself."""
    return _(_REASONS[reason]) if has_words(reason) else reason


def reasons_text(explained: Mapping[str, int]) -> str:
    """All reasons with their numbers, the most frequent first."""
    ordered = sorted(explained.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{number(count)} {reason_text(reason)}" for reason, count in ordered)
