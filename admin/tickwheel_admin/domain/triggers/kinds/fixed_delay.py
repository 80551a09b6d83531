"""A fixed delay: so long after the end of the run before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tickwheel_admin.domain.fields import Fields, as_seconds
from tickwheel_admin.domain.schedule.allowed_grid import WallCalendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.describe.words import Translate, length
from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.triggers.kinds.lengths import (
    MAX_EVERY_MS,
    is_length,
    read_every,
    seconds_to_raw,
)
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.reason import Reason
from tickwheel_admin.domain.triggers.spec import TriggerSpec


class FixedDelaySpec(TriggerSpec, frozen=True, kw_only=True, tag="fixed_delay"):
    """Fires `every_ms` after the end of each of its runs."""

    kind: ClassVar[str] = "fixed_delay"
    follows_runs: ClassVar[bool] = True

    every_ms: int | None = None
    initial_delay_ms: int | None = None  # 0..366 days after it is saved; None: as every_ms

    def schedule(self, *, saved_at: int, calendar: WallCalendar | None) -> Schedule:
        raise ValueError("the end of a run says when a fixed delay fires")

    def first_at(self, saved_at: int) -> int:
        if self.every_ms is None or not is_length(self.every_ms):
            raise ScheduleError(
                "every_seconds", "A fixed delay needs a length from 0.1 seconds to 366 days."
            )
        initial = self.every_ms if self.initial_delay_ms is None else self.initial_delay_ms
        if not 0 <= initial <= MAX_EVERY_MS:
            raise ScheduleError(
                "initial_delay_seconds", "The first delay has a length from 0 seconds to 366 days."
            )
        return saved_at + initial

    @property
    def delay_ms(self) -> int:
        return self.every_ms or 0

    @staticmethod
    def own_fields(_: Translate) -> Sequence[OwnField]:
        return (
            OwnField(
                name="every_seconds",
                place="pause",
                input=Input.LENGTH,
                label=_("Pause after each run"),
                is_required=True,
                default="5",
                unit="m",
                hint=_(
                    "The next run begins this long after the one before has ended, however it"
                    " ended. Runs by hand do not count."
                ),
            ),
            OwnField(
                name="initial_delay_seconds",
                place="initial_delay",
                input=Input.LENGTH,
                label=_("Pause before the first run"),
                placeholder=_("the same"),
                unit="m",
                is_seldom=True,
            ),
        )

    @staticmethod
    def read_own(fields: Fields) -> dict[str, Any]:
        return {
            "every_ms": read_every(fields),
            "initial_delay_ms": fields.seconds_as_ms(
                "initial_delay_seconds", low_ms=0, high_ms=MAX_EVERY_MS
            ),
        }

    def own_to_raw(self) -> dict[str, Any]:
        return {
            "every_seconds": seconds_to_raw(self.every_ms),
            "initial_delay_seconds": seconds_to_raw(self.initial_delay_ms),
        }

    @staticmethod
    def name_and_hint(_: Translate) -> tuple[str, str]:
        return _("Fixed delay"), _("Some time after each of its runs has ended.")

    def describe(self, _: Translate) -> str:
        return _("%(length)s after each run has ended") % {"length": length(self.delay_ms, _)}

    def describe_own(self, _: Translate) -> list[str]:
        if self.initial_delay_ms is None:
            return []
        delay = length(self.initial_delay_ms, _)
        return [_("First run %(length)s after it is saved") % {"length": delay}]

    def why_not_on(self, day: int, everything: Schedule, zone: Zone) -> Iterable[Reason]:
        yield Reason(
            code="follows_run",
            template=(
                "It fires %(seconds)s seconds after each run ends; only its next fire is known."
            ),
            params={"seconds": as_seconds(self.delay_ms)},
        )
