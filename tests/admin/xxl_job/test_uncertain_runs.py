"""Runs of which nobody knows at first whether their executor has them; in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.simulation.scheduler import SimLoop
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.xxl_job.bridge import (
    BridgeView,
    ExpectedLog,
    RunFacts,
    XxlAddress,
    XxlExecutor,
)
from tickwheel_admin.domain.xxl_job.hidden_text import UnknownSecrets
from tickwheel_admin.engine.ports import ClaimTime
from tickwheel_admin.services.xxl_job.nodes import DatabaseUnavailable
from tickwheel_admin.xxl_job.agenda import Agenda
from tickwheel_admin.xxl_job.attempts import TAKEOVER_SECONDS, RemoteAttempts
from tickwheel_admin.xxl_job.breaker import REST_SECONDS, TRIED_AT_ONCE, CircuitBreaker
from tickwheel_admin.xxl_job.caller import NoAnswer, NodeCaller, Reply
from tickwheel_admin.xxl_job.calls import NodeCalls
from tickwheel_admin.xxl_job.dialects import Call, log_id, wire_job_id
from tickwheel_admin.xxl_job.log_reader import LogReader
from tickwheel_admin.xxl_job.registrar import mine
from tickwheel_admin.xxl_job.runs import CALLS_AT_ONCE, NodeRuns
from tickwheel_admin.xxl_job.watch import XxlWatch
from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    FromNode,
    LogChunk,
    Outcome,
    Refusal,
    Refused,
    Result,
    RunRequest,
)

CLAIMED_AT = 1_000_000  # ms of the database's clock
ADDRESS = XxlAddress(executor_id=1, address="http://10.0.0.1:9999", client="java")
EXECUTOR = XxlExecutor(
    id=1, name="billing", app_name="billing", token="t", token_hash="h", addresses=None
)
DONE = b'{"code":200}'
BUSY = '{"code":500,"msg":"block strategy effect：Discard Later"}'.encode()
RUNNING = b'{"code":500,"msg":"job thread is running or has trigger queue."}'
NO_LOG = json.dumps(
    {
        "code": 200,
        "content": {
            "fromLineNum": 1,
            "toLineNum": 0,
            "logContent": "readLog fail, logFile not exists",
            "isEnd": True,
        },
    }
).encode()


class Executor(NodeCaller):
    """What one executor answers, and what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.logs: dict[int, list[str]] = {}
        self.busy: set[int] = set()  # wire jobs
        self.says: dict[str, bytes | None] = {}  # by path; None: it does not answer
        self.seconds: dict[str, float] = {}  # by path: until it answers
        self.on_run: Callable[[dict[str, Any]], None] = lambda said: None

    async def call(
        self,
        address: str,
        call: Call,
        headers: Mapping[str, str],
        *,
        seconds: float,
        max_bytes: int = 1024,
    ) -> Reply:
        said = json.loads(call.body)
        self.calls.append((call.path, said))
        if call.path == "/run":
            self.on_run(said)
        answer = self.says.get(call.path, DONE)
        if call.path not in self.says and call.path == "/idleBeat":
            answer = RUNNING if said["jobId"] in self.busy else DONE
        if call.path not in self.says and call.path == "/log":
            answer = self._log(said)
        if answer is None:
            await asyncio.sleep(seconds)
            raise NoAnswer("no answer")
        await asyncio.sleep(self.seconds.get(call.path, 0.01))
        return Reply(200, answer, truncated=False)

    def _log(self, said: dict[str, Any]) -> bytes:
        lines = self.logs.get(said["logId"])
        if lines is None:
            return NO_LOG
        begin = said["fromLineNum"]
        page = {
            "fromLineNum": begin,
            "toLineNum": len(lines),
            "logContent": "".join(f"{line}\n" for line in lines[begin - 1 :]),
            "isEnd": False,
        }
        return json.dumps({"code": 200, "content": page}).encode()

    def told(self, path: str) -> list[dict[str, Any]]:
        return [said for called, said in self.calls if called == path]


