"""One process of an executor that behaves like xxl-job-core, or worse when it is told to."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.handlers import HandlerFailure, behave
from tests.simulation.scheduler import Process
from tests.simulation.xxl_executors.truth import (
    HELD_UP_SECONDS,
    KILL_HELD_UP_SECONDS,
    Mishap,
    key_of,
)
from tickwheel_admin.xxl_job.dialects import Call

if TYPE_CHECKING:
    from tests.simulation.xxl_executors.host import XxlHost
    from tests.simulation.xxl_executors.wire import Exchange

RETRY_SECONDS = 30.0  # until reports are sent again
REGISTER_SECONDS = 5.0  # Java waits for 30 s, and these worlds live not much longer
MISSING = "readLog fail, logFile not exists"


@dataclass(frozen=True, slots=True)
class _Order:
    """What /run said."""

    log_id: int
    time_ms: int
    handler: str
    timeout_s: int
    came_at: float  # virtual seconds

    @property
    def id(self) -> int:
        return key_of(self.log_id)[0]

    @property
    def attempt(self) -> int:
        return key_of(self.log_id)[1]

    @property
    def job(self) -> str:
        return self.handler


class SimExecutor:
    """The threads and queues of one process."""

    def __init__(self, host: XxlHost, process: Process, random: Random) -> None:
        self.host = host
        self.process = process
        self.random = random
        self.truth = host.truth
        self.threads: dict[int, _JobThread] = {}  # by wire job
        self.is_stopping = False
        self._reports: list[dict[str, Any]] = []  # in memory: a killed process takes them along
        self._has_reports = asyncio.Event()
        self._paths: dict[str, Callable[[dict[str, Any]], bytes]] = {
            "/beat": lambda _: self._done(),
            "/idleBeat": self._idle_beat,
            "/trigger" if host.dialect == "C" else "/run": self._run,
            "/kill": self._kill,
            "/log": self._log,
        }

    async def live(self) -> None:
        """Register, report, and send again what was not taken; for ever."""
        await asyncio.gather(self._register_for_ever(), self._report_for_ever(), self._retry())

    # --- what is asked of it ---------------------------------------------------------------------

    async def answer(self, call: Call, exchange: Exchange) -> bytes | None:
        """Do what is said; None: the connection closes without an answer.

        Something on the way may send a call twice: then it is done twice, in either order.
        """
        act = self._paths.get(call.path)
        if act is None:
            return self._failed(f"invalid request, uri-mapping({call.path}) not found.")
        said = json.loads(call.body or b"{}")
        ways = self.host.ways
        is_run = call.path in ("/run", "/trigger")
        wait = self.random.uniform(0, ways.slow_seconds) if ways.slow_seconds else 0.0
        acts_first = self.random.random() < 0.6
        if call.path == "/kill" and ways.late_kill_seconds:
            await asyncio.sleep(self.random.uniform(0, ways.late_kill_seconds))
        if wait and not acts_first:
            await asyncio.sleep(wait)
            if is_run and wait > HELD_UP_SECONDS - 3.0:
                self.truth.note(key_of(said["logId"]), Mishap.HELD_UP)
        if is_run and self.random.random() < ways.drop_share:
            self.truth.note(key_of(said["logId"]), Mishap.DROPPED)
            return self._done()
        if call.path == "/kill":
            self._note_who_is_hit(said["jobId"], exchange.sent_at, again=exchange.is_done)
        exchange.is_done = True
        answer = act(said)
        if wait and acts_first:
            await asyncio.sleep(wait)
        return None if self.random.random() < ways.unanswered_share else answer

    def _idle_beat(self, said: dict[str, Any]) -> bytes:
        thread = self.threads.get(said["jobId"])
        if thread is None or not thread.is_busy:
            return self._done()
        if self.host.ways.says_idle:
            for order in thread.all:
                self.truth.note(key_of(order.log_id), Mishap.SAID_IDLE)
            return self._done()
        return self._failed("job thread is running or has trigger queue.")

    def _note_who_is_hit(self, wire_job: int, sent_at: float, *, again: bool) -> None:
        """What the attempts that are about to be killed cannot help."""
        thread = self.threads.get(wire_job)
        for order in thread.all if thread is not None else ():
            if again:
                self.truth.note(key_of(order.log_id), Mishap.KILLED_AGAIN)
            is_late = self.truth.history.now - sent_at > KILL_HELD_UP_SECONDS
            if is_late and order.came_at > sent_at:
                self.truth.note(key_of(order.log_id), Mishap.KILLED_LATE)

    def _run(self, said: dict[str, Any]) -> bytes:
        order = _Order(
            said["logId"],
            said["logDateTime"],
            said["executorHandler"],
            said["executorTimeout"],
            self.truth.history.now,
        )
        thread = self.threads.get(said["jobId"])
        if thread is not None and thread.is_busy:
            if any(each.log_id == order.log_id for each in thread.queue):
                return self._failed(f"repeate trigger job, logId:{order.log_id}")
            self.truth.busy[order.id] += 1
            return self._failed("block strategy effect：Discard Later")
        if thread is None:
            thread = self.threads[said["jobId"]] = _JobThread(self)
        thread.push(order)
        return self._done()

    def _kill(self, said: dict[str, Any]) -> bytes:
        thread = self.threads.pop(said["jobId"], None)
        if thread is None:
            return self._done("job thread already killed.")
        thread.kill()
        return self._done()

    def _log(self, said: dict[str, Any]) -> bytes:
        lines = self.host.logs.get(said["logId"])
        begin = said["fromLineNum"]
        if lines is not None and self.host.ways.denies_logs:
            self.truth.note(key_of(said["logId"]), Mishap.LOG_DENIED)
            lines = None
        if lines is None:
            page = {"fromLineNum": begin, "toLineNum": 0, "logContent": MISSING, "isEnd": True}
        else:
            page = {
                "fromLineNum": begin,
                "toLineNum": len(lines),
                "logContent": "".join(f"{line}\n" for line in lines[begin - 1 :]),
                "isEnd": False,
            }
        return self._done(page)

    def _done(self, content: Any = None) -> bytes:
        if self.host.dialect == "A":
            return json.dumps({"code": 200, "msg": None, "content": content}).encode()
        return json.dumps({"code": 200, "msg": "Success", "data": content}).encode()

    def _failed(self, message: str) -> bytes:
        return json.dumps({"code": 500, "msg": message}).encode()

    # --- what it says by itself ------------------------------------------------------------------

    def ended(self, order: _Order, code: int, message: str) -> None:
        """Report an end, some time."""
        key = key_of(order.log_id)
        if self.random.random() < self.host.ways.silenced_share:
            self.truth.note(key, Mishap.SILENCED)
            return
        times = 2 if self.random.random() < self.host.ways.twice_share else 1
        for _ in range(times):
            self._reports.append(
                {
                    "logId": order.log_id,
                    "time": order.time_ms,
                    "handleCode": code,
                    "handleMsg": message,
                }
            )
        self._has_reports.set()

    async def stop(self) -> None:
        """As on SIGTERM: it takes itself out, and kills what runs."""
        self.is_stopping = True
        await self._to_any("/registryRemove", self._registration())
        for thread in list(self.threads.values()):
            thread.kill()
        self.threads.clear()
        await asyncio.sleep(0.1)
        reports, self._reports = self._reports, []
        if reports and not await self._send(reports):
            self.host.files.append(reports)

    async def _register_for_ever(self) -> None:
        while not self.is_stopping:
            await self._to_any("/registry", self._registration())
            await asyncio.sleep(REGISTER_SECONDS)

    async def _report_for_ever(self) -> None:
        while True:
            await self._has_reports.wait()
            self._has_reports.clear()
            reports, self._reports = self._reports, []
            if reports and not await self._send(reports):
                self.host.files.append(reports)

    async def _retry(self) -> None:
        """Also what the process before it left."""
        while True:
            for reports in list(self.host.files):
                if await self._send(reports):
                    self.host.files.remove(reports)
            await asyncio.sleep(RETRY_SECONDS)

    async def _send(self, reports: list[dict[str, Any]]) -> bool:
        name = "logDateTime" if self.host.dialect == "C" else "logDateTim"
        said = [
            {"logId": each["logId"], name: each["time"]}
            | {part: each[part] for part in ("handleCode", "handleMsg")}
            for each in reports
        ]
        body = json.dumps({"callbackList": said} if self.host.dialect == "C" else said).encode()
        if not await self._to_any("/callback", body):
            return False
        for each in reports:
            self.truth.was_delivered(key_of(each["logId"]), each["handleCode"])
        return True

    async def _to_any(self, path: str, body: bytes) -> bool:
        """Whether one of the admins answered with code 200."""
        for admin in self.host.admins:
            answer = None
            for _ in range(2):  # Java sends again by itself when it gets no answer
                answer = await self.host.wire.post(self.host.name, admin, path, body)
                if answer is not None or self.random.random() < 0.5:
                    break
            if answer is not None and json.loads(answer)["code"] == 200:
                return True
        return False

    def _registration(self) -> bytes:
        return json.dumps(
            {
                "registryGroup": "EXECUTOR",
                "registryKey": self.host.app_name,
                "registryValue": f"{self.host.address}/",
            }
        ).encode()


class _JobThread:
    """The one thread of a wire job: runs come one after the other."""

    def __init__(self, executor: SimExecutor) -> None:
        self.queue: deque[_Order] = deque()
        self._executor = executor
        self._running: _Order | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_killed = False

    @property
    def is_busy(self) -> bool:
        return self._running is not None or bool(self.queue)

    @property
    def all(self) -> list[_Order]:
        return [*([self._running] if self._running else []), *self.queue]

    def push(self, order: _Order) -> None:
        self.queue.append(order)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="job thread")

    def kill(self) -> None:
        """Interrupt what runs; what waits is reported as failed."""
        self._is_killed = True
        for order in self.queue:
            self._note_kill(order)
            self._executor.ended(order, 500, "job not executed, in the job queue, killed.")
        self.queue.clear()
        if self._running is not None and self._task is not None:
            self._note_kill(self._running)
            self._task.cancel()

    def _note_kill(self, order: _Order) -> None:
        executor = self._executor
        executor.truth.killed(key_of(order.log_id), by_its_process=executor.is_stopping)

    async def _work(self) -> None:
        while self.queue:
            await asyncio.sleep(self._executor.random.uniform(0, 0.003))
            if not self.queue:
                return
            self._running = self.queue.popleft()
            try:
                await self._run(self._running)
            finally:
                self._running = None

    async def _run(self, order: _Order) -> None:
        host, random = self._executor.host, self._executor.random
        host.logs.setdefault(order.log_id, []).append("job execute start")
        journal, process = host.journal, self._executor.process
        has_started = False
        try:
            await asyncio.sleep(random.uniform(0, 0.001))
            journal.called(process, order)
            has_started = True
            async with asyncio.timeout(order.timeout_s or None):
                await behave(order.handler, order, Random(f"{host.seed}/{order.log_id}"))
        except asyncio.CancelledError:
            code, message, how = 500, "job toStop, stopReason:killed", "cancelled"
        except TimeoutError:
            code, message, how = 502, "job execute timeout", "timed out"
        except HandlerFailure:
            code, message, how = 500, "it happens", "raised"
        else:
            code, message, how = 200, f"{order.id}/{order.attempt}", "returned"
            if self._is_killed:  # it swallowed its interrupt: Java reports the kill
                code, message = 500, "job running, killed"
        host.logs.setdefault(order.log_id, []).append("job execute end")
        if has_started:
            journal.left_off(process, order, how)
        self._executor.ended(order, code, message)
