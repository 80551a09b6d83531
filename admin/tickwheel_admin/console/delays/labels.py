"""The words of delays."""

from __future__ import annotations

from tickwheel_admin.console.frame.formatting import number, tiny_number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.domain.delays.history import DelayKind
from tickwheel_admin.services.delays.service import CausingRun, ShownJob

MINUTE_MS = 60_000
FINE_BELOW = 10  # of units: such numbers have a fraction


def kind_name(kind: str) -> str:
    """What a part is called."""
    return {
        DelayKind.PLANNED_LATE: _("Written late"),
        DelayKind.BLOCKED: _("Blocked"),
        DelayKind.NO_NODE: _("No node"),
        DelayKind.SLOT: _("Waited for a slot"),
        DelayKind.POOL: _("Waited for the pool"),
        DelayKind.OTHER: _("Not known"),
        DelayKind.CLAIM: _("Claim"),
        DelayKind.ACCEPT: _("Confirmation"),
    }[DelayKind(kind)]


def kind_told(kind: str) -> str:
    """What it means, in a sentence."""
    return {
        DelayKind.PLANNED_LATE: _("It was written only after it was due."),
        DelayKind.BLOCKED: _("It waited for its turn behind earlier runs of its job."),
        DelayKind.NO_NODE: _("No node that may run it was connected."),
        DelayKind.SLOT: _("All slots of the nodes that may run it were taken."),
        DelayKind.POOL: _("The slots of its pool were taken."),
        DelayKind.OTHER: _(
            "The records do not show why: a node was away or took no runs, or a secret was missing."
        ),
        DelayKind.CLAIM: _("It could start, and no admin had claimed it yet."),
        DelayKind.ACCEPT: _("Its node had not confirmed it yet."),
    }[DelayKind(kind)]


def job_name(job: ShownJob | CausingRun | None) -> str:
    """The name of a job as far as the reader may know it."""
    if job is None:
        return _("Other jobs")
    name = job.name if isinstance(job, ShownJob) else job.job_name
    if name is not None:
        return name
    return _("A job you may not see") if job.job_id is None else f"#{job.job_id}"


def unit_ms(largest: int) -> int:
    """What cells are told in: minutes, unless all of them are short."""
    return MINUTE_MS if largest >= 2 * MINUTE_MS else 1_000


def cell_text(ms: int, unit: int) -> str:
    """A length in a cell: room for four characters."""
    value = ms / unit
    if value < FINE_BELOW:
        fine = round(value, 1)
        return number(fine) if fine else "<" + number(0.1)
    return tiny_number(round(value))
