"""Webhooks of a provider that behaves as a test says, and the verdict on what it was told.

The verdict knows the tables and what came over HTTP, and no rule of the product.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import sqlalchemy as sa

from tests.e2e.cluster import Cluster
from tests.e2e.ledger import Kind, Problem
from tests.support.polling import wait_until

NETWORKS = {"TICKWHEEL_ALARM_NETWORKS": "127.0.0.0/8"}
LATE_SECONDS = 4.0
NEVER_SECONDS = 15.0  # longer than a sender waits
LEASE_MS = 120_000


class Answer(StrEnum):
    """What the provider does with a request that it has read."""

    OK = "ok"
    LATE = "late"  # after a few seconds
    BUSY = "busy"  # it does not take the message
    LOST = "lost"  # it takes the message, and hangs up
    NEVER = "never"  # it takes the message, and says nothing


@dataclass(slots=True)
class Taking:
    """One request that was read to its end."""

    channel: str  # the path of its URL
    message_id: str
    alarms: frozenset[tuple[int, str]]  # (id, occasion)
    answer: Answer = Answer.OK
    is_answered: bool = False  # the answer was sent


class Provider:
    """Listens on 127.0.0.1 while the `with` block lasts."""

    def __init__(self, behave: Callable[[Taking], Answer]) -> None:
        """
        Args:
            behave: called in a thread with each request before it is answered.
        """
        self.takings: list[Taking] = []
        self._ends = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                told = frozenset((each["alarm_id"], each["occasion"]) for each in body["alarms"])
                taking = Taking(self.path, self.headers["Idempotency-Key"], told)
                provider.takings.append(taking)
                taking.answer = behave(taking)
                self.close_connection = True
                provider._answer(self, taking)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, taking: Taking) -> None:
        match taking.answer:
            case Answer.LOST:
                return
            case Answer.NEVER:
                self._ends.wait(NEVER_SECONDS)
                return
            case Answer.LATE:
                time.sleep(LATE_SECONDS)
        try:
            handler.send_response(503 if taking.answer is Answer.BUSY else 200)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            taking.is_answered = True
        except OSError:
            pass  # whoever asked is dead


class Told:
    """Channels of a provider, a rule that tells all of them, and what the database has of it."""

    def __init__(self, cluster: Cluster, database_url: str, provider: Provider) -> None:
        self._cluster = cluster
        self._engine = sa.create_engine(database_url, poolclass=sa.NullPool)
        self._provider = provider
        self._jobs = 0
        self._paths: list[str] = []
        self._rules: list[int] = []
        self._unmarked: set[str] = set()  # messages whose sender died before it marked them

    def add_channels(self, *paths: str) -> None:
        """And a rule about failed runs that tells all of them."""
        api = self._cluster.api()
        made = [
            api.post(
                "/alarm-channels",
                {
                    "name": path,
                    "kind": "webhook",
                    "per_minute": 600,
                    "settings": {"url": self._provider.url + path},
                },
            )["id"]
            for path in paths
        ]
        # The shortest window: each job's alarm is a message of its own.
        rule = {"name": "all", "kind": "failed", "channels": made, "group_window_seconds": 0}
        rule |= {"additional": True, "tell_recovery": False}
        self._rules.append(api.post("/alarm-rules", rule)["id"])
        self._paths += paths

    def fail(self, jobs: int = 1) -> None:
        """So many new jobs run, which will fail; whoever takes that may die of the alarms."""
        made = range(self._jobs, self._jobs + jobs)
        ids = [self._cluster.add_job(f"fails {number}", "fail") for number in made]
        for job_id in ids:
            self._cluster.run_job(job_id)
        self._jobs += jobs

    def sender_of(self, taking: Taking) -> tuple[int, str]:
        """The admin that sends it now: its id and its name."""
        [row] = self._query(
            "SELECT a.id, a.name FROM notification n JOIN admin a ON a.id = n.claimed_by"
            " WHERE n.message_id = :id",
            id=taking.message_id,
        )
        return row.id, row.name

    def end_leases(self, admin_id: int) -> None:
        """As if the two minutes had passed for which a dead admin has claimed messages."""
        of_admin = "state = 'sending' AND claimed_by = :id"
        rows = self._query(f"SELECT message_id FROM notification WHERE {of_admin}", id=admin_id)
        self._unmarked |= {row.message_id for row in rows}
        with self._engine.begin() as connection:
            ended = f"UPDATE notification SET lease_until = 1 WHERE {of_admin}"
            connection.execute(sa.text(ended), {"id": admin_id})

    def wait_for_all(self, *, timeout_seconds: float) -> None:
        """Until every channel was told of every job, and no message waits."""
        expected = dict.fromkeys(self._paths, self._jobs)

        def done() -> bool:
            rows = self._query(
                "SELECT c.name, count(*) AS n FROM notification_item i"
                " JOIN notification n ON n.id = i.notification_id"
                " JOIN alarm_channel c ON c.id = i.channel_id"
                " WHERE n.state = 'delivered' GROUP BY c.name"
            )
            return {row.name: row.n for row in rows} == expected

        wait_until(done, timeout_seconds=timeout_seconds, what=f"{expected} to be told")

    def forget_rules(self) -> None:
        """Nobody is told from now on."""
        api = self._cluster.api()
        for rule_id in self._rules:
            api.delete(f"/alarm-rules/{rule_id}")

    def problems(self) -> list[Problem]:
        """Alarms that a channel was not told of, and what was told twice without a reason."""
        found = []
        told: defaultdict[tuple[str, int, str], set[str]] = defaultdict(set)
        by_message: defaultdict[str, list[Taking]] = defaultdict(list)
        for each in self._provider.takings:
            if each.answer is not Answer.BUSY:
                by_message[each.message_id].append(each)
                for alarm_id, occasion in each.alarms:
                    told[each.channel, alarm_id, occasion].add(each.message_id)
        rows = self._query(
            "SELECT c.name, i.alarm_id, i.occasion, n.message_id FROM notification_item i"
            " JOIN notification n ON n.id = i.notification_id"
            " JOIN alarm_channel c ON c.id = i.channel_id"
        )
        for row in rows:
            key = (row.name, row.alarm_id, row.occasion)
            if told.get(key) != {row.message_id}:
                found.append(Problem(Kind.LOST, f"alarm {key} came as {told.get(key)}"))
        alarms = self._query("SELECT count(DISTINCT job_id) AS n FROM alarm WHERE kind = 'failed'")[
            0
        ].n
        if alarms != self._jobs:
            found.append(Problem(Kind.LOST, f"{self._jobs} jobs failed, {alarms} alarms"))
        for message_id, takings in by_message.items():
            answered = [each for each in takings[:-1] if each.is_answered]
            if answered and message_id not in self._unmarked:
                found.append(Problem(Kind.DOUBLED, f"{message_id} again after {answered}"))
        return found

    def _query(self, statement: str, **values: Any) -> Any:
        with self._engine.connect() as connection:
            return connection.execute(sa.text(statement), values).all()
