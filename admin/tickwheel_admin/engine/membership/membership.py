"""Admins and nodes join and leave: what the database stores when sockets open and close."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.input.node_manifest import NodeManifest, Process
from tickwheel_admin.engine.batching import Coalescer
from tickwheel_admin.engine.membership.admission import NodeAdmission
from tickwheel_admin.engine.membership.clocks import NodeClocks
from tickwheel_admin.engine.membership.notices import notices_at_hello, notices_of
from tickwheel_admin.services.events.events import NODES, QUEUED, Events
from tickwheel_admin.services.jobs.declared.reconciler import DeclaredReconciler
from tickwheel_admin.store.database.database import DatabaseUnavailable, Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.admins import enter_admin, leave_admin, live_admin_urls
from tickwheel_admin.store.executors.node_leases import end_sessions
from tickwheel_admin.store.executors.nodes import (
    NAMESAKES,
    Arrival,
    StoredArrival,
    admit_nodes,
    open_namesakes,
    say_goodbye,
    set_draining,
)
from tickwheel_admin.store.executors.tokens import executors_of_tokens
from tickwheel_admin.store.system.moved import read_move
from tickwheel_admin.store.triggers.planning import ensure_buckets
from tickwheel_shared.protocol import Notice

log = structlog.get_logger(__name__)

NODES_PER_BATCH = 200  # that connect or disconnect in one transaction
TOKENS_PER_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedNode:
    """A node's place at this admin."""

    node_id: int
    session_id: int
    slots: int | None  # set by an operator; None: as many as it said
    admins: list[str]  # base URLs of all live admins
    process: Process
    manifest_is_read: bool  # what the process says of its code
    clock_offset_ms: int | None  # its wall clock less the database's; None: it does not tell
    notices: Sequence[Notice] = ()  # what the people who look after the node should know


class Membership:
    """This admin's own entry, and the nodes that connect to it."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        events: Events,
        *,
        admin_id: int,
        name: str,
        url: str,
        version: str,
    ) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._admin_id = admin_id
        self._name = name
        self._url = url
        self._version = version
        self._reconciler = DeclaredReconciler(store, ids, events)
        self.admission = NodeAdmission()
        self.clocks = NodeClocks()
        # When a thousand nodes connect at once, one transaction for each would take so long that
        # waiting nodes give up, connect again, and wait behind the others.
        self._tokens = Coalescer(self._executors_of, limit=TOKENS_PER_BATCH)
        self._arrivals = Coalescer(self._admit, limit=NODES_PER_BATCH)
        self._disconnects = Coalescer(self._end_sessions, limit=NODES_PER_BATCH)

    @property
    def name(self) -> str:
        """The name of this admin, for people."""
        return self._name

    async def enter(self) -> None:
        """Announce this admin; again, if its row was deleted during a long freeze."""
        await self._store.run(
            _enter, admin_id=self._admin_id, name=self._name, url=self._url, version=self._version
        )

    async def leave(self) -> None:
        """Remove this admin's row at once."""
        await self._store.run(leave_admin, admin_id=self._admin_id)

    async def executor_of(self, token_hash: str) -> tuple[int, str] | None:
        """(id, name) of the executor whose token has this SHA-256, in hex.

        Raises:
            Unavailable: the database does not answer.
        """
        try:
            with self.admission.measured():
                return await self._tokens.submit(token_hash)
        except DatabaseUnavailable as error:
            raise _unavailable() from error

    async def admit(self, arrival: Arrival) -> AdmittedNode:
        """Store a node that said hello; raises Unavailable like `executor_of`."""
        try:
            with self.admission.measured():
                admitted = await self._arrivals.submit(arrival)
        except DatabaseUnavailable as error:
            raise _unavailable() from error
        self.clocks.note(
            admitted.node_id, session_id=admitted.session_id, offset_ms=admitted.clock_offset_ms
        )
        self._events.publish(NODES)
        return admitted

    async def read_manifest(self, admitted: AdmittedNode, manifest: NodeManifest) -> list[Notice]:
        """Process what a new process declares of its code; returns notices for its log.

        Raises:
            Unavailable: not all of it was stored; the same manifest may be processed again.
        """
        try:
            proposed = await self._reconciler.take(admitted.process, manifest)
        except DatabaseUnavailable as error:
            raise _unavailable() from error
        return notices_of(admitted.process.executor_id, proposed)

    def opened(self) -> None:
        """This admin may send runs to a node: some may be waiting for it."""
        self._events.publish(QUEUED)

    async def disconnected(self, *, node_id: int, session_id: int) -> None:
        """A node's socket closed."""
        self.clocks.forget(node_id, session_id=session_id)
        try:
            await self._disconnects.submit((session_id, node_id))
        except DatabaseUnavailable:
            # The lease ends by itself; it only takes longer.
            log.warning("node.parting_unrecorded", node_id=node_id)
        self._events.publish(NODES)

    async def drain(self, *, node_id: int, draining: bool) -> bool:
        """A node reported that it takes no new runs, or takes them again; False: not stored."""
        try:
            await self._store.run(set_draining, node_id=node_id, draining=draining)
        except DatabaseUnavailable:
            # The node refuses runs by itself; the router does not know yet.
            log.warning("node.draining_unrecorded", node_id=node_id)
            return False
        self._events.publish(NODES)
        if not draining:
            self._events.publish(QUEUED)
        return True

    async def goodbye(self, *, node_id: int) -> None:
        """A node holds no run any more and leaves."""
        try:
            await self._store.run(say_goodbye, node_id=node_id)
        except DatabaseUnavailable:
            log.warning("node.goodbye_unrecorded", node_id=node_id)  # its lease runs out
        self._events.publish(NODES)

    # --- in batches ------------------------------------------------------------------------------

    async def _executors_of(self, token_hashes: Sequence[str]) -> list[tuple[int, str] | None]:
        found = await self._store.read(executors_of_tokens, token_hashes)
        return [found.get(token_hash) for token_hash in token_hashes]

    async def _admit(self, arrivals: Sequence[Arrival]) -> list[AdmittedNode]:
        new_ids = await self._ids.take_many("node", len(arrivals))
        session_ids = await self._ids.take_many("node_session", len(arrivals))
        return await self._store.run(
            _admit, arrivals, new_ids=new_ids, session_ids=session_ids, admin_id=self._admin_id
        )

    async def _end_sessions(self, sessions: Sequence[tuple[int, int]]) -> list[None]:
        await self._store.run(end_sessions, dict(sessions))
        return [None] * len(sessions)


