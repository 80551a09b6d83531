"""The bridge of one admin, put together; the server and the simulator build the same thing."""

from __future__ import annotations

from collections.abc import Callable

from tickwheel_admin.domain.xxl_job.bridge import XxlAddress, XxlExecutor
from tickwheel_admin.engine.engine import Engine
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.ports import NodeHub
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.services.xxl_job.refusals import XxlRefusals
from tickwheel_admin.xxl_job.addresses import AddressGuard
from tickwheel_admin.xxl_job.beats import XxlBeats
from tickwheel_admin.xxl_job.callbacks import Callbacks
from tickwheel_admin.xxl_job.caller import NodeCaller
from tickwheel_admin.xxl_job.ended_logs import XxlLogs
from tickwheel_admin.xxl_job.inbound import Inbound
from tickwheel_admin.xxl_job.log_keeper import LogKeeper
from tickwheel_admin.xxl_job.log_reader import LogReader
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar
from tickwheel_admin.xxl_job.watch import XxlWatch


class XxlBridge:
    """Loops and what executors call. Idle while there is no executor of this protocol."""

    def __init__(
        self,
        nodes: XxlNodes,
        engine: Engine,
        hub: NodeHub,
        caller: NodeCaller,
        guard: AddressGuard,
        *,
        admin_id: int,
        wall_clock_ms: Callable[[], int],
        refusals: XxlRefusals | None = None,
    ) -> None:
        """Wire it; nothing runs yet.

        Args:
            guard: which addresses may be called.
            wall_clock_ms: this machine's clock, in UTC epoch ms; it stamps log lines.
            refusals: audits them; without it they are only logged.
        """

        def new_node(address: XxlAddress, executor: XxlExecutor) -> XxlNode:
            return XxlNode(
                address,
                executor,
                caller=caller,
                nodes=nodes,
                membership=engine.membership,
                recorder=engine.recorder,
                hub=hub,
            )

        self.registrar = XxlRegistrar(nodes, admin_id=admin_id, new_node=new_node)
        self.beats = XxlBeats(self.registrar)
        reader = LogReader(engine.recorder, wall_clock_ms=wall_clock_ms)
        self.watch = XxlWatch(nodes, self.registrar, reader)
        self.logs = XxlLogs(nodes, self.registrar, reader, LogKeeper(engine.recorder))
        self.inbound = Inbound(
            nodes,
            self.registrar,
            Callbacks(nodes, engine.recorder, self.registrar),
            guard,
            refusals,
        )

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop, in the order of their start."""
        return (self.registrar, self.beats, self.watch, self.logs)

    async def close(self) -> None:
        """End every session, so that other admins take the nodes over."""
        await self.registrar.stop_all()
