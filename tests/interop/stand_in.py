"""An admin of XXL-JOB that only writes down what executors tell it, and calls them on request.

It proves the clients themselves: what fails against it is not the bridge's fault.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from tests.support.polling import wait_until_async

TOKEN = "interop-token"
BASE_PATHS = {"A": "/xxl-job-admin", "B": "/xxl-job-admin", "C": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A request of an executor."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(slots=True)
class StandIn:
    """Speaks one dialect, to executors of that dialect only."""

    dialect: str
    told: list[Told] = field(default_factory=list)
    refused_results: int = 0
    """So many times results are answered with 503, as by a proxy whose admin is away."""
    at_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    """The time of every run, so that it is known what a client echoes."""
    _last_log_id: int = 1000
    _runner: web.AppRunner | None = None
    _session: ClientSession | None = None
    url: str = ""
    """What executors are told as the address of the admin."""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post(BASE_PATHS[self.dialect] + "/api/{path}", self._asked)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}{BASE_PATHS[self.dialect]}"
        # No connection is kept: one to an executor that was started again would break a call.
        connector = TCPConnector(force_close=True)
        self._session = ClientSession(connector=connector, timeout=ClientTimeout(total=5))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        assert self._runner is not None
        await self._session.close()
        await self._runner.cleanup()

    async def _asked(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        body = json.loads(await request.text())
        if path == "callback" and self.refused_results:
            self.refused_results -= 1
            return web.Response(status=503)
        self.told.append(Told(path=path, headers=dict(request.headers), body=body))
        if request.headers.get("XXL-JOB-ACCESS-TOKEN") != TOKEN:
            return self._answer(500, "The access token is wrong.")
        if path == "callback" and isinstance(body, list) == (self.dialect == "C"):
            return self._answer(500, "Expected another shape: BEGIN_")
        return self._answer(200, None if self.dialect == "A" else "Success")

    def _answer(self, code: int, text: str | None) -> web.Response:
        if self.dialect == "A":
            return web.json_response({"code": code, "msg": text, "content": None})
        answer = {"code": code, "data": None, "msg": text, "success": code == 200}
        return web.json_response(answer)

    # What executors said

    def registered(self) -> list[str]:
        """Addresses, in the order in which they came; removed ones are not taken out."""
        return [told.body["registryValue"] for told in self.told if told.path == "registry"]

    def removed(self) -> list[str]:
        return [told.body["registryValue"] for told in self.told if told.path == "registryRemove"]

    def results(self, log_id: int) -> list[dict[str, Any]]:
        """Every result of that run that came, in the form of this dialect."""
        bodies = [told.body for told in self.told if told.path == "callback"]
        lists = [body["callbackList"] if self.dialect == "C" else body for body in bodies]
        return [result for results in lists for result in results if result["logId"] == log_id]

    async def result(self, log_id: int, *, timeout_seconds: float = 10) -> dict[str, Any]:
        """The first result of that run."""
        found = await wait_until_async(
            lambda: self.results(log_id),
            timeout_seconds=timeout_seconds,
            what=f"the result of run {log_id}",
        )
        return found[0]

    # What is asked of executors

    async def call(self, url: str, path: str, body: object, *, token: str = TOKEN) -> Any:
        """The answer of the executor; the body goes as it is if it is text."""
        headers = {"XXL-JOB-ACCESS-TOKEN": token, "Content-Type": "application/json;charset=UTF-8"}
        if self.dialect == "C":
            headers["XXL-JOB-APPNAME"] = "interop"
        data = body if isinstance(body, str) else json.dumps(body)
        assert self._session is not None
        where = f"{url.rstrip('/')}/{path}"
        async with self._session.post(where, data=data.encode(), headers=headers) as response:
            return json.loads(await response.text())

    async def run(
        self, url: str, handler: str, parameter: str = "", *, job_id: int = 1, **changes: object
    ) -> tuple[int, Any]:
        """Send a run; its log id, and the answer."""
        self._last_log_id += 1
        order = {
            "jobId": job_id,
            "executorHandler": handler,
            "executorParams": parameter,
            "executorBlockStrategy": "SERIAL_EXECUTION",
            "executorTimeout": 0,
            "logId": self._last_log_id,
            "logDateTime": self.at_ms,
            "glueType": "BEAN",
            "glueSource": "",
            "glueUpdatetime": self.at_ms,
            "broadcastIndex": 0,
            "broadcastTotal": 1,
        }
        path = "trigger" if self.dialect == "C" else "run"
        return self._last_log_id, await self.call(url, path, order | changes)

    async def log(self, url: str, log_id: int, first_line: int = 1) -> Any:
        time_key = "logDateTime" if self.dialect == "C" else "logDateTim"
        order = {"logId": log_id, time_key: self.at_ms, "fromLineNum": first_line}
        return await self.call(url, "log", order)

    async def log_with(self, url: str, log_id: int, text: str) -> str:
        """The log from its first line, once it has this text."""

        async def content() -> str:
            answer = await self.log(url, log_id)
            page = answer.get("content") or answer.get("data") or {"logContent": ""}
            found = str(page["logContent"])
            return found if text in found else ""

        return await wait_until_async(content, what=f"the log of run {log_id} to say {text!r}")
