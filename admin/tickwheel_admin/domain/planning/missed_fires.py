"""What a skipped run keeps of the missed fires that it stands for.

Stored as JSON in the run's message: whoever reads it says it in the reader's language and zone.
"""

from __future__ import annotations

import msgspec

from tickwheel_admin.domain.planning.plan import MAX_COUNTED, Missed
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.domain.triggers.spec import MisfirePolicy

MISFIRE = "misfire"  # the reason of such a run


class MissedFires(msgspec.Struct, frozen=True, kw_only=True):
    """Missed fires of one trigger that are not made up for."""

    counted: int = msgspec.field(name="missed")  # at most MAX_COUNTED + 1
    first_at: int = msgspec.field(name="from")
    last_at: int = msgspec.field(name="to")
    policy: MisfirePolicy | None = None  # what its trigger did about missed fires then
    made_up: int = 0  # how many later ones were made up for

    @property
    def count(self) -> int:
        """How many they were, or MAX_COUNTED when there were more."""
        return min(self.counted, MAX_COUNTED)

    @property
    def capped(self) -> bool:
        """Whether there were more than were counted."""
        return self.counted > MAX_COUNTED


def message_of(missed: Missed, *, policy: MisfirePolicy, made_up: int) -> str:
    """The stored form."""
    told = MissedFires(
        counted=missed.count,
        first_at=missed.first_at,
        last_at=missed.last_at,
        policy=policy,
        made_up=made_up,
    )
    return msgspec.json.encode(told).decode()


def missed_fires_of(run: Run) -> MissedFires | None:
    """What a run that was skipped for them tells of missed fires; None for any other run."""
    if run.reason != MISFIRE or run.state is not RunState.SKIPPED:
        return None
    try:
        return msgspec.json.decode(run.message or "", type=MissedFires)
    except msgspec.DecodeError:
        return None