def _unavailable() -> Unavailable:
    return Unavailable("database.unavailable", "The database does not answer; try again later.")


def _enter(conn: sa.Connection, *, admin_id: int, name: str, url: str, version: str) -> None:
    if move := read_move(conn):  # it was marked after this admin had looked
        raise DatabaseUnavailable(move.sentence)
    ensure_buckets(conn)
    enter_admin(conn, admin_id=admin_id, name=name, url=url, version=version)


def _admit(
    conn: sa.Connection,
    arrivals: Sequence[Arrival],
    *,
    new_ids: Sequence[int],
    session_ids: Sequence[int],
    admin_id: int,
) -> list[AdmittedNode]:
    stored = admit_nodes(
        conn, arrivals, new_ids=new_ids, session_ids=session_ids, admin_id=admin_id
    )
    notices = _notices(
        conn, [pair for pair in zip(arrivals, stored, strict=True) if pair[1].is_new]
    )
    admins = live_admin_urls(conn)
    return [
        AdmittedNode(
            node_id=each.node_id,
            session_id=session_id,
            slots=each.slots_wanted,
            admins=admins,
            process=Process(
                executor_id=arrival.executor_id,
                node_id=each.node_id,
                name=arrival.name,
                connected_at=each.connected_at,
                address=arrival.address,
            ),
            manifest_is_read=each.manifest_is_read,
            clock_offset_ms=None if arrival.clock is None else arrival.clock - each.now,
            notices=notices.get(each.node_id, ()),
        )
        for arrival, each, session_id in zip(arrivals, stored, session_ids, strict=True)
    ]


def _notices(
    conn: sa.Connection, added: Sequence[tuple[Arrival, StoredArrival]]
) -> dict[int, list[Notice]]:
    """Notices for new processes, by node."""
    names: defaultdict[int, set[str]] = defaultdict(set)
    for arrival, _ in added:
        names[arrival.executor_id].add(arrival.name)
    shared = {each: open_namesakes(conn, each, names[each]) for each in sorted(names)}
    found = {}
    for arrival, stored in added:
        same = shared[arrival.executor_id].get(arrival.name, {})
        addresses = [address for node_id, address in same.items() if node_id != stored.node_id]
        found[stored.node_id] = notices_at_hello(
            arrival, namesakes=addresses[:NAMESAKES], now=stored.now
        )
    return found
