"""The words of a proof."""

from __future__ import annotations

from collections.abc import Mapping

from tickwheel_admin.console.frame.consequences import Consequence
from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.runs.labels import reason_text as run_reason_text
from tickwheel_admin.console.runs.labels import state_name
from tickwheel_admin.console.system.self_audit_labels import has_words, reason_text, reasons_text
from tickwheel_admin.domain.proof.fires import FireOutcome
from tickwheel_admin.domain.proof.sums import GoneReason
from tickwheel_admin.services.proof.service import Proof


def outcome_name(outcome: str) -> str:
    """The word for what became of a fire, or for "late"."""
    words = {
        FireOutcome.RETRIED: _("Succeeded at a later try"),
        FireOutcome.OPEN: _("Not ended yet"),
        "late": _("Succeeded, but late"),
    }
    return words[outcome] if outcome in words else state_name(outcome)


def outcome_badge(outcome: str) -> str:
    """The class of its badge."""
    return {
        FireOutcome.SUCCEEDED: "s-ok",
        FireOutcome.RETRIED: "s-ok",
        FireOutcome.OPEN: "s-running",
        FireOutcome.SKIPPED: "s-idle",
        FireOutcome.CANCELLED: "s-idle",
        "late": "s-idle",
    }.get(outcome, "s-failed")


def column_name(kind: str) -> str:
    """What a part of a column stands for."""
    if kind == "skipped":
        return _("Skipped or cancelled")
    return _("Not ended yet") if kind == "queued" else state_name(kind)


def reasons(counted: Mapping[str, int]) -> str:
    """Why instants brought no run, or why fires were skipped, with their numbers."""
    return reasons_text({reason: count for reason, count in counted.items() if count})


def cause_text(cause: str) -> str:
    """Why an instant brought no work."""
    if cause == "missing":
        return _("nobody knows")
    return reason_text(cause) if has_words(cause) else run_reason_text(cause) or cause


def gone_text(gone: Mapping[str, int]) -> str:
    """Why runs are not there any more."""
    words = {
        GoneReason.RETENTION: _("by retention"),
        GoneReason.PURGED: _("purged by somebody"),
        GoneReason.UNKNOWN: _("nobody knows why"),
    }
    return ", ".join(
        f"{number(count)} {words[GoneReason(reason)]}" for reason, count in gone.items() if count
    )


def findings(proof: Proof) -> list[Consequence]:
    """What the sums say, the worst first."""
    sums, told = proof.proven, []
    if faults := sums.faults():
        text = _("Sums do not agree: %(sums)s") % {"sums": "; ".join(faults)}
        told.append(Consequence(look="bad", text=text))
    for text, count in (
        (_("Instants without a run and without a reason: %(n)s"), sums.missing),
        (_("Runs that no schedule explains, or that came twice: %(n)s"), sums.surplus),
        (_("Runs that are gone, and nobody knows why: %(n)s"), sums.gone[GoneReason.UNKNOWN]),
    ):
        if count:
            told.append(Consequence(look="bad", text=text % {"n": number(count)}))
    if sums.hours and not told:
        text = _("All %(n)s instants that should have been are accounted for.")
        told.append(Consequence(look="ok", text=text % {"n": number(sums.expected)}))
    if hours := proof.not_proven.hours:
        text = _(
            "Hours that are not proven, because the self-audit has not looked at them or not at all"
            " of their triggers: %(n)s"
        )
        told.append(Consequence(look="", text=text % {"n": number(hours)}))
    return told
