"""Asks a real server, and says which answers are wrong: 500 and above, none, or a trace in the log.

What a request changes is taken back, so that each one meets the same things; before that, pages
and endpoints that show what was changed are asked as well.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog
from aiohttp import web
from structlog.testing import capture_logs

from tests.admin.fuzz.names import INDEX, Learned, forms_in, learning
from tests.admin.fuzz.plan import Attempt, Request, attempts_of, build, explorations, slice_of
from tests.admin.fuzz.wire import Answer, Wire
from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import add_links
from tests.admin.kit.routes import COMMON, Caller, Ids, callers, two_executors
from tests.admin.kit.served import Served, config_in, services_over
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.services.users.throttle import LoginThrottle
from tickwheel_admin.store.backup.contents import columns_of
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import metadata
from tickwheel_admin.store.triggers.planning import ensure_buckets
from tickwheel_admin.web.routes import Route, Routes, declared_routes
from tickwheel_admin.web.server import bind, create_runner, serve

Event = MutableMapping[str, Any]

LOOKS = 4  # pages and endpoints that are asked after something was changed
NEEDED_ROUNDS = 6
DEPTH = 5  # objects in objects, and the choices in them


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A wrong answer, and the requests that lead to it."""

    route: str
    attempt: Attempt | None
    caller: str
    said: str  # what was answered, and what the log has
    before: Sequence[bytes]  # requests that changed something, since everything was as at first
    request: bytes

    def __str__(self) -> str:
        steps = "".join(f"\n  first: {_shown(each)}" for each in self.before)
        return (
            f"{self.route} as {self.caller}: {self.said}\n  because of: {self.attempt}"
            f"{steps}\n  send: {_shown(self.request)}"
        )


class Log:
    """What was logged at error level and above since it was last taken."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._records: list[str] = []
        self.handler = _Records(self._records)

    def take(self) -> list[str]:
        """The errors, as one line each."""
        bad = [
            _event_line(event)
            for event in self._events
            if event.get("log_level") in ("error", "critical", "exception")
        ]
        bad += self._records
        self._events.clear()
        self._records.clear()
        return bad


class _Records(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.name}: {self.format(record)}"[-700:])


class Snapshot:
    """Every row of a database, to be put back."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Ids that were taken stay taken: the process keeps blocks of them.
        self._tables = [each for each in metadata.sorted_tables if each.name != "id_block"]
        self._rows: dict[str, list[dict[str, Any]]] = {}

    async def take(self) -> None:
        def read(conn: sa.Connection) -> None:
            for table in self._tables:
                rows = conn.execute(sa.select(*columns_of(table))).mappings()
                self._rows[table.name] = [dict(row) for row in rows]

        await self._database.read(read)

    async def restore(self) -> None:
        def write(conn: sa.Connection) -> None:
            for table in reversed(self._tables):
                conn.execute(sa.delete(table))
            for table in self._tables:
                if self._rows[table.name]:
                    conn.execute(sa.insert(table), self._rows[table.name])

        await self._database.run(write)


@dataclass
class Hunt:
    """A server, everybody who asks it, and what was found."""

    wire: Wire
    routes: list[Route]
    learned: Learned
    callers: list[Caller]
    own: Ids
    snapshot: Snapshot
    log: Log
    findings: list[Finding] = field(default_factory=list)
    asked: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    _changes: list[bytes] = field(default_factory=list)

    @property
    def root(self) -> Caller:
        return next(caller for caller in self.callers if caller.name == "root")

    async def learn(self) -> None:
        """Ask everything once or twice with nothing wrong in it, to see what is read and needed."""
        for _ in range(2):
            for route in self.routes:
                answer = await self._try(route, None, self.root)
                if answer.headers.get("content-type", "").startswith("text/html"):
                    self._learn_forms(route, answer.body.decode())
                await self._put_back()
        for route in (each for each in self.routes if each.api and each.method != "GET"):
            for _ in range(NEEDED_ROUNDS):
                answer = await self._try(route, None, self.root)
                await self._put_back()
                if not self._learn_needed(route, answer):
                    break
            await self._explore(route)

    async def _explore(self, route: Route) -> None:
        """Find the fields of what is inside of others."""
        names = self.learned[route]
        known = -1
        for _ in range(DEPTH):
            if len(names.fields) == known:
                return
            known = len(names.fields)
            for about, body in list(explorations(names, self.own)):
                made = build(route, names, None, ids=self.own, headers=self.root.headers, body=body)
                answer = await self._ask(f"{route.method} {route.path}", None, self.root, made)
                await self._put_back()
                for name, code in _problems(answer).items():
                    if code != "unknown_field":
                        names.fields[name] = None
                    if code == "required" and about is not None:
                        names.needs.setdefault(about, {})[name] = None

    def _learn_needed(self, route: Route, answer: Answer) -> bool:
        names = self.learned[route]
        new = {name for name, code in _problems(answer).items() if code == "required"}
        new -= names.needed.keys()
        names.needed |= dict.fromkeys(sorted(new))
        return bool(new)

    def _learn_forms(self, route: Route, page: str) -> None:
        forms = list(forms_in(page, self._address(route)))
        addresses = [(each, self._address(each)) for each in self.routes] if forms else []
        for form in forms:
            target = form.action.partition("?")[0]
            for each, address in addresses:
                if (each.method, address) != (form.method, target):
                    continue
                if form.method == "GET":
                    self.learned[each].query |= dict.fromkeys(form.values)
                elif form.values not in self.learned[each].forms:
                    self.learned[each].forms.append(form.values)

    def _address(self, route: Route) -> str:
        made = build(route, self.learned[route], None, ids=self.own, headers={})
        return made.path.decode()

    async def run(self, *, seed: int, per_route: int) -> None:
        """One slice of all that can be asked."""
        luck = random.Random(seed)
        for route in self.routes:
            attempts = attempts_of(route, self.learned[route])
            for attempt in slice_of(attempts, seed=seed, size=per_route):
                # Whoever may do everything gets furthest; the others share the other half.
                caller = self.root if luck.random() < 0.5 else luck.choice(self.callers)
                answer = await self._try(route, attempt, caller)
                if route.method != "GET" and 200 <= answer.status < 400:
                    await self._look_around(answer, luck)
                    await self._put_back()

    async def _look_around(self, answer: Answer, luck: random.Random) -> None:
        """What was stored must not break whoever looks at it."""
        reads = [each for each in self.routes if each.method == "GET"]
        for route in luck.sample(reads, min(LOOKS, len(reads))):
            await self._try(route, None, self.root)
        location = answer.headers.get("location", "")
        if location.startswith("/"):
            made = Request(method="GET", path=location.encode("latin-1"), headers=_sent(self.root))
            await self._ask("GET (where it redirects to)", None, self.root, made)

    async def _try(self, route: Route, attempt: Attempt | None, caller: Caller) -> Answer:
        made = build(
            route, self.learned[route], attempt, ids=self.own, headers=dict(caller.headers)
        )
        return await self._ask(f"{route.method} {route.path}", attempt, caller, made)

    async def _ask(
        self, named: str, attempt: Attempt | None, caller: Caller, made: Request
    ) -> Answer:
        request = made.encoded()
        answer = await self.wire.ask(request)
        self.asked += 1
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        logged = self.log.take()
        if logged or answer.status >= 500 or answer.status == 0:
            said = f"{answer.status} {answer.body[:100]!r} {' | '.join(logged)}"
            before = [each for each in self._changes if each != request]
            self.findings.append(
                Finding(
                    route=named,
                    attempt=attempt,
                    caller=caller.name,
                    said=said,
                    before=before,
                    request=request,
                )
            )
        if made.method != "GET" and answer.status < 400:
            self._changes.append(request)
        return answer

    async def _put_back(self) -> None:
        if self._changes:
            self._changes.clear()
            await self.snapshot.restore()


