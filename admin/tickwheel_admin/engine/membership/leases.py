"""Renews the lease of this admin and those of the nodes it hears from."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.membership.admission import NodeAdmission
from tickwheel_admin.engine.ports import NodeLinks
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import DatabaseUnavailable, Store
from tickwheel_admin.store.executors.admins import live_admin_urls, renew_admin
from tickwheel_admin.store.executors.node_leases import renew_leases
from tickwheel_admin.store.executors.tokens import executors_of_tokens
from tickwheel_admin.store.runs.events.feed import renew_interest
from tickwheel_admin.store.system.moved import DatabaseMove, read_move

log = structlog.get_logger(__name__)

STEADY_SECONDS = 15.0  # of renewals without a gap, before this admin may declare anything dead
MAX_GAP_SECONDS = 6.0  # between two renewals; more means a freeze or an outage
# Nodes of one transaction, and heartbeats that are acknowledged without a pause: claims wait for
# the rows of their nodes, and whatever is on its way waits for the loop.
RENEWED_AT_ONCE = 500
ACKNOWLEDGED_AT_ONCE = 50
RENEWALS_TIMED = 15
RENEWALS_PER_LEASE = 8
MAX_STEP_SECONDS = 2.0  # of database time against our own; more means a clock was set


class Leases(Loop):
    """Renews leases, acknowledges heartbeats, and knows whether its own view can be trusted."""

    interval_seconds = 2.0

    def __init__(
        self,
        store: Store,
        links: NodeLinks,
        admission: NodeAdmission,
        *,
        admin_id: int,
        enter: Callable[[], Awaitable[None]],
        wall_clock: Callable[[], int],
        status: Callable[[], str],
        moved: Callable[[DatabaseMove], None] = lambda move: None,
    ) -> None:
        """Start without trust in this admin's own view.

        Args:
            enter: announces this admin again, after others declared it dead.
            wall_clock: this machine's own, in UTC epoch ms; only shown beside the database's.
            status: the status of this admin as JSON.
            moved: is told when the installation is moved to another database: this admin must stop.
        """
        super().__init__()
        self._store = store
        self._links = links
        self._admission = admission
        self._admin_id = admin_id
        self._enter = enter
        self._wall_clock = wall_clock
        self._status = status
        self._moved = moved
        self.clock_offset_ms: int | None = None  # the database's clock less our own
        self._steady_since: float | None = None
        self._offsets: deque[float] = deque(maxlen=RENEWALS_PER_LEASE)  # of the database's clock
        self._took: deque[float] = deque(maxlen=RENEWALS_TIMED)  # seconds
        self._renewed_at = 0.0
        self._database_at = 0

    async def run_once(self) -> bool:
        heard = dict(self._links.heartbeats())
        tokens = dict(self._links.tokens())
        asked_at = asyncio.get_running_loop().time()
        # However long this pass takes: heartbeats are acknowledged by the next one.
        self.aim_at(asked_at + self.interval_seconds)
        try:
            renewed = await self._renew_all(sorted(heard), set(tokens.values()))
        except DatabaseUnavailable:
            self._steady_since = None
            raise
        self._took.append(asyncio.get_running_loop().time() - asked_at)
        self._note_renewal(asked_at, renewed.database_at)
        if renewed.move is not None:
            self._moved(renewed.move)
            return False
        live = set(renewed.targets)
        if renewed.known:
            self._links.announce_admins(
                renewed.admins
            )  # nodes do not know admins that started after them
        else:
            log.warning("admin.evicted")
            live = set()  # our sessions were deleted with our row: every node must say hello again
            await self._enter()
        for some in _parts(sorted(live), ACKNOWLEDGED_AT_ONCE):
            self._links.acknowledge({node_id: heard[node_id] for node_id in some})
            await asyncio.sleep(0)
        for node_id in sorted(heard.keys() - live):
            # It was declared dead meanwhile: only a new hello brings it back.
            self._links.disconnect(node_id, "lease over")
        self._links.set_targets(renewed.targets)  # every admin does, over its own sockets
        for node_id, token_hash in tokens.items():
            if token_hash not in renewed.valid_tokens:
                log.warning("node.token_revoked", node_id=node_id)
                self._links.disconnect(node_id, "the executor token was revoked")
        return False

    async def _renew_all(self, node_ids: Sequence[int], token_hashes: Collection[str]) -> _Renewal:
        """A part of the nodes at a time, each as if it were all: nothing is renewed any more once
        the installation is moved, or this admin was declared dead.
        """
        first, *others = _parts(node_ids, RENEWED_AT_ONCE)
        renewed = await self._renew(first, token_hashes)
        for some in others:
            if renewed.move is not None or not renewed.known:
                break
            more = await self._renew(some, token_hashes)
            renewed = replace(
                more, targets=renewed.targets | more.targets, database_at=renewed.database_at
            )
        return renewed

    async def _renew(self, node_ids: Sequence[int], token_hashes: Collection[str]) -> _Renewal:
        return await self._store.run(_renew, self._admin_id, node_ids, token_hashes, self._status())

    @property
    def renewal_ms(self) -> int | None:
        """What a renewal took, the median of half a minute; None: there was none yet."""
        return round(median(self._took) * 1000) if self._took else None

    def may_expire(self) -> bool:
        """Whether for 15 s renewals had no gap, clocks were steady and nodes were admitted in time.

        Slow admission delays this by a minute at most.
        """
        now = asyncio.get_running_loop().time()
        if self._steady_since is None or now - self._renewed_at > MAX_GAP_SECONDS:
            return False
        steady_from = self._steady_since + STEADY_SECONDS
        return now >= steady_from and not self._admission.delays_expiry(since=steady_from)

    def distrust_clock(self, event: str, **why: float) -> None:
        """Declare nothing dead for the next 15 s: this clock or the database's was set."""
        log.warning(event, **why)
        self._steady_since = None

    def expected_database_ms(self) -> int | None:
        """What the database's clock should say now; None: unknown.

        The next renewal notices that a clock was set. Until then, a transaction that ends
        anything compares the clocks itself (`clock_is_steady`).
        """
        if self._steady_since is None:
            return None
        passed = asyncio.get_running_loop().time() - self._renewed_at
        return self._database_at + int(passed * 1000)

    def _note_renewal(self, asked_at: float, database_at: int) -> None:
        gap = asked_at - self._renewed_at
        # Compared over a whole lease: several small steps may add up to one that shortens leases.
        offset = database_at / 1000 - asked_at
        step = max((abs(offset - earlier) for earlier in self._offsets), default=0.0)
        if self._steady_since is not None and (gap > MAX_GAP_SECONDS or step > MAX_STEP_SECONDS):
            self.distrust_clock(
                "leases.unsteady", gap_seconds=round(gap, 3), step_seconds=round(step, 3)
            )
        if self._steady_since is None:
            self._steady_since = asked_at
            self._offsets.clear()
        self._offsets.append(offset)
        self._renewed_at, self._database_at = asked_at, database_at
        self.clock_offset_ms = database_at - self._wall_clock()


