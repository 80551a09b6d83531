"""XXL-JOB's DATETIMEs as instants: wall times of a zone that only the installation knows."""

from __future__ import annotations

from tickwheel_admin.domain.schedule.zones import Zone

_BACK = 600  # seconds that rows may be out of order
_MARGIN = 2 * 86_400  # no wall time of a segment's middle part is ambiguous


class StoredClock:
    """Turns local seconds into UTC seconds, for rows that come in the order of time.

    A wall time that the clocks show twice is taken for the first pass, unless later rows than that
    have come already; one that they skip, for the end of the gap.
    """

    def __init__(self, zone: Zone) -> None:
        self.zone = zone
        self._part = (0, 0, 0)  # local seconds from, to, and the offset between
        self._latest = -(1 << 60)

    def instant(self, local_seconds: int) -> int:
        """UTC seconds."""
        start, end, offset = self._part
        if start <= local_seconds < end:
            found = local_seconds - offset
        else:
            found = self._search(local_seconds)
        self._latest = max(self._latest, found)
        return found

    def first(self, local_seconds: int) -> int:
        """UTC seconds of a wall time that stands alone: of its first pass."""
        passes = self.zone.instants_of(local_seconds)
        if passes:
            return passes[0]
        return self.zone.gap_end(local_seconds) or local_seconds

    def _search(self, local_seconds: int) -> int:
        segment = self.zone.segment_at(local_seconds - self.zone.segment_at(local_seconds).offset)
        self._part = (segment.start + _MARGIN, segment.end - _MARGIN, segment.offset)
        if self._part[0] <= local_seconds < self._part[1]:
            return local_seconds - segment.offset
        passes = self.zone.instants_of(local_seconds)
        if not passes:
            return self.zone.gap_end(local_seconds) or local_seconds - segment.offset
        return next((each for each in passes if each >= self._latest - _BACK), passes[-1])
