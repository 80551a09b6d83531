"""Audits what executors of the protocol tried and may not; an attacker cannot fill the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.users.throttle import network_of
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

AGAIN_SECONDS = 60.0  # between two entries of one kind and one caller
MOST_PER_MINUTE = 100  # entries of all callers together; what comes beyond is only logged
NOBODY = "xxl-job executor"  # the user of the entries


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlRefusal:
    """A request that was refused."""

    kind: str  # stable: token_wrong, app_unknown, foreign_app, foreign_run, …
    message: str  # what the caller was told
    address: str  # of the caller
    path: str
    executor_id: int | None = None  # whose name was used, if it is known


class XxlRefusals:
    """Counted in memory, by each admin separately. Used from the event loop's thread only."""

    def __init__(self, store: Store, ids: Ids, *, clock: Callable[[], float]) -> None:
        """`clock` gives seconds of any origin."""
        self._transactions = AuditedTransactions(store, ids)
        self._clock = clock
        self._noted: dict[tuple[str, str], float] = {}  # when, by kind and network; of a minute

    async def note(self, refusal: XxlRefusal) -> bool:
        """Write an entry; False: there was one a moment ago, or too many of others."""
        now = self._clock()
        self._noted = {key: at for key, at in self._noted.items() if now - at < AGAIN_SECONDS}
        key = refusal.kind, network_of(refusal.address)
        if key in self._noted or len(self._noted) >= MOST_PER_MINUTE:
            return False
        self._noted[key] = now

        def write(conn: sa.Connection, entry: AuditEntry) -> None:
            entry.write(
                "executor.xxl_refused",
                executor_id=refusal.executor_id,
                object_id=refusal.executor_id,
                kind=refusal.kind,
                message=refusal.message,
                path=refusal.path,
            )

        actor = Actor(user_id=0, name=NOBODY, grants={}, address=refusal.address)
        await self._transactions.run(actor, write)
        return True
