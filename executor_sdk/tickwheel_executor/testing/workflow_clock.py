"""The time of a workflow under test: it passes when nothing else happens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WorkflowClock:
    """UTC epoch ms, shared by a workflow and those within it."""

    def __init__(self, now: int) -> None:
        self.began_at = now
        self.now = now

    def pass_until(self, at: int) -> None:
        """Set it forward; never back."""
        self.now = max(self.now, at)

    @property
    def seconds(self) -> float:
        """What has passed."""
        return (self.now - self.began_at) / 1000

    def moment(self) -> datetime:
        """What it says."""
        return _EPOCH + timedelta(milliseconds=self.now)

    @property
    def began_in_words(self) -> str:
        """ISO 8601, as `${run.scheduled_at}` is."""
        moment = _EPOCH + timedelta(milliseconds=self.began_at)
        digits = "milliseconds" if self.began_at % 1000 else "seconds"
        return moment.isoformat(timespec=digits)[:-6] + "Z"
