"""The demo's executor of the protocol `xxl_job` and its jobs; made where missing."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tickwheel_admin.cli.demo_legacy_orders import HOST
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE

XXL_EXECUTOR = "legacy-orders"
PROGRAM = Path(__file__).with_name("demo_legacy_orders.py")

XXL_JOBS: tuple[Mapping[str, Any], ...] = (
    {
        "name": "sync-orders",
        "handler": "syncOrders",
        "description": "Its handler speaks XXL-JOB’s protocol; its log is read from there.",
        "owner": "demo",
        "tags": ["example", "xxl-job"],
        "parameters": {"param": "Berlin, Paris, 上海"},
        "triggers": [{"kind": "fixed_rate", "every_seconds": 20}],
    },
    {
        "name": "mail-invoices",
        "handler": "mailInvoices",
        "description": "Fails now and then and is tried once more.",
        "owner": "demo",
        "tags": ["example", "xxl-job"],
        "timeout_seconds": 30,
        "retries": 1,
        "retry_delay_seconds": 5,
        "triggers": [{"kind": "fixed_rate", "every_seconds": 55}],
    },
    {
        "name": "archive-orders",
        "handler": "archiveOrders",
        "description": "Half a minute with a line each second: watch its log, or cancel it.",
        "owner": "demo",
        "tags": ["example", "xxl-job"],
        "routing": "broadcast",
        "blocking": "discard_later",
        "triggers": [{"kind": "fixed_rate", "every_seconds": 100}],
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlDemoData:
    """What its process is started with."""

    app_name: str
    token: str = field(repr=False)  # another one at each start, so that it is kept nowhere


async def fill_xxl_job(services: Services) -> XxlDemoData | None:
    """Make what is missing; None: somebody uses the name for an executor of his own."""
    token = secrets.token_urlsafe(24)
    for item in await services.executors.list(COMMAND_LINE):
        if item.name != XXL_EXECUTOR:
            continue
        if item.protocol is not Protocol.XXL_JOB:
            return None
        await services.xxl_executors.change(COMMAND_LINE, item.id, token=token)
        view = await services.xxl_executors.get(COMMAND_LINE, item.id)
        return XxlDemoData(app_name=view.app_name, token=token)
    try:
        executor_id = await services.xxl_executors.create(
            COMMAND_LINE,
            name=XXL_EXECUTOR,
            description="A service that was written for XXL-JOB, with its code unchanged.",
            app_name=XXL_EXECUTOR,
            token=token,
        )
    except Conflict as conflict:
        if conflict.code != "executor.app_name_taken":
            raise
        return None
    for raw in XXL_JOBS:
        await services.jobs.create(COMMAND_LINE, executor_id, raw)
    return XxlDemoData(app_name=XXL_EXECUTOR, token=token)


def choose_port(kept: Path, *, first: int = 0) -> int:
    """A free port; that of the last time, if it can be had: the address is the node's name.

    Args:
        kept: file with that port.
        first: the one to try when there is no such file; 0: any.
    """
    last = first
    with contextlib.suppress(OSError, ValueError):
        last = int(kept.read_text(encoding="ascii"))
    for wanted in (last, 0):
        with socket.socket() as sock, contextlib.suppress(OSError, OverflowError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((HOST, wanted))
            port: int = sock.getsockname()[1]
            kept.write_text(str(port), encoding="ascii")
            return port
    raise OSError("there is no free port")