class Bridge:
    """The part of an admin's bridge that looks after one node."""

    def __init__(self) -> None:
        self.executor = Executor()
        self.said: list[FromNode] = []
        self.chunks: list[LogChunk] = []
        self.ledger: dict[int, RunFacts] = {}
        self.stored = 0  # lines of every log
        self.expected: list[ExpectedLog] = []
        self.is_down = False
        self.serves = True
        self.tasks: set[asyncio.Task[None]] = set()
        self.attempts = RemoteAttempts()
        calls = NodeCalls(ADDRESS, EXECUTOR, self.executor)
        self.runs = NodeRuns(
            self.attempts,
            calls,
            self,  # type: ignore[arg-type]
            node_id=lambda: 7,
            say=self.said.append,
            spawn=self.spawn,
            may_kill=lambda: self.serves,
        )
        self.node: Any = SimpleNamespace(
            attempts=self.attempts,
            runs=self.runs,
            calls=calls,
            node_id=7,
            is_admitted=True,
            is_restarted=False,
            adopt=lambda live: [self.runs.adopt(each) for each in live],
        )
        recorder: Any = SimpleNamespace(receive=self._receive, room=self._room)
        self.reader = LogReader(recorder, wall_clock_ms=lambda: 0)
        self.watch = XxlWatch(self, [self.node], self.reader)  # type: ignore[arg-type]

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _receive(self, _node: object, messages: list[LogChunk]) -> None:
        self.chunks += messages

    async def _room(self, _node: object) -> None:
        pass

    # What the bridge reads of the ledger.

    async def facts(self, run_ids: Any) -> dict[int, RunFacts]:
        if self.is_down:
            raise DatabaseUnavailable("away")
        return {each: self.ledger[each] for each in run_ids if each in self.ledger}

    async def live_runs_except(self, _nodes: Any, known: Any) -> list[RunFacts]:
        if self.is_down:
            raise DatabaseUnavailable("away")
        return [each for each in self.ledger.values() if each.run not in known]

    async def stored_lines(self, _run: int, _attempt: int) -> int:
        return self.stored

    async def expect_logs(self, ended: Sequence[ExpectedLog]) -> None:
        if self.is_down:
            raise DatabaseUnavailable("away")
        self.expected += ended

    async def live(self, seconds: float) -> None:
        """Let the watch look after everything for a while."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            with suppress(DatabaseUnavailable):
                await self.watch.run_once()
            await asyncio.sleep(0.5)


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    loop.now = 1_000.0
    yield loop
    left = asyncio.all_tasks(loop)
    for each in left:
        each.cancel()
    loop.run_until_complete(asyncio.wait_for(_ended(left), 60))
    loop.close()


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def facts(run: int = 3, *, state: RunState = RunState.DISPATCHED, age_ms: int = 0) -> RunFacts:
    return RunFacts(
        run=run,
        executor_id=1,
        job_id=5,
        node_id=7,
        attempt=1,
        token="token",
        state=state,
        dispatched_at=CLAIMED_AT,
        started_at=None,
        cancel_requested=False,
        cancel_reason=None,
        now=CLAIMED_AT + age_ms,
    )


def request(run: int = 3) -> RunRequest:
    return RunRequest(
        run=run,
        attempt=1,
        token="token",
        job="nightly",
        job_id=5,
        handler="nightly",
        parameters=msgspec.Raw(b"{}"),
        scheduled_at=0,
        timeout_ms=None,
        try_number=1,
        max_tries=1,
        origin="schedule",
    )


def claim(*, age_seconds: float = 0.0) -> ClaimTime:
    return ClaimTime(CLAIMED_AT, asyncio.get_running_loop().time() - age_seconds)


def refusals(bridge: Bridge) -> list[Refusal]:
    return [each.reason for each in bridge.said if isinstance(each, Refused)]


def test_a_run_that_was_taken_over_is_denied_only_when_no_call_can_be_on_its_way(
    loop: SimLoop,
) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(age_ms=6_000)
        bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(6.5)
        assert bridge.said == []
        await bridge.live(8)  # all copies of its job are asked for
        assert refusals(bridge) == [Refusal.NEVER_SEEN]

    loop.run_until_complete(story())


def test_a_run_without_a_log_is_not_denied_while_its_job_is_busy(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(age_ms=6_000)
        bridge.executor.busy.add(wire_job_id(5, 1))
        attempt = bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(9)
        assert bridge.said == []
        await bridge.live(4)
        assert bridge.said == [Accepted(run=3, attempt=1, token="token")]
        assert attempt.copy == 1

    loop.run_until_complete(story())


def test_what_nobody_may_have_seen_begin_is_lost_when_its_executor_was_restarted(
    loop: SimLoop,
) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts()
        bridge.executor.says["/run"] = None
        bridge.runs.start([request()], claim())
        await bridge.live(4)
        bridge.runs.replaced_at = asyncio.get_running_loop().time()
        await bridge.live(8)
        assert [each.outcome for each in bridge.said if isinstance(each, Result)] == [
            Outcome.CUT_OFF
        ]
        assert refusals(bridge) == []

    loop.run_until_complete(story())


@pytest.mark.parametrize("runs_on", [False, True])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_a_restarted_executor_does_not_run_is_lost_soon(
    loop: SimLoop, runs_on: bool, is_stopped: bool
) -> None:
    """Not what it runs: a proxy may have looked like a restart."""

    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts()
        bridge.executor.on_run = lambda said: bridge.executor.logs.update({said["logId"]: ["x"]})
        bridge.executor.busy.add(5)
        bridge.runs.start([request()], claim())
        await bridge.live(15)
        if is_stopped:
            stop = Cancel(run=3, attempt=1, token="token", reason=CancelReason.OPERATOR)
            await bridge.runs.cancel(stop)
        if not runs_on:
            bridge.executor.busy.clear()
        bridge.runs.replaced_at = asyncio.get_running_loop().time()
        bridge.node.is_restarted = True
        await bridge.live(4.5)
        ended = [each.outcome for each in bridge.said if isinstance(each, Result)]
        assert ended == []
        await bridge.live(2)
        bridge.executor.busy.clear()  # ended now, and its report may come for a while
        await bridge.live(10)
        ended = [each.outcome for each in bridge.said if isinstance(each, Result)]
        lost = Outcome.CANCELLED if is_stopped else Outcome.CUT_OFF
        assert ended == ([] if runs_on else [lost])
        # The rest of its log may be there still.
        assert [each.run for each in bridge.expected] == ([] if runs_on else [3])

    loop.run_until_complete(story())


def test_a_wire_job_is_not_used_again_while_a_kill_may_be_on_its_way(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger = {3: facts(3), 4: facts(4)}
        bridge.runs.start([request(3)], claim())
        await asyncio.sleep(0.1)
        bridge.executor.says["/kill"] = None
        cancel = Cancel(run=3, attempt=1, token="token", reason=CancelReason.OPERATOR)
        bridge.spawn(bridge.runs.cancel(cancel))
        await asyncio.sleep(0.1)
        first = bridge.attempts.get(3, 1)
        assert first is not None
        bridge.attempts.remove(first)  # its report came
        bridge.runs.start([request(4)], claim())
        await asyncio.sleep(0.1)
        assert [each["jobId"] for each in bridge.executor.told("/run")] == [5, wire_job_id(5, 1)]

    loop.run_until_complete(story())


def test_one_kill_that_was_answered_tells_nothing_of_another(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger = {3: facts(3), 4: facts(4)}
        bridge.runs.start([request(3)], claim())
        await asyncio.sleep(0.1)
        bridge.executor.says["/kill"] = None
        cancel = Cancel(run=3, attempt=1, token="token", reason=CancelReason.OPERATOR)
        bridge.spawn(bridge.runs.cancel(cancel))
        await asyncio.sleep(0.1)
        del bridge.executor.says["/kill"]
        await bridge.runs.cancel(cancel)  # told again
        assert len(bridge.executor.told("/kill")) == 2
        first = bridge.attempts.get(3, 1)
        assert first is not None
        bridge.attempts.remove(first)  # its report came
        bridge.runs.start([request(4)], claim())
        await asyncio.sleep(0.1)
        assert [each["jobId"] for each in bridge.executor.told("/run")] == [5, wire_job_id(5, 1)]

    loop.run_until_complete(story())


def test_runs_after_a_takeover_have_wire_jobs_that_nobody_else_kills(loop: SimLoop) -> None:
    """Neither those of the admin before, nor those that it had in the first seconds of its own."""

    async def story() -> None:
        bridge = Bridge()
        told = []
        for turn, run in enumerate((3, 4, 5, 6), 1):
            bridge.attempts.take_over(turn, asyncio.get_running_loop().time())
            bridge.runs.start([request(run)], claim())
            await asyncio.sleep(0.1)
            ended = bridge.attempts.get(run, 1)
            assert ended is not None
            # Whoever takes over finds it, though it does not know what is told of it.
            assert ended.copy in bridge.attempts.likely(5)
            bridge.attempts.remove(ended)
            told.append(bridge.executor.told("/run")[-1]["jobId"])
        assert len(set(told)) == 4
        assert told[0] == 5
        await asyncio.sleep(TAKEOVER_SECONDS)
        bridge.runs.start([request(7)], claim())
        await asyncio.sleep(0.1)
        assert bridge.executor.told("/run")[-1]["jobId"] == 5

    loop.run_until_complete(story())


@pytest.mark.parametrize("is_reused", [True, False])
def test_what_another_admin_sent_and_has_ended_is_killed_only_where_nothing_new_can_run(
    loop: SimLoop, is_reused: bool
) -> None:
    """That admin may have given its wire job to the next run, of which nobody here knows yet."""

    async def story() -> None:
        bridge = Bridge()
        bridge.attempts.take_over(2, asyncio.get_running_loop().time())
        bridge.ledger[3] = facts(3, state=RunState.RUNNING, age_ms=20_000)
        bridge.executor.logs[log_id(3, 1, 0)] = ["begun"]
        bridge.executor.busy.add(5)
        attempt = bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(6)
        bridge.ledger[3] = facts(3, state=RunState.LOST, age_ms=20_000)
        stale = Cancel(run=3, attempt=1, token="token", reason=CancelReason.STALE)
        await bridge.runs.cancel(stale)
        if is_reused:
            bridge.ledger[4] = facts(4, state=RunState.RUNNING, age_ms=20_000)
            bridge.executor.logs[log_id(4, 1, 0)] = ["begun"]
        await bridge.live(10)
        assert bridge.executor.told("/kill") == []
        await bridge.live(15)
        assert bridge.executor.told("/kill") == ([] if is_reused else [{"jobId": 5}])
        assert not bridge.attempts.is_current(attempt)

    loop.run_until_complete(story())


def test_an_admin_that_may_serve_a_node_no_more_kills_nothing_there(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(3)
        bridge.runs.start([request(3)], claim())
        await asyncio.sleep(0.1)
        bridge.serves = False
        cancel = Cancel(run=3, attempt=1, token="token", reason=CancelReason.OPERATOR)
        await bridge.runs.cancel(cancel)
        assert bridge.executor.told("/kill") == []
        bridge.serves = True
        await bridge.runs.cancel(cancel)
        assert bridge.executor.told("/kill") == [{"jobId": 5}]

    loop.run_until_complete(story())


def test_what_is_said_here_of_a_run_is_not_hidden_with_what_its_executor_says(
    loop: SimLoop,
) -> None:
    async def story() -> None:
        bridge = Bridge()
        running = facts(state=RunState.RUNNING)
        bridge.ledger[3] = replace(running, mask=UnknownSecrets(["KEY"]))
        bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(70)
        (ended,) = (each for each in bridge.said if isinstance(each, Result))
        assert "does not run it any more" in ended.message

    loop.run_until_complete(story())


def test_an_adopted_run_whose_wire_job_runs_another_is_neither_killed_nor_thought_alive(
    loop: SimLoop,
) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger = {3: facts(3, state=RunState.RUNNING), 4: facts(4)}
        bridge.runs.start([request(4)], claim())
        await asyncio.sleep(0.1)
        bridge.executor.busy.add(5)
        bridge.executor.logs[log_id(3, 1, 0)] = ["begun"]  # its report got lost
        bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(15)
        cancel = Cancel(run=3, attempt=1, token="token", reason=CancelReason.OPERATOR)
        await bridge.runs.cancel(cancel)
        assert bridge.executor.told("/kill") == []
        await bridge.live(50)
        ended = [each for each in bridge.said if isinstance(each, Result)]
        assert [(each.run, each.outcome) for each in ended] == [(3, Outcome.CUT_OFF)]

    loop.run_until_complete(story())


@pytest.mark.parametrize("is_its_own", [True, False])
def test_an_executor_that_is_busy_with_the_very_run_has_accepted_it(
    loop: SimLoop, is_its_own: bool
) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts()
        bridge.executor.says["/run"] = BUSY
        if is_its_own:
            bridge.executor.logs[log_id(3, 1, 0)] = ["begun"]
        bridge.runs.start([request()], claim())
        await asyncio.sleep(1)
        told = Accepted(run=3, attempt=1, token="token")
        assert (told in bridge.said) is is_its_own
        assert refusals(bridge) == ([] if is_its_own else [Refusal.FULL])

    loop.run_until_complete(story())


def test_a_call_is_not_made_long_after_the_claim(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts()
        # Its admin was frozen, and others ask already.
        bridge.runs.start([request()], claim(age_seconds=2.5))
        await asyncio.sleep(1)
        assert bridge.executor.told("/run") == []
        assert refusals(bridge) == [Refusal.FULL]

    loop.run_until_complete(story())


@pytest.mark.parametrize("code", ["nightly", "earlier", None])
def test_a_run_with_other_code_waits_until_it_is_known_which_copy_an_adopted_one_is(
    loop: SimLoop, code: str | None
) -> None:
    """Java ends what runs under a job number when it is told to run other code under it."""

    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = replace(facts(3, state=RunState.RUNNING, age_ms=6_000), code=code)
        bridge.executor.busy.add(5)
        bridge.executor.logs[log_id(3, 1, 0)] = ["begun"]
        bridge.runs.adopt(bridge.ledger[3])
        bridge.ledger[4] = facts(4)
        bridge.runs.start([request(4)], claim())
        await asyncio.sleep(0.1)
        told = [each["jobId"] for each in bridge.executor.told("/run")]
        if code == "nightly":
            assert told == [5], "it would only be refused"
            return
        assert (told, refusals(bridge)) == ([], [Refusal.FULL])
        await bridge.live(15)
        bridge.runs.start([request(4)], claim())
        await asyncio.sleep(0.1)
        assert [each["jobId"] for each in bridge.executor.told("/run")] == [wire_job_id(5, 1)]

    loop.run_until_complete(story())


def test_runs_of_one_job_have_wire_jobs_of_their_own(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger = {3: facts(3), 4: facts(4)}
        bridge.runs.start([request(3), request(4)], claim())
        await asyncio.sleep(1)
        assert len({each["jobId"] for each in bridge.executor.told("/run")}) == 2

    loop.run_until_complete(story())


def test_a_run_gets_the_first_wire_job_of_its_job_that_is_free(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.runs.start([request(run) for run in (1, 2, 3, 4)], claim())
        await asyncio.sleep(0.1)
        for run in (3, 1):
            ended = bridge.attempts.get(run, 1)
            assert ended is not None
            bridge.attempts.remove(ended)
        bridge.runs.start([request(run) for run in (5, 6, 7)], claim())
        await asyncio.sleep(0.1)
        given = [each["jobId"] for each in bridge.executor.told("/run")]
        assert given == [wire_job_id(5, copy) for copy in (0, 1, 2, 3, 0, 2, 4)]

    loop.run_until_complete(story())


def test_runs_wait_for_their_turn_and_kills_do_not_wait_for_theirs(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.runs.start([request(1)], claim())
        await asyncio.sleep(0.1)
        bridge.executor.seconds["/run"] = 0.5
        runs = range(2, 2 + 2 * CALLS_AT_ONCE)
        bridge.runs.start([request(run) for run in runs], claim())
        await asyncio.sleep(0.1)
        assert len(bridge.executor.told("/run")) == 1 + CALLS_AT_ONCE
        assert bridge.runs.is_busy
        cancel = Cancel(run=1, attempt=1, token="token", reason=CancelReason.OPERATOR)
        bridge.spawn(bridge.runs.cancel(cancel))
        await asyncio.sleep(0.1)
        assert len(bridge.executor.told("/kill")) == 1
        await asyncio.sleep(0.5)
        assert len(bridge.executor.told("/run")) == 1 + 2 * CALLS_AT_ONCE
        assert not bridge.runs.is_busy

    loop.run_until_complete(story())


def test_a_call_that_is_broken_holds_up_no_other(loop: SimLoop) -> None:
    def fails(said: dict[str, Any]) -> None:
        if len(bridge.executor.told("/run")) <= 2 * CALLS_AT_ONCE:
            raise ZeroDivisionError

    async def story() -> None:
        bridge.executor.on_run = fails
        runs = range(1, 2 + 2 * CALLS_AT_ONCE)
        bridge.runs.start([request(run) for run in runs], claim())
        await asyncio.sleep(0.1)
        assert len(bridge.executor.told("/run")) == 1 + 2 * CALLS_AT_ONCE
        assert [each.run for each in bridge.said if isinstance(each, Accepted)] == [runs[-1]]
        bridge.runs.start([request(100)], claim())
        await asyncio.sleep(0.1)
        assert len(bridge.executor.told("/run")) == 2 + 2 * CALLS_AT_ONCE

    bridge = Bridge()
    loop.run_until_complete(story())


def test_an_unanswered_call_is_asked_about(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts()
        bridge.executor.says["/run"] = None
        bridge.executor.on_run = lambda said: bridge.executor.logs.update({said["logId"]: ["x"]})
        bridge.runs.start([request()], claim())
        await bridge.live(6)
        assert bridge.said == [Accepted(run=3, attempt=1, token="token")]

    loop.run_until_complete(story())


def test_a_call_is_not_made_for_a_process_that_is_gone(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts()
        bridge.executor.says["/run"] = BUSY
        bridge.runs.start([request()], claim())
        await asyncio.sleep(0.03)
        for each in bridge.attempts:
            bridge.attempts.remove(each)
        await asyncio.sleep(1)
        assert len(bridge.executor.told("/run")) == 1
        assert refusals(bridge) == [Refusal.FULL]

    loop.run_until_complete(story())


def test_time_in_which_no_report_could_be_taken_makes_no_run_lost(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(state=RunState.RUNNING)
        bridge.runs.adopt(bridge.ledger[3])
        bridge.executor.logs[log_id(3, 1, 0)] = ["begun"]
        await bridge.live(20)
        bridge.is_down = True
        await bridge.live(60)
        bridge.is_down = False
        await bridge.live(30)
        assert bridge.said == []
        await bridge.live(40)
        assert [each.outcome for each in bridge.said if isinstance(each, Result)] == [
            Outcome.CUT_OFF
        ]

    loop.run_until_complete(story())


def test_runs_that_another_admin_sent_meanwhile_are_looked_after(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger = {
            3: facts(3, state=RunState.RUNNING, age_ms=20_000),
            4: facts(4, age_ms=100),
        }
        await bridge.live(6)
        assert bridge.attempts.get(3, 1) is not None
        assert bridge.attempts.get(4, 1) is None  # this admin is about to send it

    loop.run_until_complete(story())


def test_the_log_of_an_adopted_run_is_read_on_where_it_is_stored(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(state=RunState.RUNNING)
        bridge.stored = 2
        bridge.executor.logs[log_id(3, 1, 0)] = ["one", "two", "three"]
        bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(6)
        assert [(each.first_seq, len(each.lines)) for each in bridge.chunks] == [(3, 1)]

    loop.run_until_complete(story())


def test_a_log_is_read_by_one_at_a_time_and_never_twice(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(state=RunState.RUNNING)
        bridge.executor.logs[log_id(3, 1, 0)] = ["one", "two"]
        attempt = bridge.runs.adopt(bridge.ledger[3])
        bridge.attempts.found(attempt, 0)
        ended = ExpectedLog(
            run=3, attempt=1, token="token", node_id=7, log_id=attempt.log_id, time_ms=1_000_000
        )
        follows = asyncio.create_task(bridge.reader.follow(bridge.node, attempt))
        await asyncio.sleep(0.001)
        assert not bridge.reader.begin(ended)
        await follows
        bridge.executor.logs[log_id(3, 1, 0)].append("three")
        # The lines above are not stored yet: `ended` was read before.
        assert bridge.reader.begin(ended)
        place = bridge.reader.place(ended, ended.lines)
        page = await bridge.reader.read_page(bridge.node, ended, place)
        chunks = [*bridge.chunks, *page.chunks]
        assert [(each.first_seq, len(each.lines)) for each in chunks] == [(1, 2), (3, 1)]

    loop.run_until_complete(story())


def test_a_run_that_has_ended_in_the_ledger_is_told_to_end_until_that_is_confirmed(
    loop: SimLoop,
) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts()
        bridge.runs.start([request()], claim())
        await asyncio.sleep(0.1)
        bridge.executor.says["/kill"] = None
        bridge.ledger[3] = facts(state=RunState.TIMED_OUT)  # told once, and not asked about again
        cancel = Cancel(run=3, attempt=1, token="token", reason=CancelReason.TIMEOUT)
        await bridge.runs.cancel(cancel)
        await bridge.live(12)
        del bridge.executor.says["/kill"]
        before = len(bridge.executor.told("/kill"))
        await bridge.live(20)
        assert len(bridge.executor.told("/kill")) == before + 1
        assert bridge.attempts.get(3, 1) is None

    loop.run_until_complete(story())


def test_an_admin_serves_its_nodes_also_before_it_has_renewed_its_lease() -> None:
    view = BridgeView(executors={1: EXECUTOR}, addresses=[ADDRESS], admins={})
    assert mine(view, 17) == [ADDRESS]


# A Go client without a log handler, one behind a proxy that has no such path, one that keeps none.
LOGS_THAT_TELL_NOTHING = {
    "the same line of every run": b'{"code":200,"content":{"fromLineNum":1,"toLineNum":2,'
    b'"logContent":"no log handler","isEnd":true}}',
    "no log at all": b'{"code":500,"msg":"logs are off"}',
    "no answer of the protocol": b"<html>",
}


@pytest.mark.parametrize("answer", LOGS_THAT_TELL_NOTHING.values(), ids=LOGS_THAT_TELL_NOTHING)
def test_logs_that_tell_nothing_decide_nothing(loop: SimLoop, answer: bytes) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.executor.says["/log"] = answer
        bridge.ledger[3] = facts(age_ms=6_000)
        bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(40)
        assert bridge.said == []
        await bridge.live(15)
        # As on a node that died: it may have run.
        assert [each.outcome for each in bridge.said if isinstance(each, Result)] == [
            Outcome.CUT_OFF
        ]
        assert not refusals(bridge)

    loop.run_until_complete(story())


@pytest.mark.parametrize("answer", LOGS_THAT_TELL_NOTHING.values(), ids=LOGS_THAT_TELL_NOTHING)
def test_a_run_that_was_taken_over_without_logs_can_be_stopped(
    loop: SimLoop, answer: bytes
) -> None:
    async def story() -> None:
        bridge = Bridge()
        bridge.executor.says["/log"] = answer
        bridge.executor.busy.add(wire_job_id(5, 1))
        bridge.ledger[3] = facts(state=RunState.RUNNING, age_ms=6_000)
        bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(15)
        stop = Cancel(run=3, attempt=1, token="token", reason=CancelReason.OPERATOR)
        await bridge.runs.cancel(stop)
        assert bridge.executor.told("/kill") == [{"jobId": wire_job_id(5, 1)}]

    loop.run_until_complete(story())


def test_thousands_of_live_runs_with_slow_logs_hold_up_no_question(loop: SimLoop) -> None:
    async def story() -> None:
        bridges = [Bridge() for _ in range(60)]
        first = bridges[0]
        first.watch = XxlWatch(
            first,  # type: ignore[arg-type]
            [each.node for each in bridges],  # type: ignore[arg-type]
            first.reader,
        )
        for number, each in enumerate(bridges):
            each.executor.seconds["/log"] = 2.0
            for run in range(number * 100 + 1, number * 100 + 51):
                first.ledger[run] = facts(run, state=RunState.RUNNING, age_ms=20_000)
                each.executor.logs[log_id(run, 1, run % 100)] = ["begun"]
                each.runs.adopt(first.ledger[run])
                known = each.attempts.get(run, 1)
                assert known is not None
                each.attempts.found(known, run % 100)
                each.executor.busy.add(known.wire_job)
        await first.live(30)
        last = bridges[-1]
        last.executor.seconds["/log"] = 0.01
        first.ledger[9_000] = facts(9_000, age_ms=6_000)
        last.executor.logs[log_id(9_000, 1, 0)] = ["begun"]
        last.runs.adopt(first.ledger[9_000])
        await first.live(1.5)
        assert last.said == [Accepted(run=9_000, attempt=1, token="token")]

    loop.run_until_complete(story())


def test_a_pass_looks_at_no_run_that_is_not_due(loop: SimLoop) -> None:
    async def story() -> None:
        agenda: Agenda[int] = Agenda()
        for number in range(1_000):
            agenda.put(number, 100.0 + number)
        for number in range(0, 1_000, 2):
            agenda.put(number, 5_000.0 + number)  # later than was said first
        for number in range(1, 1_000, 4):
            agenda.discard(number)
        assert agenda.take(99.0) is None
        taken = []
        while (number := agenda.take(4_000.0)) is not None:
            taken.append(number)
        assert taken == list(range(3, 1_000, 4))
        assert agenda.take(6_000.0) == 0
        assert 0 not in agenda
        assert 2 in agenda

    loop.run_until_complete(story())


def test_an_end_that_the_ledger_does_not_take_is_told_later(loop: SimLoop) -> None:
    """Its log is expected before its end is recorded, so that the last lines are read."""

    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(state=RunState.RUNNING)
        attempt = bridge.runs.adopt(bridge.ledger[3])
        bridge.attempts.found(attempt, 0)
        bridge.is_down = True
        with pytest.raises(DatabaseUnavailable):
            await bridge.runs.end(attempt, Outcome.CUT_OFF, "it is gone")
        assert (bridge.said, len(bridge.attempts)) == ([], 1)
        bridge.is_down = False
        await bridge.runs.end(attempt, Outcome.CUT_OFF, "it is gone")
        assert [each.log_id for each in bridge.expected] == [log_id(3, 1, 0)]
        assert (len(bridge.said), len(bridge.attempts)) == (1, 0)
        await bridge.runs.end(attempt, Outcome.CUT_OFF, "it is gone")  # reported meanwhile
        assert len(bridge.said) == 1

    loop.run_until_complete(story())


def test_a_run_of_the_future_is_looked_after_as_well(loop: SimLoop) -> None:
    """The database's clock was set back since it was claimed."""

    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(state=RunState.RUNNING, age_ms=-770_000)
        bridge.executor.busy.add(5)
        bridge.executor.logs[log_id(3, 1, 0)] = ["begun"]
        attempt = bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(15)
        assert attempt.copy == 0
        stop = Cancel(run=3, attempt=1, token="token", reason=CancelReason.OPERATOR)
        await bridge.runs.cancel(stop)
        assert bridge.executor.told("/kill") == [{"jobId": 5}]

    loop.run_until_complete(story())


