"""One instant, and never again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tickwheel_admin.domain.fields import Fields, instant_to_iso, optional_iso
from tickwheel_admin.domain.schedule.allowed_grid import WallCalendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.describe.words import Translate, moment
from tickwheel_admin.domain.schedule.single import Single
from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.reason import Reason, fires_around
from tickwheel_admin.domain.triggers.spec import TriggerSpec


class OnceSpec(TriggerSpec, frozen=True, kw_only=True, tag="once"):
    """Fires at one instant."""

    kind: ClassVar[str] = "once"

    at: int | None = None

    def schedule(self, *, saved_at: int, calendar: WallCalendar | None) -> Single:
        if self.at is None:
            raise ScheduleError("at", "A one-off trigger needs the instant at which it fires.")
        return Single(self.at)

    def never_fires(self) -> ScheduleError:
        return ScheduleError(
            "at",
            "%(at)s lies outside start_at and end_at, so this would never fire.",
            at=instant_to_iso(self.at or 0),
        )

    @staticmethod
    def own_fields(_: Translate) -> Sequence[OwnField]:
        return (
            OwnField(name="at", input=Input.INSTANT, label=_("Date and time"), is_required=True),
        )

    @staticmethod
    def read_own(fields: Fields) -> dict[str, Any]:
        fields.require("at")
        return {"at": fields.instant("at")}

    def own_to_raw(self) -> dict[str, Any]:
        return {"at": optional_iso(self.at)}

    @staticmethod
    def name_and_hint(_: Translate) -> tuple[str, str]:
        return _("Once"), _("At one instant, and never again.")

    def describe(self, _: Translate) -> str:
        return _("Once at %(moment)s UTC") % {"moment": moment(self.at or 0)}

    def why_not_on(self, day: int, everything: Schedule, zone: Zone) -> Iterable[Reason]:
        before, after = fires_around(day, everything, zone)
        at = after if before is None else before
        yield Reason(
            code="another_instant",
            template="It fires once only, at %(at)s.",
            params={"at": instant_to_iso(at or 0)},
        )
