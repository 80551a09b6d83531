"""An engine on a real database, with sockets that only remember what was sent."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from aiohttp import web

from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.engine.engine import Engine
from tickwheel_admin.engine.ports import ClaimTime, RunTracer
from tickwheel_admin.links import endpoint
from tickwheel_admin.links.hub import LinkHub
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.nodes import Arrival
from tickwheel_shared.protocol import FromNode, Message, RunRequest

T = TypeVar("T", bound=Message)


@dataclass(eq=False)  # the engine tells sessions apart by who they are
class FakeSession:
    """A node's socket: keeps what was sent to the node."""

    node_id: int
    executor_id: int
    sent: list[Message] = field(default_factory=list)
    is_open: bool = True

    def send(self, messages: Sequence[Message]) -> None:
        self.sent += messages

    def opened(self) -> None:
        self.is_open = True

    def take(self, kind: type[T]) -> list[T]:
        """Messages of one kind sent since the last call."""
        taken = [message for message in self.sent if isinstance(message, kind)]
        self.sent = [message for message in self.sent if not isinstance(message, kind)]
        return taken


class FakeLinks:
    """The engine's view of all sockets."""

    def __init__(self) -> None:
        self.sessions: dict[int, FakeSession] = {}
        self.disconnected: list[int] = []
        self.limited: dict[int, int] = {}  # by node: how many runs it may be given

    def connected(self) -> Mapping[int, int]:
        return {s.node_id: s.executor_id for s in self.sessions.values() if s.is_open}

    def rooms(self) -> Mapping[int, int]:
        return self.limited

    def heartbeats(self) -> Mapping[int, int]:
        return dict.fromkeys(self.sessions, 1)

    def send(self, node_id: int, messages: Sequence[Message]) -> bool:
        session = self.sessions.get(node_id)
        if session is not None:
            session.send(messages)
        return session is not None

    def start(self, node_id: int, requests: Sequence[RunRequest], claim: ClaimTime) -> bool:
        return self.send(node_id, requests)

    def set_targets(self, targets: Mapping[int, NodeTargets]) -> None:
        self.targets = dict(targets)

    def announce_admins(self, urls: Sequence[str]) -> None:
        pass

    def tokens(self) -> Mapping[int, str]:
        return {s.node_id: f"hash-{s.executor_id}" for s in self.sessions.values()}

    def acknowledge(self, renewed: Mapping[int, int]) -> None:
        pass

    def disconnect(self, node_id: int, reason: str) -> None:
        self.disconnected.append(node_id)


new_id = count(1_000_000)  # beyond those that engines take


def new_executor_id() -> int:
    """For a test that shares its database with others."""
    return next(new_id)


class Admin:
    """One admin of the cluster under test."""

    def __init__(
        self,
        database: Database,
        *,
        admin_id: int = 1,
        hub: LinkHub | None = None,
        cipher: Cipher | None = None,
        tracer: RunTracer | None = None,
    ) -> None:
        self.database = database
        self.links = FakeLinks()  # not asked when there is a real hub
        self.events = Events()
        self.admin_id = admin_id
        token = count()
        self.engine = Engine(
            database,
            Ids(database),
            hub or self.links,
            self.events,
            admin_id=admin_id,
            name=f"admin-{admin_id}",
            url=f"http://admin-{admin_id}",
            version="test",
            random=random.Random(admin_id),
            new_token=lambda: f"token-{admin_id}-{next(token)}",
            retention_days=30,
            wall_clock=lambda: time.time_ns() // 1_000_000,
            cipher=cipher,
            tracer=tracer,
        )

    async def add_node(
        self,
        executor_id: int,
        *,
        name: str = "node",
        slots: int = 10,
        handlers: str = "hello",
        unstoppable: str = "",
        node_key: str | None = None,
    ) -> FakeSession:
        admitted = await self.engine.membership.admit(
            Arrival(
                executor_id=executor_id,
                node_key=node_key or f"{next(new_id):032x}",
                name=name,
                sdk="test/1",
                slots=slots,
                handlers=handlers.split(),
                unstoppable=unstoppable.split(),
                labels={},
                weight=1,
                address="127.0.0.1",
            )
        )
        session = FakeSession(admitted.node_id, executor_id)
        self.links.sessions[admitted.node_id] = session
        return session

    async def say(self, session: FakeSession, *messages: FromNode) -> None:
        """The node says something, and it is recorded."""
        self.engine.recorder.receive(session, messages)
        while await self.engine.recorder.run_once():
            pass

    async def dispatch(self, session: FakeSession) -> list[RunRequest]:
        await self.engine.dispatcher.run_once()
        return session.take(RunRequest)

    def trust_own_view(self) -> None:
        """As after 15 s of unbroken renewals."""
        self.engine.leases.may_expire = lambda: True  # type: ignore[method-assign]
        self.engine.leases.expected_database_ms = lambda: None  # type: ignore[method-assign]

    async def dispatch_all(self, session: FakeSession) -> list[RunRequest]:
        """Claim until nothing is left that can be decided now."""
        while await self.engine.dispatcher.run_once():
            pass
        return session.take(RunRequest)


async def add_links(app: web.Application, database: Database) -> Admin:
    """Let nodes connect, to an admin that is in the cluster's books."""
    hub = LinkHub()
    admin = Admin(database, hub=hub)
    await admin.engine.membership.enter()
    app[endpoint.MEMBERSHIP] = admin.engine.membership
    app[endpoint.RECORDER] = admin.engine.recorder
    app[endpoint.HUB] = hub
    endpoint.routes.add_to(app)
    return admin


async def admin_with_node(database: Database, **node: Any) -> tuple[Admin, FakeSession]:
    """With a node of an executor of its own, for a test that shares its database with others."""
    admin = Admin(database)
    return admin, await admin.add_node(new_executor_id(), **node)
