"""When a trigger fires: one interface over every kind of schedule.

`parse` turns a trigger's spec into a `Schedule`. Planning, previews and edits know nothing else.
"""

from __future__ import annotations

from functools import lru_cache

from tickwheel_admin.domain.calendar import Calendar
from tickwheel_admin.domain.schedule.base import Schedule as Schedule
from tickwheel_admin.domain.schedule.base import ScheduleError as ScheduleError
from tickwheel_admin.domain.schedule.cron import UnixCron
from tickwheel_admin.domain.schedule.fixed import FixedDelay, FixedRate, Once
from tickwheel_admin.domain.trigger import TriggerKind, TriggerSpec


@lru_cache(maxsize=20_000)
def parse(spec: TriggerSpec, *, saved_at: int, calendar: Calendar | None = None) -> Schedule:
    """The schedule a spec describes.

    Args:
        saved_at: UTC epoch ms; the anchor of a fixed rate that names none.
        calendar: what `spec.calendar` names; None: no fire is taken away.

    Raises:
        ScheduleError: the spec cannot be understood, or could never fire.
    """
    match spec.kind:
        case TriggerKind.CRON:
            return UnixCron(spec)
        case TriggerKind.FIXED_RATE:
            return FixedRate(spec, saved_at=saved_at)
        case TriggerKind.FIXED_DELAY:
            return FixedDelay(spec, saved_at=saved_at)
        case TriggerKind.ONCE:
            return Once(spec)
        case TriggerKind.CALENDAR_INTERVAL | TriggerKind.DAILY_WINDOW:
            raise ScheduleError("kind", "This kind of trigger is not known here.")
