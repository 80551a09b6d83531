"""What a node of this protocol was asked to run, as far as this admin knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog
from tickwheel_admin.xxl_job.agenda import Agenda
from tickwheel_admin.xxl_job.dialects import LogId, log_id, wire_job_id
from tickwheel_shared.protocol import RunKey
from tickwheel_shared.secret_mask import SecretMask

MAX_COPIES = 256  # runs of one job at once on one node
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
        self._reserved: dict[int, float] = {}  # wire jobs that are used again from then on
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

    def add(self, attempt: RemoteAttempt) -> bool:
        """Keep a new one, with a wire job of its own; False: too many of its job run."""
        for copy in range(MAX_COPIES):
            wire_job = wire_job_id(attempt.job_id, copy)
            if self._reserved.get(wire_job, 0.0) <= attempt.known_at and (
                wire_job not in self._wire_jobs
            ):
                self.adopt(attempt)
                attempt.copy = copy
                self._wire_jobs[wire_job] = attempt
                return True
        return False

    def adopt(self, attempt: RemoteAttempt) -> None:
        """Keep one that somebody else sent."""
        earlier = self._by_run.get(attempt.run)
        if earlier is not None:
            self.remove(earlier)
        self._by_run[attempt.run] = attempt

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

    def reserve(self, wire_job: int, until: float) -> None:
        """Give the wire job to no other attempt before this instant, whatever becomes of its own.

        A call that ends what runs there may be on its way until then.
        """
        self._reserved = {each: at for each, at in self._reserved.items() if at > until - 60.0}
        self._reserved[wire_job] = until

    def owns(self, attempt: RemoteAttempt) -> bool:
        """Whether its wire job is its own, so that what is said of the one is true of the other.

        Two have the same when one of them was adopted and found later: then the executor has taken
        the other one, for it runs one at a time, and this one runs no more.
        """
        return self._wire_jobs.setdefault(attempt.wire_job, attempt) is attempt

    def free_copies(self, attempt: RemoteAttempt, copies: int) -> list[int]:
        """Which copies of its job an attempt may be, as far as no other is known to be them."""
        jobs = ((copy, wire_job_id(attempt.job_id, copy)) for copy in range(copies))
        return [copy for copy, job in jobs if self._wire_jobs.get(job, attempt) is attempt]

    def copies_of(self, job_id: int) -> int:
        """How many copies of a job there may be at most."""
        side_by_side = sum(each.job_id == job_id for each in self._by_run.values())
        return min(2 * side_by_side + 2, MAX_COPIES)

    def found(self, attempt: RemoteAttempt, copy: int) -> None:
        """It is known by now which copy of its job this is."""
        attempt.copy = copy
        self._wire_jobs.setdefault(attempt.wire_job, attempt)

    def remove(self, attempt: RemoteAttempt) -> None:
        if self.is_current(attempt):
            del self._by_run[attempt.run]
        for agenda in (self.probes, self.questions, self.logs, self.deadlines):
            agenda.discard(attempt)
        if attempt.copy is not None and self._wire_jobs.get(attempt.wire_job) is attempt:
            del self._wire_jobs[attempt.wire_job]
