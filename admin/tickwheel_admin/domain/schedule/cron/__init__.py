"""Tickwheel's own cron engine: three dialects, exact at every change of the clocks, and fast.

    text, dialect → parser → Field × 7 → CronExpression (masks, days by month shape)
    CronExpression, Zone, gap, overlap, calendar → Cron (a Schedule)

A search runs on integers: bit masks find the next second, minute, hour and day in local seconds,
and the rules for transitions are looked at only when the answer leaves a zone's segment.
"""

from tickwheel_admin.domain.schedule.cron.expression import MACROS as MACROS
from tickwheel_admin.domain.schedule.cron.expression import (
    MAX_EXPRESSION_CHARS as MAX_EXPRESSION_CHARS,
)
from tickwheel_admin.domain.schedule.cron.expression import CronExpression as CronExpression
from tickwheel_admin.domain.schedule.cron.expression import parse_cron as parse_cron
from tickwheel_admin.domain.schedule.cron.fields import FieldKind as FieldKind
from tickwheel_admin.domain.schedule.cron.schedule import Cron as Cron
from tickwheel_admin.domain.schedule.cron.tokens import Field as Field
