"""A small service that speaks XXL-JOB's protocol (dialect A: 2.2 to 3.2) and imports no Tickwheel.

    python demo_legacy_orders.py --name APPNAME --port PORT

It stands for the services that are already there: to come to Tickwheel, one like it changes the
address of its admin. Settings are in the environment: XXL_JOB_ADMIN_ADDRESS, XXL_JOB_ACCESS_TOKEN.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, web

HOST = "127.0.0.1"
REGISTER_SECONDS = 30
TRY_AGAIN_SECONDS = 2
STOP_SECONDS = 30  # for what runs when it is told to stop
KEPT_RUNS = 500  # whose logs can still be asked for
LOG_PAGE = 1000  # lines in one answer

Json = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class LegacyRun:
    """One order to run a handler."""

    order: Json
    log_lines: list[str] = field(default_factory=list)
    body: asyncio.Task[None] | None = None
    ended: bool = False

    def log(self, text: str) -> None:
        """Add a line to the run's log."""
        self.log_lines.append(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")


async def sync_orders(run: LegacyRun) -> str:
    """Some seconds of work."""
    total = 0
    for shop in run.order["executorParams"].split(","):
        orders = random.randint(20, 90)
        run.log(f"shop {shop.strip()}: {orders} orders")
        total += orders
        await asyncio.sleep(1)
    return f"{total} orders"


async def mail_invoices(run: LegacyRun) -> str:
    """Fails now and then."""
    run.log("connecting to the mail server")
    await asyncio.sleep(2)
    if random.random() < 0.3:
        raise ConnectionError("the mail server does not answer")
    return "all invoices sent"


async def archive_orders(run: LegacyRun) -> str:
    """Half a minute with a line each second: there is time to watch its log and to cancel it."""
    for week in range(1, 31):
        run.log(f"week {week} of 30: {random.randint(200, 900)} orders moved to the archive")
        await asyncio.sleep(1)
    return "30 weeks archived"


HANDLERS: dict[str, Callable[[LegacyRun], Awaitable[str]]] = {
    "syncOrders": sync_orders,
    "mailInvoices": mail_invoices,
    "archiveOrders": archive_orders,
}


class Service:
    """Does what the admin asks for, and reports how runs ended."""

    def __init__(self, session: ClientSession, *, admin: str, token: str, name: str, port: int):
        """`session` sends the token with each request."""
        self._session = session
        self._admin, self._token = admin, token
        self._registration = {
            "registryGroup": "EXECUTOR",
            "registryKey": name,
            "registryValue": f"http://{HOST}:{port}/",
        }
        self._runs: dict[int, LegacyRun] = {}  # by logId
        self._actions: dict[str, Callable[[Json], Json]] = {
            "/beat": lambda _: {"code": 200},
            "/idleBeat": self._idle_beat,
            "/run": self._run,
            "/kill": self._kill,
            "/log": self._log,
        }

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a call; in this protocol the HTTP status is always 200."""
        if request.headers.get("XXL-JOB-ACCESS-TOKEN") != self._token:
            return web.json_response(_refusal("The access token is wrong."))
        action = self._actions.get(request.path)
        if action is None:
            text = f"invalid request, uri-mapping({request.path}) not found."
            return web.json_response(_refusal(text))
        return web.json_response(action(await request.json()))

    async def keep_registered(self) -> None:
        """Tell the admin where we listen, again and again."""
        while True:
            taken = await self._tell("registry", self._registration)
            await asyncio.sleep(REGISTER_SECONDS if taken else TRY_AGAIN_SECONDS)

    async def stop(self) -> None:
        """Get no more runs; finish those that are there."""
        await self._tell("registryRemove", self._registration)
        bodies = [run.body for run in self._runs.values() if run.body and not run.body.done()]
        if bodies:
            await asyncio.wait(bodies, timeout=STOP_SECONDS)

    def _idle_beat(self, order: Json) -> Json:
        busy = self._running(order["jobId"])
        return _refusal("job thread is running or has trigger queue.") if busy else {"code": 200}

    def _run(self, order: Json) -> Json:
        if order["glueType"] != "BEAN":
            return _refusal(f"glueType[{order['glueType']}] is not valid.")
        if order["executorHandler"] not in HANDLERS:
            return _refusal(f"job handler [{order['executorHandler']}] not found.")
        if order["logId"] in self._runs:
            return _refusal(f"repeate trigger job, logId:{order['logId']}")  # as they spell it
        if self._running(order["jobId"]):
            return _refusal("block strategy effect：Discard Later")
        run = self._runs[order["logId"]] = LegacyRun(order=order)
        run.log(f"{order['executorHandler']} begins, parameter: {order['executorParams']}")
        run.body = asyncio.create_task(self._carry_out(run))
        ended = [log_id for log_id, run in self._runs.items() if run.ended]
        for log_id in ended[:-KEPT_RUNS]:
            del self._runs[log_id]
        return {"code": 200}

    def _kill(self, order: Json) -> Json:
        for run in self._running(order["jobId"]):
            if run.body is not None:
                run.body.cancel()
        return {"code": 200}

    def _log(self, order: Json) -> Json:
        first, run = order["fromLineNum"], self._runs.get(order["logId"])
        page: Json = {"fromLineNum": first, "toLineNum": 0, "logContent": "", "isEnd": False}
        if run is None:
            page |= {"logContent": "readLog fail, logFile not exists", "isEnd": True}
        elif lines := run.log_lines[first - 1 : first - 1 + LOG_PAGE]:
            page["toLineNum"] = first + len(lines) - 1
            page["logContent"] = "".join(f"{line}\n" for line in lines)
        return {"code": 200, "content": page}

    def _running(self, job_id: int) -> list[LegacyRun]:
        runs = self._runs.values()
        return [run for run in runs if run.order["jobId"] == job_id and not run.ended]

    async def _carry_out(self, run: LegacyRun) -> None:
        try:
            async with asyncio.timeout(run.order["executorTimeout"] or None):
                code, message = 200, await HANDLERS[run.order["executorHandler"]](run)
        except TimeoutError:
            code, message = 502, "job execute timeout"
        except asyncio.CancelledError:
            code, message = 500, "killed"
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its result
            code, message = 500, str(error)
        run.log(f"ends with code {code}: {message}")
        run.ended = True
        result = {
            "logId": run.order["logId"],
            "logDateTim": run.order["logDateTime"],  # without the e, in this dialect
            "handleCode": code,
            "handleMsg": message,
        }
        while not await self._tell("callback", [result]):  # noqa: ASYNC110 - nobody tells us when
            await asyncio.sleep(TRY_AGAIN_SECONDS)

    async def _tell(self, path: str, body: object) -> bool:
        """Whether the admin took it."""
        try:
            async with self._session.post(f"{self._admin}/api/{path}", json=body) as response:
                answer = await response.json(content_type=None)
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            answer = repr(error)
        taken = isinstance(answer, dict) and answer.get("code") == 200
        if not taken:
            print(f"{self._admin} did not take {path}: {answer}", flush=True)
        return taken


def _refusal(text: str) -> Json:
    return {"code": 500, "msg": text}


async def main(name: str, port: int) -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    for caught in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(caught, stopped.set)
    admin, token = os.environ["XXL_JOB_ADMIN_ADDRESS"], os.environ["XXL_JOB_ACCESS_TOKEN"]
    headers = {"XXL-JOB-ACCESS-TOKEN": token}
    async with ClientSession(headers=headers, timeout=ClientTimeout(total=5)) as session:
        service = Service(session, admin=admin, token=token, name=name, port=port)
        app = web.Application()
        app.router.add_post("/{path:.*}", service.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, HOST, port).start()
        registering = asyncio.create_task(service.keep_registered())
        await stopped.wait()
        registering.cancel()
        await service.stop()
        await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True, help="the appname")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    asyncio.run(main(args.name, args.port))
