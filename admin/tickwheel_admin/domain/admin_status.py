"""How an admin does, in the words that its row keeps for people and other admins."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class LoopStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One background loop."""

    last_pass_ms_ago: int | None  # None: no pass has succeeded yet
    failing: bool


class LoopStall(msgspec.Struct, frozen=True, kw_only=True):
    """The longest time of the last ten minutes in which an admin did one thing and nothing else."""

    milliseconds: int
    ms_ago: int  # since its end
    count: int = 1  # how many such times there were
    place: str = ""  # "function (file:line)"; "": nobody knows
    request: str = ""  # "GET /jobs/{job_id}" when it was answering one


class TlsStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate that an admin shows."""

    expires_at: int  # UTC ms
    problem: str = ""  # why files that came later are not used; "": none did, or they are


class AdminStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One admin, a lease renewal ago at most."""

    clock_offset_ms: int | None = None  # the database's clock less its own; None: not known yet
    # What renewing its lease took, the median of half a minute; None: not known yet.
    database_ms: int | None = None
    sessions: int = 0  # nodes connected to it
    waiting: int = 0  # messages of nodes that are not recorded yet
    loops: Mapping[str, LoopStatus] = {}
    stall: LoopStall | None = None  # None: there was none
    changes: Mapping[
        str, int
    ] = {}  # topic of `services.events.events` → how often it changed there
    # Ids of the keys of its `secret_key`, the one that encrypts first; (): it has none; None: it
    # does not tell, being of an earlier version or just started.
    secret_keys: tuple[str, ...] | None = None
    tls: TlsStatus | None = None  # None: it speaks plain HTTP
    # Wall clocks of connected nodes less the database's, in ms, by node; the worst of those that
    # were far off when they connected.
    node_clocks: Mapping[int, int] = {}


def status_to_json(status: AdminStatus) -> str:
    """As the row keeps it."""
    return msgspec.json.encode(status).decode()


def status_from_json(text: str) -> AdminStatus:
    """What an admin of any version wrote; unknown fields are left out."""
    return msgspec.json.decode(text, type=AdminStatus)
