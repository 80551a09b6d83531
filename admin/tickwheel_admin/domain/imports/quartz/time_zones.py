"""Names of time zones as Java has them."""

from __future__ import annotations

import re

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import zone_of

# Of `java.time.ZoneId.SHORT_IDS`, where the zone database has no such name or means another zone.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_OFFSET = re.compile(r"GMT([+-])([0-9]{1,2})(?::?00)?")


def zone_name(java: str) -> str:
    """The IANA name; raises ScheduleError."""
    name = _SHORT.get(java, java)
    if match := _OFFSET.fullmatch(name):
        # POSIX counts the other way round.
        hours = int(match[2])
        name = f"Etc/GMT{'-' if match[1] == '+' else '+'}{hours}" if hours else "UTC"
    return zone_of(name).name


def is_zone(java: str) -> bool:
    """Whether there is such a zone here."""
    try:
        zone_name(java)
    except ScheduleError:
        return False
    return True
