"""An executor that follows dialect C of XXL-JOB's protocol, or A or B, from both ends.

    python dialect_c.py C          as a process, configured like the other clients
    async with Executor(...) as e  inside a test

It does what `xxl-job-core` does in the recordings: one queue for each job, results sent together
and kept until an admin took them, refusals with the same texts. `Script` makes it misbehave.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import ClientError, ClientSession, ClientTimeout, web

Json = dict[str, Any]
Handler = Callable[["Run"], Awaitable[str | None]]
BEAT_SECONDS = 30.0
GRACE_SECONDS = 5  # for runs that are running when it is told to stop
LOG_PAGE = 1000  # lines in one answer


@dataclass(slots=True, kw_only=True)
class Script:
    """How it misbehaves; may be changed while it runs."""

    answer_after_seconds: float = 0
    """Calls are carried out at once and answered later."""
    unanswered_runs: int = 0
    """So many runs are begun, and the connection is closed without an answer."""
    refuse_runs: str = ""
    """Every run is refused with this text."""
    lost_results: int = 0
    """So many results are never sent."""
    results_twice: bool = False
    deaf_to_kill: bool = False
    """A kill is answered, and the run goes on."""


class HandlerFailed(Exception):
    """The handler says that its run failed; the text becomes its message."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One order to run a handler."""

    job_id: int
    log_id: int
    at_ms: int
    handler: str
    parameter: str
    timeout_seconds: int
    shard_index: int
    shard_total: int
    log: Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class _Job:
    """The queue of one job: its runs follow each other."""

    waiting: deque[Run] = field(default_factory=deque)
    current: Run | None = None
    body: asyncio.Future[str | None] | None = None
    loop: asyncio.Task[None] | None = None
    kill_reason: str = ""


