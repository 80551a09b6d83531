"""Ten million runs and what belongs to them, in the order of their instants."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator

from tests.bench.seed.jobs import DAY, HOUR, MINUTE, Jobs, Sizes, executor_of_node
from tests.bench.seed.writer import NULL, Writer, line
from tickwheel_admin.domain.runs.run import PARKED_AT
from tickwheel_admin.store.database import tables

COLUMNS = (
    "id", "executor_id", "job_id", "job_revision", "trigger_id", "origin", "scheduled_at",
    "shard_index", "shard_total", "fire_id", "request_key", "requested_by", "retry_of",
    "parent_run_id", "priority", "created_at", "state", "due_at", "attempt", "tries", "node_id",
    "claim_token", "dispatched_at", "started_at", "ended_at", "deadline_at", "reason", "message",
    "result", "progress", "log_lines", "is_part",
)  # fmt: skip
ERRORS = (
    "BankGatewayError: 503 from acquirer.example.net after 3 tries (last: upstream timed out)",
    "ConnectTimeout: hooks.partner.example:443 (10.0 s)",
    "CUDA out of memory: tried to allocate 2.31 GiB (GPU 0; 23.69 GiB total capacity)",
)
LOGGED = 2_000  # the newest runs have a log
SHARE_RUNNING, SHARE_WAITING = 1.2, 10  # runs that have not ended, per live node
STORM = (20 * HOUR, 21 * HOUR)  # so long ago, a tenth of all runs failed


class Ledger:
    """Makes the rows of runs; which nodes they hold and which attempts failed are told after."""

    def __init__(self, sizes: Sizes, jobs: Jobs, chance: random.Random) -> None:
        self._sizes, self._jobs, self._chance = sizes, jobs, chance
        self._nodes: dict[int, list[int]] = {}
        for node in range(1, sizes.nodes + 1):
            self._nodes.setdefault(executor_of_node(node, sizes), []).append(node)
        # Frequent jobs are spread over the executors.
        self._order = list(range(sizes.jobs))
        chance.shuffle(self._order)
        self.in_use: Counter[int] = Counter()
        self.attempts: list[str] = []  # since they were taken last
        self._id = 0

    def lines(self) -> Iterator[str]:
        """All of them, ended ones first; ids rise with their instants."""
        sizes = self._sizes
        unended = int(sizes.nodes * (SHARE_RUNNING + SHARE_WAITING))
        ended = max(sizes.runs - unended, 0)
        start, span = sizes.now - sizes.days * DAY, sizes.days * DAY
        last: dict[int, int] = {}  # by job: no trigger fires twice at an instant
        waves = 2 * math.pi * sizes.days
        while self._id < ended:
            share = self._id / ended
            # Twice as busy by day as at night.
            share += 0.35 * math.sin(waves * share) / waves
            at = start + int(span * share)
            job = self._some_job()
            second = at - at % 1_000
            at = second if second > last.get(job, 0) else max(at, last.get(job, 0) + 1)
            last[job] = at
            if self._jobs.shards[job]:
                yield from self._sharded(job, at)
            else:
                yield self._ended(job, at, shard=0, of=1, fire=NULL)
        for _ in range(sizes.runs - ended):
            job = self._some_job()
            if self._chance.random() < SHARE_RUNNING / (SHARE_RUNNING + SHARE_WAITING):
                yield self._running(job)
            else:
                yield self._waiting(job)

    def _some_job(self) -> int:
        """A few jobs have most of the runs."""
        return self._order[int(self._sizes.jobs * self._chance.random() ** 4)]

    def _sharded(self, job: int, at: int) -> Iterator[str]:
        of = self._jobs.shards[job]
        fire = self._id + 1
        yield self._ended(job, at, shard=-1, of=of, fire=NULL)
        for shard in range(of):
            yield self._ended(job, at, shard=shard, of=of, fire=str(fire))

    def _ended(self, job: int, at: int, *, shard: int, of: int, fire: str) -> str:
        jobs, roll, now = self._jobs, self._chance.random(), self._sizes.now
        self._id += 1
        executor, trigger = jobs.executor[job], jobs.trigger[job]
        origin, asked, by, parent = "schedule", NULL, NULL, NULL
        if not trigger or roll > 0.97:
            kind = self._id % 8
            origin = ("manual", "api", "child", "api", "retry", "api", "child", "manual")[kind]
            asked, trigger = f"key-{self._id}", 0
            by = "admin" if origin in ("manual", "retry") else f"person-{self._id % 150 + 2:03}"
            parent = str(self._id - 1) if origin == "child" else NULL
        elif roll > 0.965:
            origin = "misfire"
        retry_of = str(max(self._id - 500, 1)) if origin == "retry" else NULL
        nodes = self._nodes.get(executor)
        node = nodes[self._id % len(nodes)] if nodes else NULL
        delay = 4 + int(1 / (roll + 0.001)) if origin != "misfire" else 90_000
        ended = at + delay + int(jobs.usual_ms[job] * (0.6 + 0.9 * self._chance.random()))
        if ended > now - 1_000:
            ended = max(at + 6, now - 1_000)
        state, tries, reason, message, result = "succeeded", 1, NULL, NULL, '{"rows":18422}'
        outcome = self._chance.random()
        fails = jobs.fails[job] + (0.1 if STORM[0] < now - at < STORM[1] else 0)
        if outcome < fails:
            state, tries, message, result = "failed", 1 + self._id % 3, ERRORS[self._id % 3], NULL
            self._fail_before(self._id, tries, at, node)
        elif outcome > 0.98:
            state, result = _RARE[self._id % 8], NULL
            reason = "blocked" if state == "skipped" else NULL
            if state == "skipped":
                tries, node = 0, NULL
        lines = 12 if self._sizes.runs - self._id < LOGGED and tries else 0
        ran = f"{at + 2}\t{at + delay}" if tries else f"{NULL}\t{NULL}"
        return (
            f"{self._id}\t{executor}\t{job + 1}\t1\t{trigger or NULL}\t{origin}\t{at}\t{shard}\t"
            f"{of}\t{fire}\t{asked}\t{by}\t{retry_of}\t{parent}\t5\t{at - 1500}\t{state}\t{at}\t"
            f"{tries}\t{tries}\t{node}\t{self._id:032x}\t{ran}\t{ended}\t{NULL}\t{reason}\t"
            f"{message}\t{result}\t{NULL}\t{lines}\t{int(fire != NULL)}"
        )

    def _fail_before(self, run_id: int, tries: int, at: int, node: object) -> None:
        for attempt in range(1, tries):
            self.attempts.append(
                f"{run_id}\t{attempt}\tfailed\t{node}\t{at + 2}\t{at + 9}\t{at + 500}\t"
                f"{ERRORS[attempt]}\t0"
            )

    def _running(self, job: int) -> str:
        chance, now = self._chance, self._sizes.now
        executor = self._jobs.executor[job]
        nodes = self._nodes.get(executor)
        if not nodes:
            return self._waiting(job)
        self._id += 1
        node = nodes[chance.randrange(len(nodes))]
        self.in_use[node] += 1
        # One in twenty for many hours.
        at = now - int((10 * HOUR if self._id % 20 == 0 else 10 * MINUTE) * chance.random()) - 60
        return line(
            self._id, executor, job + 1, 1, None, "api", at, 0, 1, None, f"key-{self._id}",
            "admin", None, None, 5, at, "running", at, 1, 1, node, f"{self._id:032x}", at + 2,
            at + 9, None, PARKED_AT, None, None, None,
            round(chance.random(), 3) if self._id % 3 else None, 0, 0,
        )  # fmt: skip

    def _waiting(self, job: int) -> str:
        """Due, or put off for another try."""
        self._id += 1
        chance, now = self._chance, self._sizes.now
        retry = self._id % 4 == 0
        at = now - int(5 * MINUTE * chance.random())
        return line(
            self._id, self._jobs.executor[job], job + 1, 1, None, "api", at, 0, 1, None,
            f"key-{self._id}", "admin", None, None, 5, at, "queued",
            now + DAY if retry else at, int(retry), int(retry), None, None, None, None, None, None,
            "retry" if retry else "no_free_slot", ERRORS[0] if retry else None, None, None, 0, 0,
        )  # fmt: skip


_RARE = ("timed_out", "cancelled", "skipped", "timed_out", "lost", "skipped", "cancelled", "failed")
ATTEMPT_COLUMNS = (
    "run_id", "attempt", "state", "node_id", "dispatched_at", "started_at", "ended_at", "message",
    "log_lines",
)  # fmt: skip


def write_logs(writer: Writer, sizes: Sizes) -> None:
    """Twelve lines for the newest runs."""
    first = max(1, sizes.runs - LOGGED + 1)
    text = json.dumps([[sizes.now, 20, f"partition {n} of 12 done"] for n in range(12)])
    writer.write_all(
        tables.run_log,
        ["run_id", "attempt", "first_seq", "line_count", "lines"],
        (line(run_id, 1, 1, 12, text) for run_id in range(first, sizes.runs + 1)),
    )
