"""Reads the logs of ended runs from their executors; they are noted in the database until then."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NoAnswer, NotSent
from tickwheel_admin.xxl_job.dialects import BadAnswer
from tickwheel_admin.xxl_job.log_keeper import LogKeeper
from tickwheel_admin.xxl_job.log_reader import MAX_LINES, LogReader
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar
from tickwheel_shared.protocol import LogChunk

log = structlog.get_logger(__name__)

READ_AT_ONCE = 24  # logs, over all nodes
READ_OF_MISSING = 4  # the same, over all nodes that have no session
READ_OF_NODE = 4  # the same, of one node
READ_OF_BUSY_NODE = 1  # … of one for which runs wait to be started: those come first
BATCH = 500  # ended runs that are looked up at once
PASS_SECONDS = 1.0  # for which a pass waits for calls; those that take longer count in a later one
MAX_CHARS = 4_000_000  # of lines that are stored at once, but for the logs under way
MAX_CHARS_OF_LOG = 1_000_000  # … of one log; the next pass goes on
REST_SECONDS = 20.0  # of a node that failed: others have their turn
ORPHANS_SECONDS = 60.0  # between two looks for logs whose nodes are gone
# A log that is still to be read at so many looks in a row stays as it is. Its age by the database's
# clock says nothing: that may be set forward while there is much to be read.
ORPHAN_LOOKS = 10
ORPHANS_LOOKED_AT = 5_000  # the oldest ones
FAILURE_KEPT_SECONDS = 600.0  # in memory
# For which the executor answers with what is no page of a log, or lines are with the recorder and
# not stored: then the log stays as it is. Of one that does not answer at all, `ORPHAN_LOOKS` tell.
GIVE_UP_SECONDS = 60.0


@dataclass(slots=True)
class _Basket:
    """What was read, and is not stored."""

    chunks: list[tuple[int, LogChunk]] = field(default_factory=list)  # with their executors
    chars: int = 0
    done: list[tuple[int, int, int]] = field(default_factory=list)  # run, attempt, lines
    begun: list[ExpectedLog] = field(default_factory=list)  # which nobody else may read

    @property
    def is_full(self) -> bool:
        return self.chars >= MAX_CHARS


class XxlLogs(Loop):
    """Each pass stores together what was read by then: a transaction for each of many small logs
    would cost more than the runs themselves. No log waits for the calls for another.
    """

    interval_seconds = 1.0

    def __init__(
        self, nodes: XxlNodes, registrar: XxlRegistrar, reader: LogReader, keeper: LogKeeper
    ) -> None:
        super().__init__()
        self._nodes = nodes
        self._registrar = registrar
        self._reader = reader
        self._keeper = keeper
        self._basket = _Basket()
        self._under_way: set[asyncio.Task[None]] = set()
        self._of_node: Counter[int] = Counter()  # those, by node
        self._turns = asyncio.Semaphore(READ_AT_ONCE)
        self._turns_of_missing = asyncio.Semaphore(READ_OF_MISSING)
        # By (run, attempt): since when there are bad answers, and since when lines are not stored.
        self._bad_since: dict[tuple[int, int], float] = {}
        self._held_since: dict[tuple[int, int], float] = {}
        self._rests_until: dict[int, float] = {}  # by node: its last call failed
        self._orphans_at = 0.0  # when they are looked for again
        self._looks: Counter[tuple[int, int]] = Counter()  # at which (run, attempt) was not read

    async def run_once(self) -> bool:
        now = _now()
        expected = await self._nodes.expected_logs(self._free_nodes(now), limit=BATCH)
        if self._registrar.executors and now >= self._orphans_at:
            self._orphans_at = now + ORPHANS_SECONDS
            await self._end_orphans(now)
        if begun := self._begin(expected):
            await asyncio.wait(begun, timeout=PASS_SECONDS)
        basket, self._basket = self._basket, _Basket()
        await self._store(basket)
        return basket.is_full or (len(expected) == BATCH and bool(basket.done))

    def _free_nodes(self, now: float) -> dict[int, XxlNode]:
        """Those of which more logs may be read."""
        self._rests_until = {
            node_id: until for node_id, until in self._rests_until.items() if until > now
        }
        return {
            node.node_id: node
            for node in self._registrar
            if node.node_id
            and node.node_id not in self._rests_until
            and self._of_node[node.node_id] < _at_once(node)
        }

    def _begin(self, expected: Sequence[ExpectedLog]) -> list[asyncio.Task[None]]:
        nodes = {node.node_id: node for node in self._registrar}
        queues: dict[int, list[ExpectedLog]] = {}
        for each in expected:
            queues.setdefault(each.node_id, []).append(each)
        begun = []
        for node_id, of_node in queues.items():
            node = nodes.get(node_id)
            if node is None:
                continue
            for queue in _split(of_node, _at_once(node) - self._of_node[node_id]):
                self._of_node[node_id] += 1
                task = asyncio.create_task(self._read_some(node, node_id, queue), name="xxl-logs")
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
                begun.append(task)
        return begun

    async def _store(self, basket: _Basket) -> None:
        try:
            # First the lines, then that they are here: an admin that dies in between reads them
            # again.
            if basket.chunks:
                await self._keeper.keep(basket.chunks, handed_over=self._reader.handed_over)
        finally:
            for each in basket.begun:
                self._reader.end(each)
        if basket.done:
            await self._nodes.logs_are_read(basket.done)
        for run, attempt, _ in basket.done:
            self._bad_since.pop((run, attempt), None)
            self._held_since.pop((run, attempt), None)

    async def _end_orphans(self, now: float) -> None:
        oldest = await self._nodes.oldest_logs(limit=ORPHANS_LOOKED_AT)
        self._looks = Counter({key: self._looks[key] + 1 for key in oldest})
        orphans = [key for key in oldest if self._looks[key] >= ORPHAN_LOOKS]
        for begin in range(0, len(orphans), BATCH):
            await self._nodes.give_up_logs(set(orphans[begin : begin + BATCH]))
        if orphans:
            log.warning("xxl.logs_given_up", logs=len(orphans), run_id=orphans[0][0])
        for since in (self._bad_since, self._held_since):
            for key in [key for key, at in since.items() if now - at > FAILURE_KEPT_SECONDS]:
                del since[key]

    async def _read_some(self, node: XxlNode, node_id: int, queue: Sequence[ExpectedLog]) -> None:
        """One after the other; a node that fails is left for a later pass."""
        try:
            for expected in queue:
                if self._basket.is_full:
                    return
                async with self._turns if node.is_admitted else self._turns_of_missing:
                    if not await self._read_one(node, expected):
                        self._rests_until[node_id] = _now() + REST_SECONDS
                        return
        finally:
            self._of_node[node_id] -= 1
            if not self._of_node[node_id]:
                del self._of_node[node_id]

    async def _read_one(self, node: XxlNode, expected: ExpectedLog) -> bool:
        """Read all that is left of a log, or as much as one turn may; False: its node is silent."""
        if not self._reader.begin(expected):
            return True
        key = (expected.run, expected.attempt)
        lines = self._reader.place(expected, expected.lines)
        if lines > expected.lines and not _is_over(self._held_since, key):
            # The last ones are on their way to the database: a later pass goes on.
            self._reader.end(expected)
            return True
        chunks: list[tuple[int, LogChunk]] = []
        chars, is_done, is_good = 0, False, True
        try:
            while not is_done and chars < min(MAX_CHARS_OF_LOG, MAX_CHARS):
                page = await self._reader.read_page(node, expected, lines)
                chunks += ((node.executor_id, chunk) for chunk in page.chunks)
                chars += page.chars
                lines = page.last
                is_done = page.is_last or lines >= MAX_LINES
            self._bad_since.pop(key, None)
        except (ConnectionRefused, NotSent, NoAnswer):
            is_good = False
        except BadAnswer as error:
            # Other logs of the node may be good: they are read now, and this one in a while.
            self._rests_until[expected.node_id] = _now() + REST_SECONDS
            if _is_over(self._bad_since, key):
                log.warning("xxl.log_unread", run_id=expected.run, reason=str(error))
                is_done = True
        except BaseException:
            self._reader.end(expected)
            raise
        # All of it at once: what a pass stores is without a gap, also when another was not stored.
        self._basket.chunks += chunks
        self._basket.chars += chars
        self._basket.begun.append(expected)
        if is_done:
            self._basket.done.append((expected.run, expected.attempt, lines))
        return is_good


def _is_over(since: dict[tuple[int, int], float], key: tuple[int, int]) -> bool:
    """Whether it goes on for too long; it is noted when it begins."""
    now = _now()
    return now - since.setdefault(key, now) >= GIVE_UP_SECONDS


def _at_once(node: XxlNode) -> int:
    return READ_OF_BUSY_NODE if node.runs.is_busy else READ_OF_NODE


def _split(queue: Sequence[ExpectedLog], parts: int) -> list[Sequence[ExpectedLog]]:
    return [queue[start::parts] for start in range(min(parts, len(queue)))]


def _now() -> float:
    return asyncio.get_running_loop().time()
