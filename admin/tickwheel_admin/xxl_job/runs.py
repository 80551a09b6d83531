"""Runs of one node: started and stopped by calls, and what is told of them to the engine."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.xxl_job.bridge import ClientKind, RunFacts
from tickwheel_admin.domain.xxl_job.glue import BEAN, GLUE_TYPES, code_of, glue_version
from tickwheel_admin.engine.ports import ClaimTime
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.attempts import RemoteAttempt, RemoteAttempts, Stage
from tickwheel_admin.xxl_job.breaker import CircuitBreaker
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NoAnswer, NotSent
from tickwheel_admin.xxl_job.calls import CALL_SECONDS, NodeCalls
from tickwheel_admin.xxl_job.dialects import (
    MAX_RUN,
    Answer,
    BadAnswer,
    Call,
    Dialect,
    Meaning,
    log_id,
)
from tickwheel_shared.protocol import (
    MAX_MESSAGE_CHARS,
    Accepted,
    Cancel,
    CancelReason,
    FromNode,
    Outcome,
    Query,
    Refusal,
    Refused,
    Result,
    RunKey,
    RunRequest,
)
from tickwheel_shared.secret_mask import hidden, mask_of

log = structlog.get_logger(__name__)

# Calls to a node that start runs. With one for logs they find a place there without waiting
# (`places.MAX_CALLS_PER_NODE`), and those that stop runs find theirs besides.
CALLS_AT_ONCE = 15
KILLS_AT_ONCE = 20  # calls to a node that stop runs
# A call begins at most so long after the claim, and takes at most so long to be sent: whoever asks
# about a run that is not confirmed does so after five seconds (`CONFIRM_MS`), and then no call for
# it is on its way.
START_SECONDS = 2.0
RUN_SECONDS = 3.0
# From the moment this admin learns of an attempt that was not confirmed, no call for it is on its
# way any more after so long, whichever admin made it.
DENY_SECONDS = START_SECONDS + RUN_SECONDS
KILL_SECONDS = 5.0  # beyond its time, for which a kill that was not answered may be on its way
BUSY_TRIES = 3
BUSY_SECONDS = 0.05  # a thread that has just reported a run may still count as busy


class NodeRuns:
    """Used from the event loop's thread only."""

    def __init__(
        self,
        attempts: RemoteAttempts,
        calls: NodeCalls,
        nodes: XxlNodes,
        *,
        node_id: Callable[[], int],
        say: Callable[[FromNode], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        limited: Callable[[], None] = lambda: None,
        may_kill: Callable[[], bool] = lambda: True,
    ) -> None:
        """Tell the engine with `say`; do what takes long in tasks made by `spawn`.

        `limited` is called when there begins to be a `room`, and when it ends. `may_kill` tells
        whether this admin is sure to serve the node.
        """
        self.breaker = CircuitBreaker(limited)
        self._attempts = attempts
        self._calls = calls
        self._nodes = nodes
        self._node_id = node_id
        self._say = say
        self._spawn = spawn
        self._may_kill = may_kill
        # Whether the node says of a run that it never had that there is no log; None: not asked.
        self._logs_tell: bool | None = None
        self._kills = asyncio.Semaphore(KILLS_AT_ONCE)
        # What is to be started, and until when the call for it must have begun; and how many tasks
        # make these calls, one after the other: one for each run would cost as much as its call.
        self._orders: deque[tuple[RemoteAttempt, RunRequest, float]] = deque()
        self._callers = 0
        # When nobody listened at the node's address, or another process seemed to.
        self.replaced_at = -1.0

    @property
    def is_busy(self) -> bool:
        """Whether calls that start runs wait for their turn."""
        return bool(self._orders)

    @property
    def room(self) -> int | None:
        """How many runs the node may be given now; None: as many as it has slots."""
        if self.breaker.is_closed:
            return None
        under_way = sum(each.stage is Stage.SENDING for each in self._attempts)
        return self.breaker.room(_now(), under_way)

    def start(self, requests: Sequence[RunRequest], claim: ClaimTime) -> None:
        """Call the node for each run of a claim that is committed."""
        now = _now()
        for request in requests:
            if self._attempts.get(request.run, request.attempt) is not None:
                continue  # sent again
            attempt = RemoteAttempt(
                run=request.run,
                attempt=request.attempt,
                token=request.token,
                job_id=request.job_id,
                handler=request.handler,
                copy=None,
                code=code_of(request.handler, request.script.sha256 if request.script else None),
                time_ms=claim.at_ms,
                stage=Stage.SENDING,
                began_at=now,
                known_at=now,
                mask=mask_of(request),
            )
            if request.timeout_ms is not None and not self._is_java:
                attempt.timeout_at = now + request.timeout_ms / 1000
            if self._is_go and self._attempts.runs_handler(request.handler):
                self._say(_refused(attempt.key, Refusal.FULL, "it runs a handler once at a time"))
                continue
            if self._attempts.may_end_another(attempt):
                text = "an earlier version of this job may run there, and is being looked for"
                self._say(_refused(attempt.key, Refusal.FULL, text))
                continue
            if not self._attempts.add(attempt):
                self._say(
                    _refused(attempt.key, Refusal.FULL, "as many of this job run there as can")
                )
                continue
            # No database's clock is asked for the age of the claim: it may be set back.
            self._orders.append((attempt, request, claim.asked_at + START_SECONDS))
        self._spawn_callers()

    def _spawn_callers(self) -> None:
        for _ in range(min(len(self._orders), CALLS_AT_ONCE - self._callers)):
            self._callers += 1
            self._spawn(self._call_in_turn())

    async def _call_in_turn(self) -> None:
        """Work off what is to be started."""
        try:
            while self._orders:
                await self._call_run(*self._orders.popleft())
        except Exception:
            self._callers -= 1
            self._spawn_callers()  # one broken call must not hold up the others
            raise
        self._callers -= 1

    async def _call_run(self, attempt: RemoteAttempt, request: RunRequest, begin_by: float) -> None:
        """Ask the node to start a run.

        Args:
            begin_by: when the call must have begun, in seconds of the running loop.
        """
        try:
            await self._call_run_now(attempt, request, begin_by)
        except (ConnectionRefused, NotSent) as error:
            self._refuse(attempt, Refusal.FULL, f"it could not be reached: {error}")
        except (NoAnswer, BadAnswer):  # it may have begun all the same: it is asked about
            self._attempts.unconfirmed(attempt)

    async def _call_run_now(
        self, attempt: RemoteAttempt, request: RunRequest, begin_by: float
    ) -> None:
        tries = 0
        while True:
            if _now() > begin_by or not self._attempts.is_current(attempt):
                # Whoever else was told of it by now, and a process that has replaced the node's,
                # must not meet this call; until here, nothing was sent, or nothing was started.
                self._refuse(attempt, Refusal.FULL, "it took too long to be called")
                return
            dialect = self._calls.dialect
            answer = await self._ask_to_run(attempt, request)
            meaning = dialects.meaning(answer)
            if meaning is Meaning.WRONG_PATH and tries == 0:
                # Not the other of the one it has now: another call may have found out, too.
                self._calls.dialect = Dialect.A if dialect is Dialect.C else Dialect.C
            elif meaning is Meaning.BUSY and tries < BUSY_TRIES:
                await asyncio.sleep(BUSY_SECONDS)
            else:
                break
            tries += 1
        # With itself, perhaps: something between us may have sent the call twice.
        if meaning is Meaning.BUSY and await self.has_log(attempt, attempt.copy or 0):
            meaning = Meaning.OK
        if not self._attempts.is_current(attempt):
            return  # it ended meanwhile: its callback was faster
        if meaning in (Meaning.OK, Meaning.REPEATED):
            self._calls.dialect = self._calls.dialect or Dialect.A  # the path was that of A and B
            self.confirm(attempt)
        elif meaning is Meaning.BUSY:
            self._refuse(attempt, Refusal.FULL, answer.message)
        elif meaning in (Meaning.HANDLER_UNKNOWN, Meaning.GLUE_UNSUPPORTED):
            self._refuse(attempt, Refusal.UNKNOWN_HANDLER, answer.message)
        elif meaning is Meaning.TOKEN_WRONG:
            self._refuse(attempt, Refusal.DRAINING, answer.message)
            self._calls.failed(answer.message)
        else:
            said = answer.message or f"its executor answered {answer.code}"
            await self.end(attempt, Outcome.FAILED, hidden(attempt.mask, said))

    async def _ask_to_run(self, attempt: RemoteAttempt, request: RunRequest) -> Answer:
        try:
            answer = await self._calls.ask(self._run_call(attempt, request), seconds=RUN_SECONDS)
        except (ConnectionRefused, NotSent, NoAnswer):
            self.breaker.unanswered(_now())
            raise
        self.breaker.answered()
        return answer

    async def has_log(self, attempt: RemoteAttempt, copy: int) -> bool | None:
        """Whether the node has a log of the attempt: it has one from the moment it begins.

        None: its answers do not tell. Some clients have no logs, or one of every run there is.
        """
        if self._logs_tell is None:
            unknown = await self._is_missing(log_id(MAX_RUN, attempt.attempt, copy), attempt)
            self._logs_tell = unknown is True
        if not self._logs_tell:
            return None
        missing = await self._is_missing(log_id(attempt.run, attempt.attempt, copy), attempt)
        return None if missing is None else not missing

    async def _is_missing(self, number: int, attempt: RemoteAttempt) -> bool | None:
        try:
            page = await self._calls.log_page(number, attempt.time_ms, 1, max_bytes=4_096)
        except BadAnswer:
            return None
        return page.missing

    def _run_call(self, attempt: RemoteAttempt, request: RunRequest) -> Call:
        script = request.script or None
        return dialects.run(
            self._calls.dialect,
            dialects.RunCall(
                job_id=attempt.wire_job,
                handler=request.handler if script is None else "",
                param=param_of(bytes(request.parameters)),
                timeout_s=-(-(request.timeout_ms or 0) // 1000) if self._is_java else 0,
                log_id=attempt.log_id,
                time_ms=attempt.time_ms,
                index=request.shard_index,
                total=request.shard_total,
                glue_type=BEAN if script is None else GLUE_TYPES[script.language],
                glue_source="" if script is None else script.source,
                glue_updated_ms=0 if script is None else glue_version(script.sha256),
            ),
        )

    @property
    def _is_java(self) -> bool:
        """Other clients report a run that they timed out as succeeded or failed, and let it run on.

        The engine's own timeout ends theirs.
        """
        return self._calls.address.client == ClientKind.JAVA

    @property
    def _is_go(self) -> bool:
        """Two runs of one handler share their state there: both report the later one's id."""
        return self._calls.address.client == ClientKind.GO

    async def answer(self, query: Query) -> None:
        """Tell the engine whether the node has an attempt, if it is known."""
        attempt = await self._known(query.run, query.attempt, query.token)
        if attempt is not None and attempt.stage is Stage.RUNNING:
            self._say(_accepted(attempt.key))
        # Otherwise it is being asked (`watch`), and the engine told once that is sure.

    async def cancel(self, cancel: Cancel) -> None:
        attempt = await self._known(cancel.run, cancel.attempt, cancel.token)
        if attempt is None:
            return
        # Kept, for of a run that has ended already the engine does not ask again.
        if attempt.kill_wanted_at is None:
            attempt.kill_wanted_at = _now()
        attempt.is_stale = attempt.is_stale or cancel.reason is CancelReason.STALE
        await self.kill(attempt)

    async def kill(self, attempt: RemoteAttempt, *, is_over: bool = False) -> None:
        """End an attempt, as far as it is known where it runs; `watch` looks for it else.

        Args:
            is_over: it has ended in the ledger.
        """
        if attempt.copy is None or attempt.stage is Stage.SENDING:
            return
        if is_over or attempt.is_stale:
            if self._attempts.is_outrun(attempt):
                self._attempts.remove(attempt)
                return
            if not attempt.handler and self._attempts.may_be_shared:
                return  # who sent it may have given its wire job to the next one
        try:
            async with self._kills:
                if not self._attempts.owns(attempt) or not self._may_kill():
                    return  # another one runs there, or may
                # No other run may get the wire job while this call may be on its way.
                until = _now() + CALL_SECONDS + KILL_SECONDS
                number = self._attempts.reserve(attempt.wire_job, until)
                answer = await self._calls.ask(dialects.kill(attempt.wire_job))
                self._attempts.release(number)
        except (ConnectionRefused, NotSent, NoAnswer, BadAnswer):
            return  # it is tried again
        if dialects.meaning(answer) is Meaning.OK and attempt.killed_at is None:
            attempt.killed_at = _now()
            if attempt.is_stale:
                self._attempts.remove(attempt)

    async def _known(self, run: int, number: int, token: str) -> RemoteAttempt | None:
        found = self._attempts.get(run, number)
        if found is not None:
            return found
        facts = (await self._nodes.facts([run])).get(run)
        if facts is None or facts.attempt != number or facts.token != token:
            return None
        if not facts.is_live or facts.node_id != self._node_id():
            return None
        return self._attempts.get(run, number) or self.adopt(facts)

    def adopt(self, facts: RunFacts) -> RemoteAttempt:
        """Take over an attempt that another admin sent, or this one in an earlier session."""
        attempt = RemoteAttempt(
            run=facts.run,
            attempt=facts.attempt,
            token=facts.token,
            job_id=facts.job_id,
            handler="",
            copy=None,
            code=facts.code,
            time_ms=facts.dispatched_at or 0,
            stage=Stage.SENDING,
            # A database clock that was set back puts no instant of it into the future.
            began_at=_now() - max(facts.age_seconds, 0.0),
            known_at=_now(),
            is_adopted=True,
            mask=facts.mask,
        )
        self._attempts.adopt(attempt)
        if facts.state is RunState.RUNNING:
            self._attempts.running(attempt)
        else:
            self._attempts.unconfirmed(attempt)
        return attempt

    # --- what is told of them --------------------------------------------------------------------

    def confirm(self, attempt: RemoteAttempt) -> None:
        """The node has the attempt."""
        attempt.running_at = _now()
        if attempt.timeout_at is not None:
            attempt.timeout_at += _now() - attempt.began_at  # it counts from now
        self._attempts.running(attempt)
        self._say(_accepted(attempt.key))

    async def deny(self, attempt: RemoteAttempt) -> None:
        """The node never saw an attempt, and no call for it is on its way."""
        if self.replaced_at >= attempt.known_at:
            # Another process may have begun it.
            text = "Its executor was restarted when it was told to run it."
            await self.end(attempt, Outcome.CUT_OFF, text)
            return
        self._refuse(attempt, Refusal.NEVER_SEEN, "")

    async def end(self, attempt: RemoteAttempt, outcome: Outcome, message: str) -> None:
        """Report an end that the executor does not; raises DatabaseUnavailable.

        Args:
            message: without the values of secrets.
        """
        expected = attempt.expected_log(self._node_id())
        if expected is not None:
            await self._nodes.expect_logs([expected])  # first, as when its executor reports it
        if not self._attempts.is_current(attempt):
            return  # its report came after all
        self._attempts.remove(attempt)
        duration = max(int((_now() - attempt.began_at) * 1000), 0)
        self._say(
            Result(
                run=attempt.run,
                attempt=attempt.attempt,
                token=attempt.token,
                outcome=outcome,
                duration_ms=duration,
                message=message[:MAX_MESSAGE_CHARS],
            )
        )

    def _refuse(self, attempt: RemoteAttempt, why: Refusal, message: str) -> None:
        self._attempts.remove(attempt)
        self._say(_refused(attempt.key, why, hidden(attempt.mask, message)))


def param_of(parameters: bytes) -> str:
    """The one text that a job of this protocol has; other parameters travel as JSON."""
    if parameters == b"{}":
        return ""
    given = json.loads(parameters)
    if given == {}:
        return ""
    if isinstance(given, dict) and given.keys() == {"param"} and isinstance(given["param"], str):
        return given["param"]
    return parameters.decode()


def _accepted(key: RunKey) -> Accepted:
    return Accepted(run=key.run, attempt=key.attempt, token=key.token)


def _refused(key: RunKey, why: Refusal, message: str) -> Refused:
    return Refused(
        run=key.run,
        attempt=key.attempt,
        token=key.token,
        reason=why,
        message=message[:MAX_MESSAGE_CHARS],
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
