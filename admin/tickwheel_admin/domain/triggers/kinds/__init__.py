"""The kinds of triggers, one module each. A new kind is named here, and known everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from tickwheel_admin.domain.triggers.kinds.calendar_interval import CalendarIntervalSpec
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec

AnySpec = (
    CronSpec
    | FixedRateSpec
    | FixedDelaySpec
    | OnceSpec
    | CalendarIntervalSpec
    | DailyWindowSpec
    | WindowSpec
)
# In the order in which people are offered them; a job without triggers fires by hand or API only.
KINDS: Mapping[str, type[AnySpec]] = {kind.kind: kind for kind in get_args(AnySpec)}