@asynccontextmanager
async def hunting(
    database: Database, directory: Path, *, extra: Routes | None = None
) -> AsyncIterator[Hunt]:
    """A server over an empty database, as it really listens, with node sockets and without loops.

    Args:
        extra: more routes, to see that what is wrong with them is found.
    """
    await database.run(metadata.create_all)
    await database.run(ensure_buckets)
    hours = count(step=3_600)  # nobody is throttled
    services = services_over(
        database,
        throttle=LoginThrottle(lambda: float(next(hours))),
        sleep=_no_sleep,
    )
    app = create_app(config_in(directory), services)
    await add_links(app, database)
    if extra is not None:
        extra.add_to(app)
    learned = Learned()
    app.middlewares.insert(0, learning(learned))
    runner = create_runner(app, shutdown_seconds=0.2)
    await runner.setup()
    [sock] = bind("127.0.0.1", 0)
    await serve(runner, [sock])
    served = Served(client=None, services=services, clock=Clock())  # type: ignore[arg-type]
    own, _other = await two_executors(served)
    asking = await callers(served, int(own["executor_id"]))
    snapshot = Snapshot(database)
    await snapshot.take()
    wire = Wire(*sock.getsockname()[:2])
    try:
        with _watching() as log:
            yield Hunt(
                wire=wire,
                routes=_routes_of(app),
                learned=learned,
                callers=asking,
                own={**COMMON, **own},
                snapshot=snapshot,
                log=log,
            )
    finally:
        await wire.close()
        await runner.cleanup()
        services.close()


def _routes_of(app: web.Application) -> list[Route]:
    return sorted(set(declared_routes(app).values()), key=lambda each: (each.path, each.method))


@contextmanager
def _watching() -> Iterator[Log]:
    with capture_logs(processors=[structlog.processors.format_exc_info]) as events:
        log = Log(events)
        logging.getLogger().addHandler(log.handler)
        try:
            yield log
        finally:
            logging.getLogger().removeHandler(log.handler)


async def _no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


def _problems(answer: Answer) -> dict[str, str]:
    """The code of each field that was refused."""
    if answer.status != 422:
        return {}
    problems = json.loads(answer.body)["error"]["problems"]
    found = {INDEX.sub("[0]", each["field"]): each["code"] for each in problems}
    return {name: code for name, code in found.items() if name}


def _sent(caller: Caller) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((key.encode(), text.encode()) for key, text in caller.headers.items())


def _event_line(event: Event) -> str:
    trace = str(event.get("exception", "")).splitlines()
    ours = [line.strip() for line in trace if "tickwheel_" in line][-3:]
    return f"{event['event']}: {' '.join(trace[-1:])[:300]} {ours}"


def _shown(request: bytes) -> str:
    shown = repr(request)
    return shown if len(shown) < 1_500 else f"{shown[:1_400]}… ({len(request)} bytes)"


def kinds(findings: Sequence[Finding]) -> Iterator[Finding]:
    """One finding of each route and place."""
    seen = set()
    for each in findings:
        attempt = each.attempt
        key = (each.route, attempt and (attempt.place, attempt.name))
        if key not in seen:
            seen.add(key)
            yield each