@pytest.mark.parametrize("state", [RunState.DISPATCHED, RunState.RUNNING])
def test_a_run_is_found_though_many_of_its_job_ran_beside_it(
    loop: SimLoop, state: RunState
) -> None:
    """They have ended since, so that nothing here tells how many there were."""

    async def story() -> None:
        bridge = Bridge()
        bridge.ledger[3] = facts(state=state)
        bridge.executor.logs[log_id(3, 1, 40)] = ["begun"]
        attempt = bridge.runs.adopt(bridge.ledger[3])
        await bridge.live(15)
        assert attempt.copy == 40
        assert refusals(bridge) == []

    loop.run_until_complete(story())


def test_calls_at_the_same_time_find_the_other_path_together(loop: SimLoop) -> None:
    async def story() -> None:
        bridge = Bridge()
        no_path = b'{"code":500,"msg":"invalid request, uri-mapping(/run) not found."}'
        bridge.executor.says["/run"] = no_path
        bridge.runs.start([request(3), request(4)], claim())
        await asyncio.sleep(1)
        assert len(bridge.executor.told("/trigger")) == 2
        assert [type(each) for each in bridge.said] == [Accepted, Accepted]

    loop.run_until_complete(story())


def test_a_node_whose_calls_go_unanswered_is_given_few_runs_until_one_is_answered(
    loop: SimLoop,
) -> None:
    async def story() -> None:
        bridge = Bridge()
        told: list[bool] = []  # whether it is limited
        bridge.runs.breaker = CircuitBreaker(lambda: told.append(bridge.runs.room is not None))
        bridge.executor.says["/run"] = None
        bridge.runs.start([request(3)], claim())
        assert bridge.runs.room is None
        await asyncio.sleep(4)
        assert bridge.runs.room == TRIED_AT_ONCE  # one call may get lost
        bridge.runs.start([request(4)], claim())
        assert bridge.runs.room == TRIED_AT_ONCE - 1
        bridge.runs.start([request(5)], claim())
        assert bridge.runs.room == 0
        await asyncio.sleep(4)
        assert bridge.runs.room == 0  # it hangs
        await asyncio.sleep(REST_SECONDS)
        assert bridge.runs.room == TRIED_AT_ONCE
        del bridge.executor.says["/run"]
        bridge.runs.start([request(6)], claim())
        await asyncio.sleep(0.1)
        assert bridge.runs.room is None
        assert told == [True, False]

    loop.run_until_complete(story())
