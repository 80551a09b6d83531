"""Wall times put on the time line: what becomes of them where the clocks change.

A grid is a set of wall times; a zone shows most of them once. Those in a gap become one fire at its
end, or none; those in an overlap fire in the first pass, in the second, or in both. The search goes
from one segment of constant offset to the next, within which wall times and instants run alike.
"""

from __future__ import annotations

from typing import Protocol

from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, MAX_YEAR, day_number
from tickwheel_admin.domain.schedule.zones import Segment, Zone

LAST_WALL = day_number(MAX_YEAR, 12, 31) * DAY_SECONDS + DAY_SECONDS - 1
_LATEST = LAST_WALL + DAY_SECONDS  # UTC seconds; by then every clock shows a later year


class WallGrid(Protocol):
    """A set of wall times, in local seconds from 1970 to `LAST_WALL`."""

    def at_or_after(self, wall: int) -> int | None:
        """The first one that is not earlier; None when there is none."""
        ...

    def at_or_before(self, wall: int) -> int | None:
        """The last one that is not later; None when there is none."""
        ...


class WallSchedule:
    """The instants at which a zone's clocks show a wall time of a grid."""

    def __init__(self, grid: WallGrid, zone: Zone, *, gap: Gap, overlap: Overlap) -> None:
        self._grid = grid
        self._zone = zone
        self._gap = gap
        self._overlap = overlap  # not AUTO: the kind has decided

    def next_after(self, instant: int) -> int | None:
        at = max(instant // 1000 + 1, 0)
        while at <= _LATEST:
            segment = self._zone.segment_at(at)
            if at == segment.start and self._ends_gap(segment):
                return at * 1000
            low, high = self._shown(segment)
            wall = self._grid.at_or_after(max(at + segment.offset, low))
            if wall is None:
                return None
            if wall < high:
                return (wall - segment.offset) * 1000
            # Wall times that the clocks show again are looked for in the next segment already.
            shown_again = max(at + segment.offset, low) > segment.end + segment.after
            at = segment.end
            if not shown_again:
                at = max(at, self._zone.segment_at(wall - DAY_SECONDS).start)
        return None

    def last_before(self, instant: int) -> int | None:
        at = min((instant - 1) // 1000, _LATEST)
        while at >= 0:
            segment = self._zone.segment_at(at)
            low, high = self._shown(segment)
            wall = self._grid.at_or_before(min(at + segment.offset, high - 1))
            if wall is not None and wall >= low and wall - segment.offset >= 0:
                return (wall - segment.offset) * 1000
            if segment.start >= 0 and self._ends_gap(segment):
                return segment.start * 1000
            passed_over = min(at + segment.offset, high - 1) < segment.start + segment.before - 1
            at = segment.start - 1
            if not passed_over:
                if wall is None:
                    return None
                at = min(at, self._zone.segment_at(wall + DAY_SECONDS).end - 1)
        return None

    def _shown(self, segment: Segment) -> tuple[int, int]:
        """The wall times of a segment that count: from the first to before the second."""
        low, high = segment.start + segment.offset, segment.end + segment.offset
        if self._overlap is Overlap.FIRST:
            low = max(low, segment.start + segment.before)
        elif self._overlap is Overlap.SECOND:
            high = min(high, segment.end + segment.after)
        return low, high

    def _ends_gap(self, segment: Segment) -> bool:
        """Whether clocks jump over a wall time of the grid where the segment starts."""
        if self._gap is Gap.SKIP or segment.offset <= segment.before:
            return False
        skipped = self._grid.at_or_after(segment.start + segment.before)
        return skipped is not None and skipped < segment.start + segment.offset
