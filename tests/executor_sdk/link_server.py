"""An admin's endpoint on a real WebSocket, as far as tests of the wire need it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import WSMsgType, web

from tests.support.polling import wait_until_async

from .scripted_admin import TOKEN


class LinkServer:
    """Answers as an admin does; keeps every frame as it came."""

    def __init__(self) -> None:
        self.sockets: list[web.WebSocketResponse] = []
        self.transports: list[asyncio.Transport | None] = []
        self.frames: list[list[dict[str, Any]]] = []
        self.kinds: list[WSMsgType] = []
        self.status: int | None = None
        self.receipts = True
        self.reads = asyncio.Event()
        self.reads.set()
        self.url = ""

    async def link(self, request: web.Request) -> web.StreamResponse:
        if self.status is not None:
            return web.Response(status=self.status)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401)
        socket = web.WebSocketResponse(max_msg_size=4 * 1024 * 1024)
        await socket.prepare(request)
        self.sockets.append(socket)
        self.transports.append(request.transport)
        await self.reads.wait()
        async for message in socket:
            self.kinds.append(message.type)
            self.frames.append(json.loads(message.data))
            for entry in self.frames[-1]:
                await self.answer(socket, entry)
        return socket

    async def answer(self, socket: web.WebSocketResponse, entry: dict[str, Any]) -> None:
        if entry["type"] == "hello":
            welcome = {"type": "welcome", "version": 1, "node_id": 1, "admin": "a", "admins": []}
            await socket.send_json([{**welcome, "heartbeat_ms": 200, "lease_ms": 15_000}])
        elif entry["type"] == "heartbeat":
            await socket.send_json([{"type": "heartbeat_ack", "seq": entry["seq"]}])
        elif entry["type"] == "result" and self.receipts:
            key = {name: entry[name] for name in ("run", "attempt", "token")}
            await socket.send_json([{"type": "receipt", **key, "receipt": "recorded"}])
        elif entry["type"] == "log":
            key = {name: entry[name] for name in ("run", "attempt", "first_seq")}
            await socket.send_json([{"type": "log_receipt", **key}])

    def all(self, kind: str) -> list[dict[str, Any]]:
        return [entry for frame in self.frames for entry in frame if entry["type"] == kind]

    async def give(self, handler: str) -> None:
        """Send a run to the node that connected last, and wait until it is accepted."""
        message = {"type": "run", "run": 1, "attempt": 1, "token": "t", "job_id": 1, "job": "j"}
        message |= {"handler": handler, "parameters": {}, "scheduled_at": 0, "timeout_ms": None}
        message |= {"try_number": 1, "max_tries": 1, "origin": "manual"}
        await self.sockets[-1].send_json([message])
        await wait_until_async(lambda: self.all("accepted"), timeout_seconds=20)
