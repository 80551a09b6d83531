"""Which zones an installation uses, from what it stores: epochs beside wall times.

`trigger_next_time` is an epoch that was computed from the cron expression in the admin's zone, and
`trigger_last_time` one of which the log has the wall time in the zone of DATETIMEs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.xxl_job.audit.instants import CronInstants, NotJudged, instants_of
from tickwheel_admin.domain.xxl_job.records import XxlJob

DEFAULT_ZONE = "Asia/Shanghai"  # of the JDBC URL and of the container image that XXL-JOB ships
CANDIDATES = (
    DEFAULT_ZONE,
    "UTC",
    "Asia/Tokyo",
    "Asia/Singapore",
    "Asia/Ho_Chi_Minh",
    "Asia/Kolkata",
    "Asia/Dubai",
    "Europe/Moscow",
    "Europe/Istanbul",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Helsinki",
    "America/Sao_Paulo",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "Australia/Sydney",
    *(f"Etc/GMT{sign}{hours}" for sign in "-+" for hours in range(1, 13)),
)
MIN_SHARE = 0.5  # of the votes; with fewer a zone is not taken for the right one
_QUARTER = 900  # offsets are multiples of it, seconds
_ASTRAY = 120  # seconds by which a log row may differ from `trigger_last_time`


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneChoice:
    """A zone, and how well the data fit it."""

    zone: Zone
    is_given: bool  # by the person who asked, else guessed or the default
    fits: int  # of so many votes
    votes: int
    better: str | None  # a zone that fits better than the one that was given

    @property
    def is_confirmed(self) -> bool:
        return self.votes > 0 and self.fits / self.votes >= MIN_SHARE


def choose_cron_zone(jobs: Iterable[XxlJob], *, given: Zone | None) -> ZoneChoice:
    """The zone of cron expressions: a job whose expression names hours has one vote."""
    voters = [job for job in jobs if _has_vote(job)]

    def count(zone: Zone) -> int:
        return sum(_is_instant(job, zone) for job in voters)

    return _choice(count, len(voters), given, first=())


def choose_stored_zone(
    samples: Sequence[tuple[int, int]], *, given: Zone | None, cron_zone: Zone
) -> ZoneChoice:
    """The zone of DATETIMEs.

    Args:
        samples: wall times in local seconds, and the same moments in UTC seconds, nearly.
    """
    offsets = Counter(
        quarters * _QUARTER
        for local, utc in samples
        if abs(local - utc - (quarters := round((local - utc) / _QUARTER)) * _QUARTER) <= _ASTRAY
    )
    at = max((utc for _local, utc in samples), default=0)

    def count(zone: Zone) -> int:
        return offsets[zone.segment_at(at).offset]

    return _choice(count, offsets.total(), given, first=(cron_zone.name,))


def _choice(
    count: Callable[[Zone], int], votes: int, given: Zone | None, *, first: Sequence[str]
) -> ZoneChoice:
    """The given zone, else the first that most votes are for, else the default."""
    counts = {name: count(zone_of(name)) for name in dict.fromkeys((*first, *CANDIDATES))}
    best = max(counts, key=counts.__getitem__)  # the first of equals
    if given is not None:
        fits = count(given)
        better = best if counts[best] > fits and counts[best] >= votes * MIN_SHARE else None
        return ZoneChoice(zone=given, is_given=True, fits=fits, votes=votes, better=better)
    if not votes or counts[best] < votes * MIN_SHARE:
        best = DEFAULT_ZONE
    return ZoneChoice(
        zone=zone_of(best), is_given=False, fits=counts[best], votes=votes, better=None
    )


def _is_instant(job: XxlJob, zone: Zone) -> bool:
    """Whether the next trigger that XXL-JOB has computed is one of the expression's."""
    second = job.next_trigger_ms // 1_000
    try:
        return CronInstants(job.schedule_conf, zone).next_after(second - 1) == second
    except NotJudged:
        return False


def _has_vote(job: XxlJob) -> bool:
    if not job.is_running or job.next_trigger_ms <= 0:
        return False
    try:
        instants = instants_of(job, zone_of("UTC"))
    except NotJudged:
        return False
    return isinstance(instants, CronInstants) and instants.names_hours
