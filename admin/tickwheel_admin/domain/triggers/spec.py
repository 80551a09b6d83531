"""What people say about when a job fires: what all kinds of triggers share, and what each answers.

A kind is one module of `kinds`: a subclass with its fields, which reads them from requests, makes
a schedule of them, and says them in words. `kinds.KINDS` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Self

from msgspec import Struct, structs

from tickwheel_admin.domain.fields import Fields, instant_to_iso
from tickwheel_admin.domain.schedule.allowed_grid import WallCalendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.describe.words import Translate
from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.triggers.own_fields import OwnField
from tickwheel_admin.domain.triggers.reason import Reason, between_fires

MISFIRE_THRESHOLD_MS = 5_000
MAX_CATCH_UP = 1_000
MAX_JITTER_MS = 3_600_000
MAX_REPEAT_COUNT = 1_000_000


class MisfirePolicy(StrEnum):
    """What happens with fires that could not be planned within the threshold."""

    FIRE_ONCE = "fire_once"  # one run now, for the latest missed instant
    SKIP = "skip"  # one skipped run that says how many were missed
    FIRE_ALL = "fire_all"  # a run for each, oldest first; beyond the latest 1,000 as with skip


class TriggerSpec(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What a person says about a trigger, of any kind; stored as JSON and compared as a whole."""

    kind: ClassVar[str]  # stored, and named in requests
    has_wall_times: ClassVar[bool] = False  # what it fires at are wall times, not instants
    follows_runs: ClassVar[bool] = False  # the end of each run says when it fires next
    is_placed: ClassVar[bool] = False  # the engine chooses when, within what people say
    is_proven_to_fire: ClassVar[bool] = False  # making its schedule refuses one without instants
    field_of_times: ClassVar[str] = "gap"  # what to change when the clocks skip all its instants

    timezone: str | None = None  # IANA name, None: UTC; of wall times and of the calendar's days
    start_at: int | None = None  # no fire before this instant
    end_at: int | None = None  # no fire after this instant
    repeat_count: int | None = None  # 1..MAX_REPEAT_COUNT runs, then complete; None: no end
    calendar: str | None = None  # name of the calendar that takes fires away
    jitter_ms: int = 0  # 0..MAX_JITTER_MS: runs are due up to so much after their instant
    priority: int | None = None  # 1..9 instead of the job's
    parameters: str | None = None  # JSON object over the job's parameters, key by key
    misfire: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    misfire_threshold_ms: int = MISFIRE_THRESHOLD_MS  # 1,000..86,400,000
    catch_up_limit: int = MAX_CATCH_UP  # 1..1,000, fire_all: the latest so many missed fires run

    # --- when it fires ---------------------------------------------------------------------

    def schedule(self, *, saved_at: int, calendar: WallCalendar | None) -> Schedule:
        """Its instants, without its bounds.

        Args:
            calendar: what it leaves of wall times, for kinds that have them.

        Raises:
            ScheduleError: the fields cannot be understood.
        """
        raise NotImplementedError

    def first_at(self, saved_at: int) -> int:
        """When one that follows runs fires first; raises ScheduleError."""
        raise NotImplementedError

    @property
    def delay_ms(self) -> int:
        """How long after the end of a run one that follows runs fires next."""
        raise NotImplementedError

    @property
    def counts_from_save(self) -> bool:
        """Whether its instants depend on when it is saved."""
        return self.follows_runs

    def unbounded(self) -> Self:
        """The same instants, and those before its start and after its end."""
        return structs.replace(self, start_at=None, end_at=None)

    def anchored(self, at: int) -> Self:
        """The same instants, of which `at` is one, whenever it is saved."""
        return self

    def as_written(self) -> Self:
        """What people say: without what the engine has chosen."""
        return self

    def placed_as(self, others: Iterable[TriggerSpec]) -> Self:
        """The same; the engine's choice for one of others that this one stands for holds."""
        return self

    def never_fires(self) -> ScheduleError:
        """What is wrong with one that has no instant within its bounds."""
        if self.end_at is not None:
            return ScheduleError(
                "end_at",
                "This never fires: there is no instant up to %(end)s; choose a later end.",
                end=instant_to_iso(self.end_at),
            )
        if self.start_at is not None:
            return ScheduleError(
                "start_at",
                "This never fires: there is no instant from %(start)s on; choose an earlier start.",
                start=instant_to_iso(self.start_at),
            )
        return ScheduleError(
            self.field_of_times, "This never fires: the clocks skip each of its wall times."
        )

    # --- as people and programs write it ---------------------------------------------------

    @staticmethod
    def own_fields(_: Translate) -> Sequence[OwnField]:
        """What people say about it beside what all kinds share, in the order of the form."""
        raise NotImplementedError

    @staticmethod
    def read_own(fields: Fields) -> dict[str, Any]:
        """Its own fields from a request, by the names they have here; notes what is wrong."""
        raise NotImplementedError

    def own_to_raw(self) -> dict[str, Any]:
        """What `read_own` reads as its own fields; every one of `own_fields` is named."""
        raise NotImplementedError

    # --- in words --------------------------------------------------------------------------

    @staticmethod
    def name_and_hint(_: Translate) -> tuple[str, str]:
        """What the kind is called, and when it is right."""
        raise NotImplementedError

    def describe(self, _: Translate) -> str:
        """When it fires; the caller adds the time zone of wall times where it matters.

        An expression that is refused stands for itself.
        """
        raise NotImplementedError

    def describe_own(self, _: Translate) -> list[str]:
        """A sentence for each of its own fields that `describe` leaves out."""
        return []

    def why_not_on(self, day: int, everything: Schedule, zone: Zone) -> Iterable[Reason]:
        """Which of its rules stand against a date; none when only the clocks do.

        Args:
            day: days since 1970-01-01.
            everything: the schedule of `unbounded`.
        """
        return (between_fires(day, everything, zone),)


class WallTimeSpec(TriggerSpec, frozen=True, kw_only=True):
    """Of kinds whose fires are wall times: what happens when the clocks change."""

    has_wall_times: ClassVar[bool] = True

    gap: Gap = Gap.FIRE
    overlap: Overlap = Overlap.AUTO
