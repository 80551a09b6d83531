"""How an admin does, in the words that its row keeps for people and other admins."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class LoopStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One background loop."""

    last_pass_ms_ago: int | None  # None: no pass has succeeded yet
    failing: bool


class AdminStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One admin, a lease renewal ago at most."""

    clock_offset_ms: int | None = None  # the database's clock less its own; None: not known yet
    sessions: int = 0  # nodes connected to it
    waiting: int = 0  # messages of nodes that are not recorded yet
    loops: Mapping[str, LoopStatus] = {}
    changes: Mapping[str, int] = {}  # topic of `services.events` → how often it changed there


def status_to_json(status: AdminStatus) -> str:
    """As the row keeps it."""
    return msgspec.json.encode(status).decode()


def status_from_json(text: str) -> AdminStatus:
    """What an admin of any version wrote; unknown fields are left out."""
    return msgspec.json.decode(text, type=AdminStatus)
