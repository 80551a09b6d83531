"""An executor of XXL-JOB that costs next to nothing, and misbehaves as it is told.

    python -m tests.admin.xxl_job.stub --admin http://127.0.0.1:8080 --app-name a --token t

It parses only what it needs and answers from the socket's own callback, so that in a benchmark the
machine's time goes to the admin. It queues no runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

MAX_RESULTS_PER_POST = 1000
_LINES_PER_PAGE = 1000
_ALL_BUT_BEATS = {"/run", "/trigger", "/idleBeat", "/kill", "/log"}


@dataclass(kw_only=True)
class Behaviour:
    """What a stub does; may be changed at any time."""

    run_seconds: float = 0  # that each run takes
    result_code: int = 200
    result_message: str = ""
    log_lines: int = 2  # of each run

    answer_seconds: float = 0  # until it answers
    hangs: set[str] = field(default_factory=set)  # paths that it does what is said, and is silent
    drops: set[str] = field(default_factory=set)  # … and closes without an answer
    refuses: dict[str, str] = field(default_factory=dict)  # path: with which words, doing nothing
    says: dict[str, bytes] = field(default_factory=dict)  # path: the body in place of its own

    is_deaf: bool = False  # takes runs, and never starts them
    denies: bool = False  # says that it has neither runs nor logs, whatever it has
    hides_kills: bool = False  # sends no result of a run that was killed
    lost_results: float = 0  # share that it never sends
    results_sent: int = 1  # how many times it sends each
    batch_seconds: float = 0.01  # for which it collects results
    retry_seconds: float = 0.2  # until it sends results again that were not taken


class _Said(msgspec.Struct, rename="camel"):
    job_id: int = 0
    log_id: int = 0
    log_date_time: int = 0
    from_line_num: int = 1


@dataclass(frozen=True, slots=True)
class StubRun:
    """A run that is under way."""

    job_id: int
    log_id: int
    time_ms: int
    end: asyncio.TimerHandle


_decode = msgspec.json.Decoder(_Said).decode
_DONE = b'{"code":200}'
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/html;charset=UTF-8\r\ncontent-length: %d\r\n\r\n"
_DONE_ANSWER = _HEAD % len(_DONE) + _DONE


class StubExecutor:
    """One process of an executor.

    Args:
        admin: base URL under which the admin has `/api/…`; empty for none.
        app_name: the executor's.
        token: to send, and to ask for; empty for none.
        dialect: "A", "B" or "C".
        behaviour: none in particular when not given.
        user_agent: that its requests have; empty for none.
        seed: of what is left to chance.
    """

    def __init__(
        self,
        *,
        admin: str = "",
        app_name: str = "stub",
        token: str = "",
        dialect: str = "A",
        behaviour: Behaviour | None = None,
        register_seconds: float = 30,
        user_agent: str = "",
        seed: int = 1,
    ) -> None:
        self.behaviour = behaviour or Behaviour()
        self.port = 0  # known after the first start, and kept
        self.calls: Counter[str] = Counter()  # by path
        self.starts: Counter[int] = Counter()  # by logId: how often a run began
        self.runs: dict[int, StubRun] = {}  # under way, by logId
        self._jobs: defaultdict[int, set[int]] = defaultdict(set)  # logIds under way, by jobId
        self.results_taken = 0  # by the admin, those that were repeated included
        self._admin = admin.rstrip("/")
        self._app_name = app_name
        self._token = token
        self._dialect = dialect
        self._user_agent = user_agent
        self._register_seconds = register_seconds
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._results: list[bytes] = []
        self._has_results = asyncio.Event()
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._loops: list[asyncio.Task[None]] = []
        self._paths: dict[str, Callable[[_Said], bytes]] = {
            "/beat": lambda _: _DONE,
            "/idleBeat": self._idle_beat,
            "/trigger" if dialect == "C" else "/run": self._run,
            "/kill": self._kill,
            "/log": self._log,
        }

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, and register when there is an admin; again under the same address."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        if self._admin:
            self._loops = [
                asyncio.create_task(self._registering()),
                asyncio.create_task(self._sending_results()),
            ]

    async def stop(self) -> None:
        """Go in order: deregister, and leave the runs."""
        if self._admin and self._server is not None:
            with contextlib.suppress(OSError, EOFError, ValueError):
                poster = _Poster(self._admin, self._headers())
                await poster.post("/api/registryRemove", self._registration())
                poster.close()
        await self.crash()

    async def crash(self) -> None:
        """End as a killed process does: nothing is said, nothing is kept."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.abort()
        for run in self.runs.values():
            run.end.cancel()
        self.runs.clear()
        self._jobs.clear()
        self._results.clear()
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops = []
        self._thawed.set()

    def freeze(self) -> None:
        """Neither read nor send anything, as a stopped process does; connections stay open."""
        self._thawed.clear()
        for connection in self._connections:
            connection.pause()

    def thaw(self) -> None:
        """Go on."""
        self._thawed.set()
        for connection in self._connections:
            connection.resume()

    @property
    def is_frozen(self) -> bool:
        return not self._thawed.is_set()

    # What is asked of it

    def answer(self, path: str, headers: bytes, body: bytes) -> bytes | None:
        """Do what is said, and give the answer's body; None: close without one."""
        self.calls[path] += 1
        behaviour = self.behaviour
        if self._token and b": " + self._token.encode() + b"\r\n" not in headers + b"\r\n":
            return _refusal("The access token is wrong.")
        if path in behaviour.refuses:
            return _refusal(behaviour.refuses[path])
        act = self._paths.get(path)
        if act is None:
            return _refusal(f"invalid request, uri-mapping({path}) not found.")
        answer = act(_decode(body) if body.startswith(b"{") else _Said())
        return None if path in behaviour.drops else behaviour.says.get(path, answer)

    def _idle_beat(self, said: _Said) -> bytes:
        if self._runs_of(said.job_id) and not self.behaviour.denies:
            return _refusal("job thread is running or has trigger queue.")
        return _DONE

    def _run(self, said: _Said) -> bytes:
        seconds = self.behaviour.run_seconds
        if self.behaviour.is_deaf:
            return _DONE
        if seconds and self._runs_of(said.job_id):
            return _refusal("block strategy effect：Discard Later")
        self.starts[said.log_id] += 1
        if seconds:
            end = asyncio.get_running_loop().call_later(seconds, self._end, said.log_id)
            self.runs[said.log_id] = StubRun(said.job_id, said.log_id, said.log_date_time, end)
            self._jobs[said.job_id].add(said.log_id)
        else:
            behaviour = self.behaviour
            self._report(
                said.log_id, said.log_date_time, behaviour.result_code, behaviour.result_message
            )
        return _DONE

    def _end(self, log_id: int) -> None:
        run = self._forget(log_id)
        behaviour = self.behaviour
        self._report(log_id, run.time_ms, behaviour.result_code, behaviour.result_message)

    def _kill(self, said: _Said) -> bytes:
        runs = self._runs_of(said.job_id)
        for run in runs:
            run.end.cancel()
            self._forget(run.log_id)
            if not self.behaviour.hides_kills:
                self._report(run.log_id, run.time_ms, 500, "web container destroy and kill the job")
        return _DONE if runs else b'{"code":200,"msg":"job thread already killed."}'

    def _log(self, said: _Said) -> bytes:
        first, count = said.from_line_num, self.behaviour.log_lines
        if said.log_id not in self.starts or self.behaviour.denies:
            content, last, is_end = "readLog fail, logFile not exists", 0, True
        else:
            last = min(count, first + _LINES_PER_PAGE - 1)
            is_end = False
            content = "".join(f"line {number}\n" for number in range(first, last + 1))
        page = {"fromLineNum": first, "toLineNum": last, "logContent": content, "isEnd": is_end}
        key = "content" if self._dialect == "A" else "data"
        return json.dumps({"code": 200, key: page}).encode()

    def _runs_of(self, job_id: int) -> list[StubRun]:
        return [self.runs[log_id] for log_id in self._jobs.get(job_id, ())]

    def _forget(self, log_id: int) -> StubRun:
        run = self.runs.pop(log_id)
        log_ids = self._jobs[run.job_id]
        log_ids.discard(log_id)
        if not log_ids:
            del self._jobs[run.job_id]
        return run

    # What it sends

    def _report(self, log_id: int, time_ms: int, code: int, message: str) -> None:
        lost = self.behaviour.lost_results
        if not self._admin or (lost and self._random.random() < lost):
            return
        key = b"logDateTime" if self._dialect == "C" else b"logDateTim"
        text = json.dumps(message).encode() if message else b"null"
        result = b'{"logId":%d,"%s":%d,"handleCode":%d,"handleMsg":%s}'
        self._results.append(result % (log_id, key, time_ms, code, text))
        self._has_results.set()

    async def _sending_results(self) -> None:
        poster = _Poster(self._admin, self._headers())
        try:
            while True:
                await self._has_results.wait()
                await asyncio.sleep(self.behaviour.batch_seconds)
                await self._thawed.wait()
                batch = self._results[:MAX_RESULTS_PER_POST]
                del self._results[:MAX_RESULTS_PER_POST]
                for _ in range(self.behaviour.results_sent):
                    await self._send(poster, batch)
                if not self._results:
                    self._has_results.clear()
        finally:
            poster.close()

    async def _send(self, poster: _Poster, batch: list[bytes]) -> None:
        """Send until they are taken."""
        body = b"[" + b",".join(batch) + b"]"
        if self._dialect == "C":
            body = b'{"callbackList":' + body + b"}"
        while True:
            try:
                answer = json.loads(await poster.post("/api/callback", body))
            except (OSError, EOFError, ValueError):
                answer = {}
            if answer.get("code") == 200:
                self.results_taken += len(batch)
                return
            await asyncio.sleep(self.behaviour.retry_seconds)

    async def _registering(self) -> None:
        poster = _Poster(self._admin, self._headers())
        try:
            while True:
                await self._thawed.wait()
                try:
                    await poster.post("/api/registry", self._registration())
                except (OSError, EOFError, ValueError):
                    await asyncio.sleep(0.2)  # the real one waits for its next turn
                else:
                    await asyncio.sleep(self._register_seconds)
        finally:
            poster.close()

    def _registration(self) -> bytes:
        return json.dumps(
            {
                "registryGroup": "EXECUTOR",
                "registryKey": self._app_name,
                "registryValue": f"{self.address}/",
            }
        ).encode()

    def _headers(self) -> dict[str, str]:
        found = {"Content-Type": "application/json;charset=UTF-8"}
        if self._user_agent:
            found["User-Agent"] = self._user_agent
        if self._token:
            found["XXL-JOB-ACCESS-TOKEN"] = self._token
        if self._dialect == "C":
            found["XXL-JOB-APPNAME"] = self._app_name
        return found

    def opened(self, connection: _Connection) -> None:
        """Know a connection."""
        self._connections.add(connection)
        if self.is_frozen:
            connection.pause()

    def closed(self, connection: _Connection) -> None:
        """Forget it."""
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """One connection of the admin's."""

    def __init__(self, stub: StubExecutor) -> None:
        self._stub = stub
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._stub.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stub.closed(self)

    def data_received(self, data: bytes) -> None:
        self._buffer = buffer = self._buffer + data
        while True:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = buffer[:end]
            lower = head.lower()
            at = lower.find(b"content-length:")
            length = int(lower[at + 15 :].split(b"\r", 1)[0]) if at >= 0 else 0
            if len(buffer) < end + 4 + length:
                return
            body = buffer[end + 4 : end + 4 + length]
            self._buffer = buffer = buffer[end + 4 + length :]
            self._answer(head.split(b" ", 2)[1].decode(), head, body)

    def _answer(self, path: str, head: bytes, body: bytes) -> None:
        behaviour = self._stub.behaviour
        answer = self._stub.answer(path, head, body)
        if answer is None:
            self._transport.close()
        elif path in behaviour.hangs:
            return
        elif behaviour.answer_seconds:
            loop = asyncio.get_running_loop()
            loop.call_later(behaviour.answer_seconds, self._write, answer)
        else:
            self._write(answer)

    def _write(self, answer: bytes) -> None:
        if self._transport.is_closing():
            return
        whole = _DONE_ANSWER if answer is _DONE else _HEAD % len(answer) + answer
        self._transport.write(whole)

    def abort(self) -> None:
        self._transport.abort()

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()


