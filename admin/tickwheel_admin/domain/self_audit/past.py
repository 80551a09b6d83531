"""What was the case while an hour went by: triggers as they stood, pauses, calendars, purges.

All instants are UTC epoch ms of the database's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import TriggerState

FOREVER = 2**53
MAX_CHAIN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerPeriod:
    """A time during which a trigger was not edited."""

    trigger_id: int
    version: int  # of the trigger; rises with each period
    job_id: int
    executor_id: int
    spec: TriggerSpec
    saved_at: int  # where a fixed rate without an anchor starts
    since_at: int  # instants after this one are planned as it says
    until_at: int | None  # when an edit ended it; None: it lasts
    # Up to here everything is planned. Of one that lasts, the planner tells by the next fire.
    planned_to: int | None
    state: TriggerState
    paused: bool
    next_fire_at: int | None
    last_fire_at: int | None
    job_paused: bool = False  # now; of a period that lasts

    @property
    def is_idle(self) -> bool:
        """Whether it plans nothing because it, or its job, is paused."""
        held = self.next_fire_at is None and not self.spec.follows_runs
        return self.paused or (held and self.state is TriggerState.ACTIVE)

    @property
    def ends_at(self) -> int:
        """Up to where its instants count."""
        return FOREVER if self.until_at is None else self.until_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PausePeriod:
    """A time during which an executor, or everything, was paused."""

    executor_id: int  # 0: everything
    paused_at: int  # later fires do not run
    resumed_at: int | None  # None: it lasts


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedRuns:
    """Ended runs that a person had deleted: some of those that a job had within a time."""

    job_id: int
    from_at: int
    to_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFire:
    """A fire as its run in the ledger tells of it; of one with shards, the whole fire."""

    run_id: int
    trigger_id: int
    job_id: int
    executor_id: int
    scheduled_at: int
    created_at: int
    is_on_time: bool  # planned as a fire on time, and not as a missed one
    passed_over: str | None  # why nothing ran; None: it ran, or will
    ended_at: int | None = None  # None: it has not ended
    follows_at: int | None = None  # of a fixed delay: the instant of the fire that brought it
    # Of a run that tells of missed fires that nobody makes up for: the first and the last of them.
    missed: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarPeriod:
    """What a calendar said by itself, without those it is based on, until an instant."""

    until_at: int  # FOREVER: it says so now
    spec: CalendarSpec | None  # None: it was not there


@dataclass(frozen=True, slots=True)
class CalendarsPast:
    """By name, what each calendar said, from the oldest to what it says now."""

    periods: Mapping[str, Sequence[CalendarPeriod]] = field(default_factory=dict)

    def chains(self, name: str, from_at: int, to_at: int) -> list[tuple[CalendarSpec, ...]]:
        """What the calendar with those it is based on said at any time within a span."""
        moments = {from_at}
        names = {name}
        for _ in range(MAX_CHAIN):
            named = [each for n in names for each in self.periods.get(n, ())]
            moments |= {each.until_at for each in named if from_at <= each.until_at < to_at}
            bases = {e.spec.base for e in named if e.spec is not None and e.spec.base is not None}
            if bases <= names:
                break
            names |= bases
        return [self._chain(name, moment) for moment in sorted(moments)]

    def calendar_at(self, name: str, moment: int) -> Calendar | None:
        """The calendar with those it is based on as it stood just after a moment; None: it was
        not there.
        """
        found: Calendar | None = None
        chain = self._chain(name, moment)
        names = [name, *(each.base for each in chain)]
        for spec, own_name in reversed(list(zip(chain, names, strict=False))):
            found = Calendar(name=own_name or name, version=1, spec=spec, base=found)
        return found

    def _chain(self, name: str | None, moment: int) -> tuple[CalendarSpec, ...]:
        """As it stood just after a moment."""
        found: list[CalendarSpec] = []
        while name is not None and len(found) < MAX_CHAIN:
            said = next((e for e in self.periods.get(name, ()) if e.until_at > moment), None)
            if said is None or said.spec is None:
                break
            found.append(said.spec)
            name = said.spec.base
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What was the case for all triggers."""

    pauses: Sequence[PausePeriod] = ()
    calendars: CalendarsPast = CalendarsPast()
    purged: Sequence[PurgedRuns] = ()
    kept_from: int = 0  # ended runs that were scheduled before it are deleted
