"""Admins that do not keep up."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.admin_status import (
    AdminStatus,
    LoopStall,
    TlsStatus,
    status_from_json,
)
from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.executors.node import ADMIN_LEASE_MS
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
)
from tickwheel_admin.services.system.service import loop_label
from tickwheel_admin.store.overview.overview import StoredAdmin, list_admins

MAX_ADMINS = 200
STANDSTILL_MS = 30_000
# They rest for up to five minutes; auditing an hour of thousands of triggers, and a forecast for
# those with windows, take a while, too.
SLOW_LOOPS = {
    "cleaner": 100_000,
    "rollup": 400_000,
    "selfaudit": 400_000,
    "windowplacer": 100_000,
    "deadlineforecaster": 100_000,
    "coveragewatcher": 100_000,
}
RENEWAL_MS = 8_000  # an admin renews its lease every two seconds
MAX_OFFSET_MS = 2_000
DAY_MS = 86_400_000
EXPIRES_SOON_MS = 14 * DAY_MS
EXPIRES_NOW_MS = 3 * DAY_MS
SLOW_DATABASE_MS = 1_000  # of a transaction that takes milliseconds


def admins_behind(conn: sa.Connection, *, now: int) -> list[Concern]:
    """Admins that are gone without a goodbye, stand still, fail, or have another time."""
    looked_at = (
        _worst_of(admin, status_from_json(admin.status), now=now)
        for admin in list_admins(conn, limit=MAX_ADMINS)
    )
    return [each for each in looked_at if each is not None][:PER_KIND]


def database_slow(conn: sa.Connection, *, now: int) -> list[Concern]:
    """Whether small transactions take long, as the admin that waits longest for them sees it."""
    slowest: tuple[int, str] | None = None
    for admin in list_admins(conn, limit=MAX_ADMINS):
        took = status_from_json(admin.status).database_ms
        is_fresh = admin.lease_expires_at - ADMIN_LEASE_MS >= now - RENEWAL_MS
        if is_fresh and took is not None and took > SLOW_DATABASE_MS:
            slowest = max(slowest or (0, ""), (took, admin.name))
    if slowest is None:
        return []
    return [
        Concern(
            kind=AlarmKind.DATABASE_SLOW,
            severity=Severity.WARNING,
            template="A small transaction of the admin “%(admin)s” takes %(ms)d ms.",
            params={"ms": slowest[0], "admin": slowest[1]},
        )
    ]


def _worst_of(admin: StoredAdmin, status: AdminStatus, *, now: int) -> Concern | None:
    """The worst that can be said of an admin."""
    renewed_at = admin.lease_expires_at - ADMIN_LEASE_MS
    if renewed_at < now - RENEWAL_MS:
        return _of_admin(
            admin, template="The admin “%(admin)s” does not renew its lease.", since=renewed_at
        )
    for name, loop in sorted(status.loops.items()):
        if loop.failing:
            return _of_admin(
                admin,
                template="“%(loop)s” fails on the admin “%(admin)s”.",
                loop=loop_label(name),
            )
        passed_at = admin.started_at
        if loop.last_pass_ms_ago is not None:
            passed_at = renewed_at - loop.last_pass_ms_ago
        if passed_at < now - SLOW_LOOPS.get(name, STANDSTILL_MS):
            return _of_admin(
                admin,
                template="“%(loop)s” stands still on the admin “%(admin)s”.",
                since=passed_at,
                loop=loop_label(name),
            )
    if status.stall is not None:
        return _of_admin(
            admin,
            severity=Severity.WARNING,
            template=str(_STALLED[bool(place := _place(status.stall))]),
            since=renewed_at - status.stall.ms_ago,
            stalled_ms=status.stall.milliseconds,
            place=place,
        )
    if status.tls is not None and (about := _of_certificate(admin, status.tls, now=now)):
        return about
    offset = status.clock_offset_ms
    if offset is not None and abs(offset) > MAX_OFFSET_MS:
        return _of_admin(
            admin,
            severity=Severity.WARNING,
            template="The clock of “%(admin)s” differs from the database’s by %(seconds)s s.",
            seconds=f"{abs(offset) / 1000:.1f}",
        )
    return None


def _of_certificate(admin: StoredAdmin, tls: TlsStatus, *, now: int) -> Concern | None:
    if tls.expires_at <= now:
        return _of_admin(
            admin,
            template="The TLS certificate of the admin “%(admin)s” has expired: nodes and browsers"
            " refuse it.",
            since=tls.expires_at,
        )
    if tls.problem:
        return _of_admin(
            admin,
            severity=Severity.WARNING,
            template="The admin “%(admin)s” still uses its earlier TLS files: %(problem)s",
            problem=tls.problem,
        )
    if tls.expires_at < now + EXPIRES_SOON_MS:
        is_urgent = tls.expires_at < now + EXPIRES_NOW_MS
        return _of_admin(
            admin,
            severity=Severity.ERROR if is_urgent else Severity.WARNING,
            template="The TLS certificate of the admin “%(admin)s” expires in %(days)s days.",
            days=(tls.expires_at - now) // DAY_MS,
        )
    return None


def _place(stall: LoopStall) -> str:
    """Where it was held up; "" if no code of ours was at work."""
    return ", ".join(part for part in (stall.request, stall.place) if part)


_STALLED = {
    True: Word(
        "The event loop of the admin “%(admin)s” was blocked for %(stalled_ms)s ms: %(place)s."
    ),
    False: Word(
        "The event loop of the admin “%(admin)s” was blocked for %(stalled_ms)s ms: its process got"
        " no processor time. Look at the load of its machine."
    ),
}


def _of_admin(
    admin: StoredAdmin,
    *,
    template: str,
    severity: Severity = Severity.ERROR,
    since: int | None = None,
    **params: Any,
) -> Concern:
    return Concern(
        kind=AlarmKind.ADMIN_BEHIND,
        severity=severity,
        template=template,
        params={"admin": admin.name} | params,
        since=since,
        admin_id=admin.id,
        admin_name=admin.name,
    )
