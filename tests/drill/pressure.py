"""Load that makes others late, if it can: one kind or all, against an admin of a drill's own.

    python -m tests.drill.pressure --seconds 20 streams held < target.json

The target is JSON (`Target`). It only ever talks to 127.0.0.1, and ends by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import string
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

import aiohttp

STREAMS = 200
HELD = 9_999
UNKNOWN_RESULTS = 30_000
AT_ONCE = 4  # requests of each kind
UNREADABLE = "".join(
    (
        "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n",
        "BEGIN:VEVENT\nUID:1\nDTSTART:19000101T000000\n"
        "RRULE:FREQ=WEEKLY;BYSETPOS=200;BYDAY=MO\nEND:VEVENT\n" * 3,
        "END:VCALENDAR\n",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where, and as whom."""

    url: str
    api_token: str  # of somebody with every role
    cookie: str  # of a person who is logged in
    executor: str  # whose nodes are played
    executor_token: str
    run_id: int  # with a long log

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Pressure:
    """Everything that is sent, until it is over."""

    def __init__(self, target: Target, http: aiohttp.ClientSession) -> None:
        self.target = target
        self.http = http
        self.answers: Counter[str] = Counter()
        self.random = random.Random(1)

    # --- kinds that made everybody late ------------------------------------------------------

    async def calendar(self) -> None:
        """Files with rules that recur without measure."""
        body = {"format": "ical", "content": UNREADABLE}
        await self._for_ever(lambda: self._ask("POST", "/api/v1/calendars/import", json=body))

    async def held(self) -> None:
        """A node that names runs it does not hold, again and again."""
        runs = [{"run": 10**12 + n, "attempt": 1, "token": "x"} for n in range(HELD)]
        held = json.dumps([{"type": "held", "runs": runs}])
        while True:
            async with self._node() as socket:
                await socket.send_str(held)
                await self._listen(socket, 1.0)

    async def results(self) -> None:
        """A node that sends results of runs that there never were."""
        results = json.dumps(
            [
                {
                    "type": "result",
                    "run": 10**12 + n,
                    "attempt": 1,
                    "token": "x",
                    "outcome": "failed",
                    "duration_ms": 1,
                }
                for n in range(UNKNOWN_RESULTS)
            ]
        )
        while True:
            async with self._node() as socket:
                await socket.send_str('[{"type": "held", "runs": []}]')
                await socket.send_str(results)
                await self._listen(socket, 2.0)

    async def streams(self) -> None:
        """One person with very many open pages."""
        await asyncio.gather(*(self._stream() for _ in range(STREAMS)))

    async def heat(self) -> None:
        """Heat maps of ever other weeks."""
        starts = itertools.count(round(time.time() * 1000) + 2 * 86_400_000, 604_800_000)
        await self._for_ever(
            lambda: self._ask("GET", f"/api/v1/schedule/coming?days=7&start={next(starts)}")
        )

    async def search(self) -> None:
        """Searches through a long log."""
        path = f"/runs/{self.target.run_id}/log/lines?after=0&find="
        await self._for_ever(lambda: self._page(path + self._word()))

    async def texts(self) -> None:
        """Texts that no job has."""
        await self._for_ever(lambda: self._ask("GET", f"/api/v1/jobs?text={self._word()}"))

    # --- kinds that a memory may keep something of -------------------------------------------

    async def strangers(self) -> None:
        """Names, addresses and tokens that there are not."""
        await self._for_ever(self._strange)

    async def _strange(self) -> None:
        word = self._word()
        match self.random.randrange(6):
            case 0:
                form = {"name": word, "password": word}
                await self._request("POST", "/login", data=form)
            case 1:
                await self._request("GET", f"/{word}/{word}?{word}={word}")
            case 2:
                await self._request(
                    "GET", "/api/v1/jobs", headers={"Authorization": f"Bearer twt_{word}"}
                )
            case 3:
                await self._request("GET", "/jobs", headers={"Cookie": f"tickwheel_session={word}"})
            case 4:
                await self._page(f"/jobs?q={word}")
            case _:
                await self._ask("GET", f"/api/v1/jobs?text={word}&cursor={word}")

    async def forms(self) -> None:
        """Large and broken bodies."""
        await self._for_ever(self._form)

    async def _form(self) -> None:
        size = self.random.choice((1_000, 100_000, 900_000, 3_000_000))
        data = aiohttp.FormData()
        for number in range(self.random.choice((1, 50, 2_000))):
            data.add_field(f"{self._word()}{number}", "x", content_type="text/plain")
        match self.random.randrange(3):
            case 0:
                await self._page("/jobs/new", method="POST", data=data)
            case 1:
                await self._ask("POST", "/api/v1/jobs", data=b"{" + b" " * size)
            case _:
                await self._request("POST", "/login", data={"name": "x" * size, "password": "x"})

    async def frames(self) -> None:
        """Sockets that open, say something wrong or much, and go."""
        await self._for_ever(self._frame)

    async def _frame(self) -> None:
        beats = [{"type": "heartbeat", "seq": n, "in_use": 0} for n in range(20_000)]
        async with self._node() as socket:
            line = [1, "info", "x" * 10_000]
            chunk = {"type": "log", "run": 10**12, "attempt": 1, "token": "x", "first_seq": 1}
            await socket.send_str(
                self.random.choice(
                    (
                        "[" * 100_000,
                        json.dumps([chunk | {"lines": [line] * 300}]),
                        json.dumps([{"type": self._word()}]),
                        '[{"type": "goodbye"}]',
                        json.dumps(beats),
                    )
                )
            )
            await self._listen(socket, 0.2)

    async def ordinary(self) -> None:
        """What people do."""
        paths = itertools.cycle(("/", "/jobs", "/runs", "/executors", "/nodes", "/admins"))
        await self._for_ever(lambda: self._page(next(paths)))

    # --- how -----------------------------------------------------------------------------------

    async def _for_ever(self, act: Callable[[], Awaitable[None]]) -> None:
        async def one() -> None:
            while True:
                with suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
                    await act()
                await asyncio.sleep(0.01)

        await asyncio.gather(*(one() for _ in range(AT_ONCE)))

    async def _stream(self) -> None:
        while True:
            with suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
                headers = {"Cookie": self.target.cookie, "Accept": "text/event-stream"}
                async with self.http.get(f"{self.target.url}/events", headers=headers) as answer:
                    self.answers[str(answer.status)] += 1
                    async for _ in answer.content:
                        pass
            await asyncio.sleep(1)

    def _node(self) -> _Node:
        return _Node(self)

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for _ in socket:
                    pass

    async def _ask(self, method: str, path: str, **about: object) -> None:
        headers = {"Authorization": f"Bearer {self.target.api_token}"}
        await self._request(method, path, headers=headers, **about)

    async def _page(self, path: str, *, method: str = "GET", **about: object) -> None:
        await self._request(method, path, headers={"Cookie": self.target.cookie}, **about)

    async def _request(self, method: str, path: str, **about: object) -> None:
        url = self.target.url + path
        async with self.http.request(method, url, allow_redirects=False, **about) as answer:  # type: ignore[arg-type]
            self.answers[str(answer.status)] += 1
            await answer.read()

    def _word(self) -> str:
        return "".join(self.random.choices(string.ascii_lowercase, k=20))


