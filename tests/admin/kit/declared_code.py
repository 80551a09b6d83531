"""Processes that declare jobs in their code, as a database of services sees them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.admin.kit.services import World
from tickwheel_admin.domain.input.node_manifest import read_node_manifest
from tickwheel_admin.engine.membership.membership import AdmittedNode, Membership
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.nodes import Arrival
from tickwheel_shared.protocol import Notice

NIGHTLY: dict[str, Any] = {
    "name": "nightly",
    "handler": "send-invoices",
    "triggers": [{"kind": "cron", "expression": "0 3 * * *"}],
}
MONTH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "month": {"type": "string", "minLength": 7},
        "copies": {"type": "integer", "minimum": 1, "default": 1},
    },
    "required": ["month"],
    "additionalProperties": False,
}

_keys = itertools.count(1)


class Code:
    """The link side of an admin: processes start and say what their code holds."""

    def __init__(self, world: World, store: Store | None = None, *, admin_id: int = 1) -> None:
        store = store or world.database
        self.membership = Membership(
            store,
            Ids(world.database),
            world.events,
            admin_id=admin_id,
            name=f"admin-{admin_id}",
            url=f"http://admin-{admin_id}",
            version="test",
        )

    async def admit(
        self,
        executor_id: int,
        *,
        name: str = "node-1",
        key: str | None = None,
        has_code: bool = True,
        handlers: Iterable[str] = ("send-invoices",),
        clock: int | None = None,
    ) -> AdmittedNode:
        """A process says hello."""
        return await self.membership.admit(
            Arrival(
                executor_id=executor_id,
                node_key=key or f"{next(_keys):032x}",
                name=name,
                sdk="test/1",
                slots=4,
                handlers=list(handlers),
                unstoppable=[],
                labels={},
                weight=1,
                address="192.0.2.7",
                has_code=has_code,
                clock=clock,
            )
        )

    async def look(
        self,
        admitted: AdmittedNode,
        *jobs: Mapping[str, Any],
        handlers: Iterable[str] = ("send-invoices",),
        schemas: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """What the process says of its code is looked at; returns what it is told."""
        manifest = read_node_manifest(
            handlers=list(handlers),
            schemas={name: _raw(schema) for name, schema in (schemas or {}).items()},
            jobs=[_raw(job) for job in jobs],
        )
        return texts(await self.membership.read_manifest(admitted, manifest))

    async def start(
        self,
        executor_id: int,
        *jobs: Mapping[str, Any],
        name: str = "node-1",
        handlers: Iterable[str] = ("send-invoices",),
        schemas: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """A process starts that declares these jobs; returns what it is told of them."""
        handlers = list(handlers)
        has_code = bool(jobs or schemas)
        admitted = await self.admit(executor_id, name=name, handlers=handlers, has_code=has_code)
        if admitted.manifest_is_read:
            return []
        return await self.look(admitted, *jobs, handlers=handlers, schemas=schemas)

    async def end(self, world: World, *admitted: AdmittedNode) -> None:
        """Processes say goodbye."""
        for each in admitted:
            await self.membership.goodbye(node_id=each.node_id)


def texts(notices: Iterable[Notice]) -> list[str]:
    """Notices as "level: text"."""
    return [f"{notice.level.value}: {notice.text}" for notice in notices]


def _raw(value: Any) -> bytes:
    return json.dumps(value).encode()