def _parts(node_ids: Sequence[int], size: int) -> list[Sequence[int]]:
    """All of them, so many at a time; one part at least, be it empty."""
    return [node_ids[start : start + size] for start in range(0, max(len(node_ids), 1), size)]


def clock_is_steady(conn: sa.Connection, expected_ms: int | None) -> bool:
    """Whether the database's clock says what an admin expects, so that deadlines can be trusted.

    Args:
        expected_ms: as `Leases.expected_database_ms` said before the transaction; None: unknown,
            and nothing is compared.
    """
    return expected_ms is None or abs(now_ms(conn) - expected_ms) <= MAX_STEP_SECONDS * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renewal:
    """What one renewal found."""

    move: DatabaseMove | None  # where the installation goes; None: it stays here
    known: bool  # this admin's own row was there
    admins: list[str]  # base URLs of all live ones
    targets: dict[int, NodeTargets]  # of the nodes whose leases were renewed
    valid_tokens: set[str]
    database_at: int  # of the first part, which `asked_at` is compared with


def _renew(
    conn: sa.Connection,
    admin_id: int,
    node_ids: Iterable[int],
    token_hashes: Iterable[str],
    status: str,
) -> _Renewal:
    move = read_move(conn)
    if move is not None:  # whoever moves it waits until no lease is left: none is renewed
        return _Renewal(
            move=move,
            known=True,
            admins=[],
            targets={},
            valid_tokens=set(),
            database_at=now_ms(conn),
        )
    renew_interest(conn)
    known = renew_admin(conn, admin_id=admin_id, status=status)
    return _Renewal(
        move=None,
        known=known,
        admins=live_admin_urls(conn),
        targets=renew_leases(conn, node_ids, admin_id=admin_id),
        valid_tokens=set(executors_of_tokens(conn, token_hashes)),
        database_at=now_ms(conn),
    )
