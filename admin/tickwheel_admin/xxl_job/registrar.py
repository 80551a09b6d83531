"""Which addresses this admin serves: each is served by one of the admins that are up."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import structlog

from tickwheel_admin.domain.xxl_job.bridge import (
    MAX_REGISTERED,
    BridgeView,
    XxlAddress,
    XxlExecutor,
)
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.xxl_job.dialects import Dialect
from tickwheel_admin.xxl_job.node import XxlNode

log = structlog.get_logger(__name__)

REPORT_SECONDS = 10.0
FORGET_SECONDS = 3_600.0
LOOK_SECONDS = 0.2  # between two looks at which executors there are, however many ask

NewNode = Callable[[XxlAddress, XxlExecutor], XxlNode]


class XxlRegistrar(Loop):
    """Follows the database: nodes come, change and go; others take over those of a dead admin."""

    interval_seconds = 2.0

    def __init__(self, nodes: XxlNodes, *, admin_id: int, new_node: NewNode) -> None:
        super().__init__()
        self._nodes = nodes
        self._admin_id = admin_id
        self._new_node = new_node
        self._served: dict[tuple[int, str], XxlNode] = {}
        self._registered: dict[tuple[int, str], Dialect] = {}  # before they were served
        self._reported_at = 0.0
        self._forgot_at = 0.0
        self._looked_at = 0.0
        self._looking = asyncio.Lock()
        self.executors: Mapping[int, XxlExecutor] = {}
        self.unreadable: Collection[int] = ()  # executors whose token this admin does not read

    def __iter__(self) -> Iterator[XxlNode]:
        """The nodes that this admin serves."""
        return iter(list(self._served.values()))

    def saw(self, executor_id: int, address: str, dialect: Dialect | None) -> None:
        """An executor registered; `dialect`: as far as its request tells."""
        node = self._served.get((executor_id, address))
        if node is None:
            if dialect is not None and len(self._registered) < MAX_REGISTERED:
                self._registered[executor_id, address] = dialect
            self.wake()
        elif dialect is not None:
            node.calls.dialect = dialect

    async def run_once(self) -> bool:
        asked_at = asyncio.get_running_loop().time()
        view = await self._nodes.view()
        self.executors, self.unreadable = view.executors, view.unreadable
        await self._tell(view)
        wanted = {each.key: each for each in mine(view, self._admin_id)}
        left = [key for key in self._served if key not in wanted]
        for executor_id, address in left:
            log.info("xxl.address_left", address=address, executor_id=executor_id)
        await asyncio.gather(*(self._served.pop(key).stop() for key in left))
        for key, each in wanted.items():
            executor = view.executors[each.executor_id]
            known = self._served.get(key)
            if known is None:
                node = self._served[key] = self._new_node(each, executor)
                node.calls.dialect = self._registered.pop(key, node.calls.dialect)
            else:
                known.update(each, executor)
                known.seen_at = asked_at
        await self._report()
        return False

    async def look_again(self) -> None:
        """Read which executors there are now: one may have been made a moment ago.

        Its processes would otherwise be told that they are unknown, and come back in 30 s.
        """
        asked_at = asyncio.get_running_loop().time()
        async with self._looking:
            if self._looked_at > asked_at:
                return  # for somebody who asked before
            await asyncio.sleep(self._looked_at + LOOK_SECONDS - asked_at)
            self._looked_at = asyncio.get_running_loop().time()
            view = await self._nodes.view()
            self.executors, self.unreadable = view.executors, view.unreadable

    async def stop_all(self) -> None:
        """End every session; others take the nodes over."""
        nodes, self._served = list(self._served.values()), {}
        await asyncio.gather(*(node.stop() for node in nodes))

    async def _tell(self, view: BridgeView) -> None:
        """Say what this admin can serve, before others leave addresses to it."""
        told = view.admins.get(self._admin_id)  # None: nothing, or its row was made anew
        if not view.executors and not view.unreadable:
            return
        if told is None or set(told) != set(view.unreadable):
            await self._nodes.tell_unreadable(self._admin_id, view.unreadable)

    async def _report(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            reports = [node.calls.report(node.node_id or None) for node in self]
            await self._nodes.report([each for each in reports if each is not None])
        if now - self._forgot_at >= FORGET_SECONDS:
            self._forgot_at = now
            await self._nodes.forget_old()


def mine(view: BridgeView, admin_id: int) -> list[XxlAddress]:
    """The addresses that this admin is to serve, of the executors that it can serve.

    It counts itself as present: after an outage of the database it may look before it has renewed
    its own lease, and the nodes must not leave it for that.
    """
    admins = {**view.admins, admin_id: view.unreadable}
    able = {
        executor_id: [each for each in sorted(admins) if executor_id not in admins[each]]
        for executor_id in view.executors
    }
    return [each for each in view.addresses if _owner(each, able[each.executor_id]) == admin_id]


def _owner(address: XxlAddress, admins: Sequence[int]) -> int:
    """Rendezvous hashing: when an admin comes or goes, only its own addresses move."""
    return max(
        admins,
        key=lambda admin_id: hashlib.sha256(
            f"{admin_id} {address.executor_id} {address.address}".encode()
        ).digest(),
    )
