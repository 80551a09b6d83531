"""A fixed rate: every so often, without drift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from msgspec import structs

from tickwheel_admin.domain.fields import Fields, optional_iso
from tickwheel_admin.domain.schedule.allowed_grid import WallCalendar
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.describe.words import Translate, every, moment
from tickwheel_admin.domain.triggers.kinds.lengths import is_length, read_every, seconds_to_raw
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.spec import TriggerSpec


class FixedRateSpec(TriggerSpec, frozen=True, kw_only=True, tag="fixed_rate"):
    """Fires at anchor + k * every."""

    kind: ClassVar[str] = "fixed_rate"

    every_ms: int | None = None
    anchor_at: int | None = None  # None: start_at, or when it is saved

    def schedule(self, *, saved_at: int, calendar: WallCalendar | None) -> FixedRate:
        if self.every_ms is None or not is_length(self.every_ms):
            raise ScheduleError(
                "every_seconds",
                "A fixed rate needs an interval from 0.1 seconds to 366 days.",
            )
        start = saved_at if self.start_at is None else self.start_at
        anchor = start if self.anchor_at is None else self.anchor_at
        return FixedRate(anchor=anchor, every=self.every_ms)

    @property
    def counts_from_save(self) -> bool:
        return self.anchor_at is None

    def unbounded(self) -> Self:
        anchor = self.start_at if self.anchor_at is None else self.anchor_at
        return structs.replace(self, start_at=None, end_at=None, anchor_at=anchor)

    def anchored(self, at: int) -> Self:
        return structs.replace(self, anchor_at=at) if self.anchor_at is None else self

    @staticmethod
    def own_fields(_: Translate) -> Sequence[OwnField]:
        return (
            OwnField(
                name="every_seconds",
                place="rate",
                input=Input.LENGTH,
                label=_("Every"),
                is_required=True,
                default="5",
                unit="m",
                hint=_("Counted from when it is saved; it never drifts, however long a run takes."),
            ),
            OwnField(
                name="anchor_at",
                input=Input.INSTANT,
                label=_("Counted from"),
                hint=_("Empty: from when it is saved."),
                is_seldom=True,
            ),
        )

    @staticmethod
    def read_own(fields: Fields) -> dict[str, Any]:
        return {"every_ms": read_every(fields), "anchor_at": fields.instant("anchor_at")}

    def own_to_raw(self) -> dict[str, Any]:
        return {
            "every_seconds": seconds_to_raw(self.every_ms),
            "anchor_at": optional_iso(self.anchor_at),
        }

    @staticmethod
    def name_and_hint(_: Translate) -> tuple[str, str]:
        return _("Fixed rate"), _("Every so often, however long its runs take. It never drifts.")

    def describe(self, _: Translate) -> str:
        return every(self.every_ms or 0, _)

    def describe_own(self, _: Translate) -> list[str]:
        if self.anchor_at is None:
            return []
        return [_("Counted from %(moment)s UTC") % {"moment": moment(self.anchor_at)}]


class FixedRate:
    """anchor + k * every for every k >= 0: no drift, however late a run is."""

    def __init__(self, *, anchor: int, every: int) -> None:
        self._anchor = anchor
        self._every = every

    def next_after(self, instant: int) -> int | None:
        if instant < self._anchor:
            return self._anchor
        return self._anchor + ((instant - self._anchor) // self._every + 1) * self._every

    def last_before(self, instant: int) -> int | None:
        if instant <= self._anchor:
            return None
        return self._anchor + ((instant - 1 - self._anchor) // self._every) * self._every