class _Poster:
    """One connection to the admin, opened again when it broke."""

    def __init__(self, base: str, headers: dict[str, str]) -> None:
        parts = urlsplit(base)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._path = parts.path
        self._head = "".join(
            f"{name}: {value}\r\n" for name, value in {"Host": parts.netloc, **headers}.items()
        )
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> bytes:
        """The answer's body. Raises OSError, EOFError or ValueError."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._host, self._port)
            reader, writer = self._streams
            head = f"POST {self._path}{path} HTTP/1.1\r\n{self._head}"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            async with asyncio.timeout(10):
                answer = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(answer.split(b"content-length:", 1)[1].split(b"\r", 1)[0])
                return await reader.readexactly(length)
        except IndexError:
            self.close()
            raise ValueError("an answer without Content-Length") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def _refusal(text: str) -> bytes:
    return json.dumps({"code": 500, "msg": text}).encode()


async def _serve(arguments: argparse.Namespace) -> None:
    stub = StubExecutor(
        admin=arguments.admin,
        app_name=arguments.app_name,
        token=arguments.token,
        dialect=arguments.dialect,
        register_seconds=arguments.register_seconds,
        user_agent=arguments.user_agent,
        behaviour=Behaviour(
            run_seconds=arguments.run_ms / 1000,
            answer_seconds=arguments.answer_ms / 1000,
            hangs=_ALL_BUT_BEATS if arguments.hangs else set(),
            is_deaf=arguments.hangs,
            batch_seconds=arguments.batch_ms / 1000,
        ),
    )
    stub.port = arguments.port
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await stub.start()
    print(stub.address, flush=True)
    await ended.wait()
    await stub.stop()
    print(json.dumps({"calls": stub.calls, "runs": stub.starts.total()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--admin", default="")
    parser.add_argument("--app-name", default="stub")
    parser.add_argument("--token", default="")
    parser.add_argument("--dialect", default="A", choices=("A", "B", "C"))
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--register-seconds", type=float, default=30)
    parser.add_argument("--user-agent", default="")
    parser.add_argument("--run-ms", type=float, default=0)
    parser.add_argument("--answer-ms", type=float, default=0)
    parser.add_argument("--batch-ms", type=float, default=10)
    parser.add_argument(
        "--hangs", action="store_true", help="answer nothing but beats, run nothing"
    )
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
