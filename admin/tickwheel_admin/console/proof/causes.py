"""Exceptions of a proof by their causes, with what was done about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.runs.labels import reason_text
from tickwheel_admin.domain.proof.fires import FireOutcome
from tickwheel_admin.services.proof.service import ProofException

SHOWN_RUNS = 3  # of a cause


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofCause:
    """Exceptions that are alike."""

    outcome: str  # a FireOutcome, or LATE
    text: str | None  # what the runs said, or why they are so; None: the outcome says it all
    failure_id: int | None
    exceptions: tuple[ProofException, ...]

    @property
    def owners(self) -> list[str]:
        """Who they belong to."""
        return sorted({each.owner for each in self.exceptions if each.owner})

    @property
    def acknowledged_by(self) -> list[str]:
        """Who looks after them."""
        return sorted({each.acknowledged_by for each in self.exceptions if each.acknowledged_by})

    @property
    def redone(self) -> int:
        """How many were done after all, by other runs."""
        return sum(each.retry is not None and each.retry.succeeded for each in self.exceptions)

    @property
    def is_resolved(self) -> bool:
        """Whether the failure has been resolved since."""
        return all(each.resolved_at is not None for each in self.exceptions)


LATE = "late"


def causes_of(exceptions: Iterable[ProofException]) -> list[ProofCause]:
    """The causes, the most frequent first."""
    found: dict[tuple[str, str | None, int | None], list[ProofException]] = {}
    for each in exceptions:
        outcome: str = each.fire.outcome
        if each.fire.outcome is FireOutcome.SUCCEEDED:
            outcome = LATE
        key = (outcome, _text(each), None if each.group is None else each.group.id)
        found.setdefault(key, []).append(each)
    causes = [
        ProofCause(outcome=outcome, text=text, failure_id=failure_id, exceptions=tuple(alike))
        for (outcome, text, failure_id), alike in found.items()
    ]
    return sorted(causes, key=lambda cause: -len(cause.exceptions))


def _text(exception: ProofException) -> str | None:
    fire = exception.fire
    if exception.group is not None and fire.outcome is not FireOutcome.RETRIED:
        return exception.group.text
    if fire.outcome is FireOutcome.CANCELLED and fire.cancelled_by:
        return _("by %(who)s") % {"who": fire.cancelled_by}
    if fire.outcome in (FireOutcome.RETRIED, FireOutcome.SUCCEEDED):
        return None
    return reason_text(fire.reason)