class _Node:
    """A socket to the admin, after hello."""

    def __init__(self, pressure: Pressure) -> None:
        self._pressure = pressure
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def __aenter__(self) -> aiohttp.ClientWebSocketResponse:
        target = self._pressure.target
        self._socket = await self._pressure.http.ws_connect(
            f"{target.url}/link/v1",
            headers={"Authorization": f"Bearer {target.executor_token}"},
            max_msg_size=0,
        )
        hello = {
            "type": "hello",
            "versions": [1],
            "executor": target.executor,
            "node_key": f"{self._pressure.random.randrange(16**32):032x}",
            "name": "pressure",
            "sdk": "test/1",
            "slots": 4,
            "handlers": ["nothing"],
        }
        await self._socket.send_str(json.dumps([hello]))
        return self._socket

    async def __aexit__(self, *_: object) -> None:
        assert self._socket is not None
        await self._socket.close()


LATE = ("calendar", "held", "results", "streams", "heat", "search", "texts")
ALL = (*LATE, "strangers", "forms", "frames", "ordinary")


async def press(target: Target, kinds: list[str], seconds: float) -> Counter[str]:
    """Send these kinds for so long; what was answered, by status."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
        pressure = Pressure(target, http)

        async def kept_up(kind: str) -> None:
            while True:  # the admin may close, or be away: that ends nothing here
                with suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
                    await getattr(pressure, kind)()
                await asyncio.sleep(0.1)

        tasks = [asyncio.create_task(kept_up(kind)) for kind in kinds]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return pressure.answers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.drill.pressure", description=__doc__)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("kinds", nargs="+", choices=ALL)
    asked = parser.parse_args()
    target = Target(**json.load(sys.stdin))
    assert target.url.startswith("http://127.0.0.1:"), "only ever at what runs here"
    print(dict(asyncio.run(press(target, asked.kinds, asked.seconds))), flush=True)


if __name__ == "__main__":
    main()
