"""What a node of this protocol was asked to run, as far as this admin knows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog
from tickwheel_admin.xxl_job.agenda import Agenda
from tickwheel_admin.xxl_job.dialects import LogId, log_id, wire_job_id
from tickwheel_shared.protocol import RunKey
from tickwheel_shared.secret_mask import SecretMask

MAX_COPIES = 256  # runs of one job at once on one node
# Runs of one job are given the lowest free copy, but for the first seconds of an admin that serves
# their node in place of another one: of that, calls that end a run may still be on their way.
TAKEOVER_SECONDS = 20.0
_COPIES_OF_TURN = 64  # by the lowest of which those of such seconds are apart
_TURNS = 3  # and then the first ones again
LOG_SECONDS = 2.0  # between two looks at the log of a run
IDLE_SECONDS = 10.0  # between two questions whether a job still runs


class Stage(Enum):
    """How sure it is that the node runs an attempt."""

    SENDING = auto()  # the call is under way
    UNCONFIRMED = auto()  # the call was not answered: the node is being asked
    RUNNING = auto()  # it said so, or the ledger does


@dataclass(slots=True, kw_only=True, eq=False)
class RemoteAttempt:
    """One attempt on one node. Instants are seconds of the running loop."""

    run: int
    attempt: int
    token: str
    job_id: int
    handler: str  # "": it was adopted, and is not known
    copy: int | None  # which of the runs of its job side by side; None: to be found out
    code: str | None = None  # `glue.code_of` its job; None: not known
    time_ms: int  # that of its claim: executors repeat it, and find the log by it
    stage: Stage
    began_at: float
    known_at: float  # since when this admin knows of it
    running_at: float | None = None  # since when its node is known to have it
    timeout_at: float | None = None  # when to stop it; None: its node or the engine does
    lines: int = 0  # of its log, sent to the recorder so far
    is_adopted: bool = False  # somebody else may have sent some
    busy_since: float | None = None  # its node runs something of its job, perhaps it
    busy_at: float = 0.0  # when its node last said so, once it was confirmed
    idle_since: float | None = None  # its node says that nothing of it runs
    absent_since: float | None = None  # its node never saw it, as it seems
    kill_wanted_at: float | None = None  # the engine told to end it
    is_stale: bool = False  # the ledger does not wait for its end
    killed_at: float | None = None  # the node said that it was killed
    was_sought: bool = False  # among all copies of its job, and not only the likely ones
    is_untold: bool = False  # its node's logs do not tell which copy it is
    full: bool = False  # no more lines of its log are read
    mask: SecretMask | None = None  # hides the run's secrets in what its executor says

    @property
    def key(self) -> RunKey:
        return RunKey(run=self.run, attempt=self.attempt, token=self.token)

    @property
    def wire_job(self) -> int:
        return wire_job_id(self.job_id, self.copy or 0)

    @property
    def log_id(self) -> int:
        return log_id(self.run, self.attempt, self.copy or 0)

    def expected_log(self, node_id: int) -> ExpectedLog | None:
        """The rest of its log when it has ended; None: there is none to be read."""
        if self.stage is not Stage.RUNNING or self.copy is None or self.full:
            return None
        return ExpectedLog(
            run=self.run,
            attempt=self.attempt,
            token=self.token,
            node_id=node_id,
            log_id=self.log_id,
            time_ms=self.time_ms,
        )


class RemoteAttempts:
    """RemoteAttempts by run; only the newest of each is of interest."""

    def __init__(self) -> None:
        self._by_run: dict[int, RemoteAttempt] = {}
        self._wire_jobs: dict[int, RemoteAttempt] = {}
        # By job: copies below this one are taken, so that nobody need look at them.
        self._lowest: dict[int, int] = {}
        self._unlocated: set[RemoteAttempt] = set()  # it is not known which copies they are
        # Calls that may be on their way, with the wire job that each is about and until when.
        self._reserved: dict[int, tuple[int, float]] = {}
        self._numbers = count(1)  # of these calls
        self._turn_copy = 0  # the first one to be given before `_turn_until`
        self._turn_until = 0.0
        # When to ask whether a run has begun, whether one still runs, for its log; and when to
        # end it.
        self.probes: Agenda[RemoteAttempt] = Agenda()
        self.questions: Agenda[RemoteAttempt] = Agenda()
        self.logs: Agenda[RemoteAttempt] = Agenda()
        self.deadlines: Agenda[RemoteAttempt] = Agenda()

    def __len__(self) -> int:
        return len(self._by_run)

    def __iter__(self) -> Iterator[RemoteAttempt]:
        return iter(list(self._by_run.values()))

    def get(self, run: int, attempt: int) -> RemoteAttempt | None:
        found = self._by_run.get(run)
        return found if found is not None and found.attempt == attempt else None

    def of_log_id(self, said: LogId) -> RemoteAttempt | None:
        """The attempt that a logId stands for."""
        found = self._by_run.get(said.run)
        return found if found is not None and found.attempt & 0xFF == said.attempt_low else None

    def runs_handler(self, handler: str) -> bool:
        """Whether an attempt of this handler is here."""
        return any(each.handler in (handler, "") for each in self._by_run.values())

    def may_end_another(self, attempt: RemoteAttempt) -> bool:
        """Whether the call for a new one may end one that runs: a node does that with one of the
        same wire job and other code.
        """
        return any(
            each.job_id == attempt.job_id and (each.code is None or each.code != attempt.code)
            for each in self._unlocated
        )

    def add(self, attempt: RemoteAttempt) -> bool:
        """Keep a new one, with a wire job of its own; False: too many of its job run."""
        reserved = {job for job, until in self._reserved.values() if until > attempt.known_at}
        is_turn = attempt.known_at < self._turn_until
        first = self._turn_copy if is_turn else self._lowest.get(attempt.job_id, 0)
        for copy in (each % MAX_COPIES for each in range(first, first + MAX_COPIES)):
            wire_job = wire_job_id(attempt.job_id, copy)
            if wire_job not in reserved and wire_job not in self._wire_jobs:
                self.adopt(attempt)
                self.found(attempt, copy)
                if not is_turn and not reserved:  # else one below may be free again by itself
                    self._lowest[attempt.job_id] = copy + 1
                return True
        return False

    def take_over(self, turn: int, now: float) -> None:
        """Give other copies than the admin before this one for a while.

        Args:
            turn: how many admins have served the node, this one included.
        """
        if turn > 1:
            self._turn_copy = _COPIES_OF_TURN * (turn % _TURNS + 1)
            self._turn_until = now + TAKEOVER_SECONDS

    def adopt(self, attempt: RemoteAttempt) -> None:
        """Keep one that somebody else sent."""
        earlier = self._by_run.get(attempt.run)
        if earlier is not None:
            self.remove(earlier)
        self._by_run[attempt.run] = attempt
        if attempt.copy is None:
            self._unlocated.add(attempt)

    def is_current(self, attempt: RemoteAttempt) -> bool:
        """Whether it is here still."""
        return self._by_run.get(attempt.run) is attempt

    def unconfirmed(self, attempt: RemoteAttempt) -> None:
        """It may have begun: it is to be found out."""
        attempt.stage = Stage.UNCONFIRMED
        if self.is_current(attempt):
            self.probes.put(attempt, 0.0)

    def running(self, attempt: RemoteAttempt) -> None:
        """It has begun, and is looked after from now on."""
        attempt.stage = Stage.RUNNING
        if not self.is_current(attempt):
            return
        self.questions.put(attempt, attempt.began_at + IDLE_SECONDS)
        self.logs.put(attempt, attempt.began_at + LOG_SECONDS)
        if attempt.timeout_at is not None:
            self.deadlines.put(attempt, attempt.timeout_at)

    def ask_at_once(self) -> None:
        """Ask about all that run, but those that are being asked about."""
        for attempt in self:
            if attempt in self.questions:
                self.questions.put(attempt, 0.0)

    def reserve(self, wire_job: int, until: float) -> int:
        """Give the wire job to no other attempt before this instant, whatever becomes of its own.

        A call that ends what runs there may be on its way until then. Returns its number, for
        `release`: each call is on its way by itself, and one that was answered tells of no other.
        """
        old = [each for each, (_, at) in self._reserved.items() if at < until - 60.0]
        for each in old:
            del self._reserved[each]
        number = next(self._numbers)
        self._reserved[number] = (wire_job, until)
        return number

    def release(self, number: int) -> None:
        """The call was answered: it is on its way no more."""
        self._reserved.pop(number, None)

    @property
    def may_be_shared(self) -> bool:
        """Whether the admin before this one may still start runs at the node."""
        return asyncio.get_running_loop().time() < self._turn_until

    def is_outrun(self, attempt: RemoteAttempt) -> bool:
        """Whether another attempt has come to its wire job, so that this one has ended."""
        return any(
            each is not attempt and each.copy is not None and each.wire_job == attempt.wire_job
            for each in self._by_run.values()
        )

    def owns(self, attempt: RemoteAttempt) -> bool:
        """Whether its wire job is its own, so that what is said of the one is true of the other.

        Two have the same when one of them was adopted and found later: then the executor has taken
        the other one, for it runs one at a time, and this one runs no more.
        """
        return self._wire_jobs.setdefault(attempt.wire_job, attempt) is attempt

    def free_copies(self, attempt: RemoteAttempt) -> list[int]:
        """Which copies of its job an attempt may be, as far as no other is known to be them."""
        jobs = ((copy, wire_job_id(attempt.job_id, copy)) for copy in self.likely(attempt.job_id))
        return [copy for copy, job in jobs if self._wire_jobs.get(job, attempt) is attempt]

    def likely(self, job_id: int) -> Sequence[int]:
        """Copies of a job that may run, the likeliest first."""
        side_by_side = sum(each.job_id == job_id for each in self._by_run.values())
        most = 2 * side_by_side + 2
        if not self._turn_until:
            return range(min(most, MAX_COPIES))
        # Of other admins, in the first seconds of each.
        firsts = range(0, MAX_COPIES, _COPIES_OF_TURN)
        nearest = (first + number for number in range(most) for first in firsts)
        return list(dict.fromkeys(copy for copy in nearest if copy < MAX_COPIES))

    def found(self, attempt: RemoteAttempt, copy: int) -> None:
        """It is known by now which copy of its job this is."""
        attempt.copy = copy
        self._unlocated.discard(attempt)
        self._wire_jobs.setdefault(attempt.wire_job, attempt)

    def remove(self, attempt: RemoteAttempt) -> None:
        if self.is_current(attempt):
            del self._by_run[attempt.run]
        self._unlocated.discard(attempt)
        for agenda in (self.probes, self.questions, self.logs, self.deadlines):
            agenda.discard(attempt)
        if attempt.copy is not None and self._wire_jobs.get(attempt.wire_job) is attempt:
            del self._wire_jobs[attempt.wire_job]
            if attempt.copy < self._lowest.get(attempt.job_id, 0):
                if attempt.copy:
                    self._lowest[attempt.job_id] = attempt.copy
                else:
                    del self._lowest[attempt.job_id]