class Executor:
    """Registers, takes runs and sends their results until the `async with` block ends."""

    def __init__(
        self,
        dialect: str,
        *,
        admins: Sequence[str],
        token: str,
        app: str,
        host: str,
        port: int,
        logs: Path,
        handlers: Mapping[str, Handler],
        script: Script | None = None,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        """`admins` have their base path and no slash at the end."""
        self.dialect = dialect
        self.script = script or Script()
        self.calls: list[tuple[str, Json]] = []
        """What admins asked for: path and body."""
        self.url = f"http://{host}:{port}/"
        self._admins = list(admins)
        self._token, self._app = token, app
        self._host, self._port = host, port
        self._logs = logs
        self._handlers = dict(handlers)
        self._beat_seconds = beat_seconds
        self._time_key = "logDateTime" if dialect == "C" else "logDateTim"
        self._jobs: dict[int, _Job] = {}
        self._results: asyncio.Queue[Json] = asyncio.Queue()
        self._background: list[asyncio.Task[None]] = []
        self._paths: dict[str, Callable[[Json], Json]] = {
            "/beat": lambda _: self._result(),
            "/idleBeat": self._idle_beat,
            "/trigger" if dialect == "C" else "/run": self._run,
            "/kill": self._kill,
            "/log": self._log,
        }

    async def __aenter__(self) -> Self:
        headers = {"XXL-JOB-ACCESS-TOKEN": self._token}
        if self.dialect == "C":
            headers["XXL-JOB-APPNAME"] = self._app
        self._session = ClientSession(headers=headers, timeout=ClientTimeout(total=3))
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._called)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        self._background = [
            asyncio.create_task(loop()) for loop in (self._register, self._send_results)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._tell("registryRemove", self._registration())
        running = [job.loop for job in self._jobs.values() if job.loop and not job.loop.done()]
        if running:
            await asyncio.wait(running, timeout=GRACE_SECONDS)
        for loop in running:
            loop.cancel()
        while not self._results.empty():
            await self._send([self._results.get_nowait()])
        await self._session.close()
        await self._runner.cleanup()

    # What admins ask for

    async def _called(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if request.method != "POST":
            return self._answer(self._refusal("invalid request, HttpMethod not support."))
        if path not in self._paths:
            return self._answer(self._refusal(f"invalid request, uri-mapping({path}) not found."))
        if wrong := self._wrong_token(request.headers):
            return self._answer(self._refusal(wrong))
        try:
            body = json.loads(await request.text() or "null")
            order = body if isinstance(body, dict) else {}
            self.calls.append((path, order))
            answer = self._paths[path](order)
        except (ValueError, KeyError, TypeError) as error:
            return self._answer(self._refusal(f"request error:{error!r}"))
        if path in ("/run", "/trigger") and self.script.unanswered_runs:
            self.script.unanswered_runs -= 1
            assert request.transport is not None
            request.transport.abort()
        await asyncio.sleep(self.script.answer_after_seconds)
        return self._answer(answer)

    def _wrong_token(self, headers: Mapping[str, str]) -> str | None:
        token, app = headers.get("XXL-JOB-ACCESS-TOKEN"), headers.get("XXL-JOB-APPNAME")
        if self.dialect != "C":
            return None if token == self._token else "The access token is wrong."
        if not token or not app:
            return "invalid request, accessToken or appname is empty."
        if (token, app) != (self._token, self._app):
            return "invalid request, accessToken or appname invalid."
        return None

    def _idle_beat(self, order: Json) -> Json:
        job = self._jobs.get(order["jobId"])
        if job is not None and (job.current or job.waiting):
            return self._refusal("job thread is running or has trigger queue.")
        return self._result()

    def _run(self, order: Json) -> Json:
        if self.script.refuse_runs:
            return self._refusal(self.script.refuse_runs)
        if order["glueType"] != "BEAN":
            return self._refusal(f"glueType[{order['glueType']}] is not valid.")
        name = order["executorHandler"]
        if name not in self._handlers:
            return self._refusal(f"job handler [{name}] not found.")
        job = self._jobs.setdefault(order["jobId"], _Job())
        run = self._run_of(order)
        busy = [*([job.current] if job.current else []), *job.waiting]
        strategy = order.get("executorBlockStrategy")
        if busy and strategy == "DISCARD_LATER":
            return self._refusal("block strategy effect：Discard Later")
        if busy and strategy == "COVER_EARLY":
            self._end(job, "block strategy effect：Cover Early")
        elif any(run.log_id == other.log_id for other in job.waiting):  # not the one that runs
            word = "repeat" if self.dialect == "C" else "repeate"
            return self._refusal(f"{word} trigger job, logId:{run.log_id}")
        job.waiting.append(run)
        if job.loop is None or job.loop.done():
            job.loop = asyncio.create_task(self._work_off(job))
        return self._result()

    def _run_of(self, order: Json) -> Run:
        log_file = self._log_file(order["logId"])

        def log(text: str) -> None:
            with log_file.open("a", encoding="utf-8") as out:
                out.write(
                    f"{time.strftime('%Y-%m-%d %H:%M:%S')} [dialect_c#log]-[1]-[main] {text}\n"
                )

        return Run(
            job_id=order["jobId"],
            log_id=order["logId"],
            at_ms=order["logDateTime"],
            handler=order["executorHandler"],
            parameter=order.get("executorParams") or "",
            timeout_seconds=order.get("executorTimeout") or 0,
            shard_index=order["broadcastIndex"],
            shard_total=order["broadcastTotal"],
            log=log,
        )

    def _kill(self, order: Json) -> Json:
        job = self._jobs.get(order["jobId"])
        if job is None or not (job.current or job.waiting):
            text = "job thread already killed."
            return {"code": 200, "msg": text} if self.dialect == "A" else self._result(text)
        if not self.script.deaf_to_kill:
            self._end(job, "scheduling center kill job.")
        return self._result()

    def _end(self, job: _Job, reason: str) -> None:
        while job.waiting:
            text = f"{reason} [job not executed, in the job queue, killed.]"
            self._ended(job.waiting.popleft(), 500, text)
        if job.body is not None:
            job.kill_reason = f"{reason} [job running, killed]"
            job.body.cancel()

    def _log(self, order: Json) -> Json:
        first = int(order["fromLineNum"])
        page: Json = {"fromLineNum": first, "toLineNum": 0, "logContent": "", "isEnd": False}
        try:
            lines = self._log_file(order["logId"]).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            page |= {"logContent": "readLog fail, logFile not exists", "isEnd": True}
            return self._result(page)
        if chosen := lines[first - 1 : first - 1 + LOG_PAGE]:
            text = "".join(f"{line}\n" for line in chosen)
            page |= {"toLineNum": first + len(chosen) - 1, "logContent": text}
        return self._result(page)

    def _log_file(self, log_id: int) -> Path:
        return self._logs / f"{int(log_id)}.log"

    def _result(self, data: object = None) -> Json:
        answer: Json = {"code": 200} if self.dialect == "A" else {"code": 200, "msg": "Success"}
        if data is not None:
            answer["content" if self.dialect == "A" else "data"] = data
        return answer

    @staticmethod
    def _refusal(text: str) -> Json:
        return {"code": 500, "msg": text}

    @staticmethod
    def _answer(answer: Json) -> web.Response:
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        return web.Response(text=text, content_type="text/html")

    # Runs and their results

    async def _work_off(self, job: _Job) -> None:
        while job.waiting:
            run = job.current = job.waiting.popleft()
            job.kill_reason = ""
            run.log(f"<br>----------- job execute start -----------<br>Param:{run.parameter}")
            code, message = await self._carried_out(job, run)
            run.log(f"<br>----------- job execute end(finish) -----------<br>Result: {code}")
            job.current = job.body = None
            self._ended(run, code, message)

    async def _carried_out(self, job: _Job, run: Run) -> tuple[int, str | None]:
        job.body = asyncio.ensure_future(self._handlers[run.handler](run))
        try:
            async with asyncio.timeout(run.timeout_seconds or None):
                return 200, await job.body
        except TimeoutError:
            return 502, "job execute timeout "
        except asyncio.CancelledError:
            if not job.kill_reason:
                raise
            return 500, job.kill_reason
        except HandlerFailed as failure:
            return 500, str(failure)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is its result
            return 500, repr(error)

    def _ended(self, run: Run, code: int, message: str | None) -> None:
        result: Json = {"logId": run.log_id, self._time_key: run.at_ms, "handleCode": code}
        if message is not None:
            result["handleMsg"] = message
        self._results.put_nowait(result)

    async def _send_results(self) -> None:
        while True:
            results = [await self._results.get()]
            while not self._results.empty():
                results.append(self._results.get_nowait())
            if self.script.lost_results:
                self.script.lost_results -= 1
                continue
            for _ in range(2 if self.script.results_twice else 1):
                taken = await self._send(results)
                while not taken:
                    await asyncio.sleep(min(1, self._beat_seconds))
                    taken = await self._send(results)

    async def _send(self, results: list[Json]) -> bool:
        body = {"callbackList": results} if self.dialect == "C" else results
        return await self._tell("callback", body)

    async def _register(self) -> None:
        while True:
            await self._tell("registry", self._registration())
            await asyncio.sleep(self._beat_seconds)

    def _registration(self) -> Json:
        return {
            "registryGroup": "EXECUTOR",
            "registryKey": self._app,
            "registryValue": self.url,
        }

    async def _tell(self, path: str, body: object) -> bool:
        """Whether one of the admins took it; they are asked in turn."""
        for admin in self._admins:
            try:
                async with self._session.post(f"{admin}/api/{path}", json=body) as response:
                    answer = await response.json(content_type=None)
                    if answer["code"] == 200:
                        return True
                    print(f"{admin} refused {path}: {answer}", flush=True)
            except (ClientError, TimeoutError, OSError, ValueError, TypeError, KeyError) as error:
                print(f"{admin} did not take {path}: {error!r}", flush=True)
        return False


# The program: the handlers that every client offers, see README.md


async def succeed(run: Run) -> None:
    run.log(f"first line: {run.parameter}")
    run.log(f"second line: {run.parameter}")


async def fail(run: Run) -> None:
    run.log("about to fail")
    raise HandlerFailed("failed on purpose")


async def slow(run: Run) -> None:
    end = time.monotonic() + float(run.parameter)
    line = 0
    while time.monotonic() < end:
        line += 1
        run.log(f"line {line}")
        await asyncio.sleep(0.2)


async def shard(run: Run) -> None:
    run.log(f"shard {run.shard_index} of {run.shard_total}")


async def echo(run: Run) -> str:
    return run.parameter


async def file(run: Run) -> None:
    """Leaves its line in the record, as all do."""


def recorded(body: Handler, record: Path | None) -> Handler:
    async def carry_out(run: Run) -> str | None:
        def note(what: str) -> None:
            if record is not None:
                with record.open("a", encoding="utf-8") as out:
                    out.write(f"{what} {run.log_id} {run.handler} {run.parameter}\n")

        note("start")
        outcome = "stop"
        try:
            message = await body(run)
            outcome = "end"
            return message
        finally:
            note(outcome)

    return carry_out


def handlers(record: Path | None) -> dict[str, Handler]:
    """By name; each notes its beginning and end in the file."""
    bodies: tuple[tuple[str, Handler], ...] = (
        ("succeed", succeed),
        ("fail", fail),
        ("slow", slow),
        ("shard", shard),
        ("echo", echo),
        ("file", file),
    )
    return {name: recorded(body, record) for name, body in bodies}


async def main(dialect: str) -> None:
    setting = {
        name.removeprefix("INTEROP_"): value
        for name, value in os.environ.items()
        if name.startswith("INTEROP_")
    }
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with Executor(
        dialect,
        admins=setting["ADMINS"].split(","),
        token=setting["TOKEN"],
        app=setting["APP"],
        host=setting["HOST"],
        port=int(setting["PORT"]),
        logs=Path(setting["LOGS"]),
        handlers=handlers(Path(setting["RECORD"]) if "RECORD" in setting else None),
        script=Script(**json.loads(setting.get("SCRIPT", "{}"))),
        beat_seconds=float(setting.get("BEAT_SECONDS", BEAT_SECONDS)),
    ):
        print("interop ready", flush=True)
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
