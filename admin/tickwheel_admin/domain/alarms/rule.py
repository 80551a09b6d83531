"""A rule: who is told of what, by which channels, how often, and when not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity

GROUP_WINDOW_S = 60  # alarms of one executor within so many seconds are told together
STREAK = 3
NO_NODES_S, FULL_S = 60, 300
GAP_S = 3_600


class RuleScope(StrEnum):
    """What a rule is about; the nearest one wins. The values are stored, and part of the API."""

    INSTALLATION = "installation"
    EXECUTOR = "executor"
    TAG = "tag"  # the jobs that have it, of one executor or of all
    JOB = "job"

    @property
    def distance(self) -> int:
        """From the job; the smallest wins."""
        return _DISTANCE[self]


_DISTANCE = {
    RuleScope.JOB: 0,
    RuleScope.TAG: 1,
    RuleScope.EXECUTOR: 2,
    RuleScope.INSTALLATION: 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLimits:
    """From when on something is the matter; `LIMITS` says which of these a kind has."""

    count: int | None = None  # failing_streak: failures in a row
    # started_late, slow, no_nodes, full: longer than so many seconds.
    # coverage_gap: so long after its end an interval must have been processed.
    # deadline_missed: a success so long before the deadline counts; None: of the same local day.
    seconds: int | None = None
    factor: float | None = None  # slow: so many times as long as the job usually takes
    by: str | None = None  # deadline_missed: a wall time, "07:30:00"
    timezone: str | None = None  # of `by` and of the calendar: an IANA name; None: UTC
    calendar: str | None = None  # deadline_missed: only on the days that it leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """When nothing is told: what happens then is told together at their end."""

    from_time: str | None = None  # "22:00:00", every day; None: only the calendar counts
    to_time: str | None = None  # "06:00:00"; not later than from_time: of the next day
    calendar: str | None = None  # what it takes away is quiet as well
    timezone: str | None = None  # IANA name; None: UTC
    pierced_by_errors: bool = False  # an alarm of severity error is told nevertheless


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """A rule as it is stored."""

    id: int
    name: str  # unique; 1..100 characters
    kind: AlarmKind
    scope: RuleScope = RuleScope.INSTALLATION
    executor_id: int | None = None  # scope executor; scope tag: only of this one
    job_id: int | None = None  # scope job
    tag: str | None = None  # scope tag
    additional: bool = False  # it counts beside a nearer rule, which would win otherwise
    severity: Severity = Severity.ERROR
    channels: tuple[int, ...] = ()  # ids; none: the alarm is open in the console, nobody is told
    limits: RuleLimits = RuleLimits()
    own_text: str = ""  # domain.alarms.own_text
    quiet: QuietHours | None = None
    repeat_every_s: int | None = None  # while it is open and nobody acknowledged it; None: never
    escalate_after_s: int | None = None  # without acknowledgement; None: never
    escalate_to: tuple[int, ...] = ()  # ids of channels
    tell_recovery: bool = True
    group_window_s: int = GROUP_WINDOW_S
    enabled: bool = True
    version: int = 1  # rises with each edit; edits name the one they started from
    next_at: int | None = None  # UTC ms of the next deadline; the engine keeps it


# Which limits a kind of rule has: those it needs, then those it may have.
LIMITS: dict[AlarmKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    AlarmKind.FAILED: ((), ()),
    AlarmKind.TRY_FAILED: ((), ()),
    AlarmKind.TIMED_OUT: ((), ()),
    AlarmKind.LOST: ((), ()),
    AlarmKind.SKIPPED: ((), ()),
    AlarmKind.STARTED_LATE: (("seconds",), ()),
    AlarmKind.SLOW: ((), ("seconds", "factor")),
    AlarmKind.DEADLINE_MISSED: (("by",), ("timezone", "calendar", "seconds")),
    AlarmKind.DEADLINE_WARNING: ((), ()),
    AlarmKind.COVERAGE_GAP: ((), ("seconds",)),
    AlarmKind.FAILING_STREAK: ((), ("count",)),
    AlarmKind.RETRY_FAILED: ((), ()),
    AlarmKind.LAST_FAILED: ((), ()),
    AlarmKind.FAILURE_RATE: ((), ()),
    AlarmKind.TRIGGER_ERROR: ((), ()),
    AlarmKind.APPROVAL_WAITS: ((), ()),
    AlarmKind.LOW_SUCCESS: ((), ()),
    AlarmKind.NODES_LOST: ((), ()),
    AlarmKind.NO_NODES: ((), ("seconds",)),
    AlarmKind.FULL: ((), ("seconds",)),
    AlarmKind.DECLARED_WAITING: ((), ()),
    AlarmKind.DECLARED_BROKEN: ((), ()),
    AlarmKind.LATE: ((), ()),
    AlarmKind.ADMIN_BEHIND: ((), ()),
    AlarmKind.ADMIN_GONE: ((), ()),
    AlarmKind.DATABASE_SLOW: ((), ()),
    AlarmKind.LEDGER_DIFFERENCE: ((), ()),
}
RULE_KINDS = tuple(LIMITS)
# Kinds about a job, an executor, and the installation; a rule about less than its kind is refused.
OF_INSTALLATION = frozenset(
    {
        AlarmKind.LATE,
        AlarmKind.ADMIN_BEHIND,
        AlarmKind.ADMIN_GONE,
        AlarmKind.DATABASE_SLOW,
        AlarmKind.LEDGER_DIFFERENCE,
    }
)
OF_EXECUTOR = frozenset(
    {
        AlarmKind.LOW_SUCCESS,
        AlarmKind.NODES_LOST,
        AlarmKind.NO_NODES,
        AlarmKind.FULL,
        AlarmKind.DECLARED_WAITING,
        AlarmKind.DECLARED_BROKEN,
    }
)
# Most jobs process no intervals, and each one that is watched costs: a rule says which do.
NOT_OF_INSTALLATION = frozenset({AlarmKind.COVERAGE_GAP})


def scopes_of(kind: AlarmKind) -> tuple[RuleScope, ...]:
    """The scopes that a rule of the kind may have."""
    if kind in OF_INSTALLATION:
        return (RuleScope.INSTALLATION,)
    if kind in OF_EXECUTOR:
        return (RuleScope.INSTALLATION, RuleScope.EXECUTOR)
    if kind in NOT_OF_INSTALLATION:
        return (RuleScope.EXECUTOR, RuleScope.TAG, RuleScope.JOB)
    return tuple(RuleScope)


def ids_to_json(ids: tuple[int, ...]) -> str:
    """As the table keeps them."""
    return msgspec.json.encode(ids).decode()


def ids_from_json(text: str) -> tuple[int, ...]:
    """What `ids_to_json` wrote."""
    return _ids.decode(text)


def limits_to_json(limits: RuleLimits) -> str:
    """As the table keeps them; what is not limited is left out."""
    return _said(limits)


def limits_from_json(text: str) -> RuleLimits:
    """What `limits_to_json` wrote."""
    return _limits.decode(text)


def quiet_to_json(quiet: QuietHours | None) -> str | None:
    """As the table keeps them; None: there are none."""
    return None if quiet is None else _said(quiet)


def quiet_from_json(text: str | None) -> QuietHours | None:
    """What `quiet_to_json` wrote."""
    return None if text is None else _quiet.decode(text)


_ids = msgspec.json.Decoder(tuple[int, ...])
_limits = msgspec.json.Decoder(RuleLimits)
_quiet = msgspec.json.Decoder(QuietHours)


def _said(value: RuleLimits | QuietHours) -> str:
    fields: dict[str, object] = msgspec.to_builtins(value)
    return msgspec.json.encode({k: v for k, v in fields.items() if v not in (None, False)}).decode()
