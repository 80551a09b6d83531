"""The recording transaction: one batch of reports of nodes becomes moves of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from tickwheel_admin.domain.executors import reports
from tickwheel_admin.domain.executors.reports import Answer
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.moves import SPAWNED
from tickwheel_admin.domain.runs.run import LIVE, Move, RunState
from tickwheel_admin.domain.runs.trace import ends_of_attempts
from tickwheel_admin.engine.handoff import AttemptOutputs
from tickwheel_admin.engine.ports import FetchedChunk, HeldPart, NodeMessage, Session, StoredFirst
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.facts import BatchStep, facts_of
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.attempts import attempt_tokens, keep_late_results
from tickwheel_admin.store.runs.deadlines import ask_about_held_runs, set_deadlines
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.logs import append_fetched_chunks, append_log_chunks
from tickwheel_admin.store.runs.runs import lock_runs, set_progress
from tickwheel_admin.store.workflows.steps import SpawnedItems, insert_spawned
from tickwheel_shared.protocol import (
    MAX_MESSAGE_CHARS,
    Accepted,
    Checkpoint,
    Held,
    LogChunk,
    LogReceipt,
    Message,
    Progress,
    Refusal,
    Refused,
    Result,
    RunKey,
)


@dataclass(slots=True)
class RecordResult:
    """What to do once the transaction is committed."""

    replies: list[tuple[Session, Message]] = field(default_factory=list)
    opened: list[Session] = field(default_factory=list)
    # (node, handler, why)
    refusals: list[tuple[int, str, Refusal]] = field(default_factory=list)
    ignored: list[tuple[str, Session, int]] = field(default_factory=list)  # (why, whose, run)
    ended: Sequence[Move] = ()  # attempts of runs that are part of a trace
    recorded_at: int = 0  # database time of it
    unkept: Sequence[int] = ()  # runs whose state is not stored: another attempt holds it
    logged_runs: set[int] = field(default_factory=set)
    moved: int = 0
    freed: Collection[int] = ()  # executors with a slot that is free again
    queued: bool = False  # runs may be claimed that could not be before
    steps: int = 0  # of workflows, that have begun
    armed: bool = False  # triggers that waited for the end of a run will fire


def record(
    conn: sa.Connection,
    batch: Sequence[NodeMessage],
    configs: JobConfigs,
    run_ids: Sequence[int] = (),
) -> RecordResult:
    """Apply the messages in their order; the same messages, sent again, change nothing.

    Raises:
        TooFewIds: runs ended whose children need more ids than there are.
    """
    now = now_ms(conn)
    book = _RecordBatch(conn, batch, configs, now=now)
    for received in batch:
        book.apply(received)
    book.write(run_ids)
    facts_of(conn).batches.append((BatchStep.RECORDING, len(batch)))
    return book.recorded


class _RecordBatch:
    """The runs of one batch, and what its messages do to them."""

    def __init__(
        self, conn: sa.Connection, batch: Sequence[NodeMessage], configs: JobConfigs, *, now: int
    ) -> None:
        self._conn = conn
        self._now = now
        self._runs = lock_runs(conn, _run_ids(batch))
        self._all_configs = configs
        self._configs = configs.get_many(
            conn, {(run.job_id, run.job_revision) for run in self._runs.values()}
        )
        self._old_tokens = attempt_tokens(conn, self._older_attempts(batch))
        self._moves: dict[int, Move] = {}
        self._deadlines: dict[int, int] = {}
        self._progress: dict[int, tuple[float, str]] = {}
        self._chunks: dict[tuple[int, int, int], LogChunk] = {}
        self._fetched: list[LogChunk] = []
        self._late: dict[tuple[int, int], Result] = {}
        self._first: defaultdict[Callable[..., None], list[Any]] = defaultdict(list)
        self._left = AttemptOutputs()
        self._spawned: dict[int, SpawnedItems] = {}  # by the run that spawned them
        self._back: dict[int, Collection[int]] = {}  # nodes that said hello, and the runs they hold
        self.recorded = RecordResult()

    def apply(self, received: NodeMessage) -> None:
        message, session = received.message, received.session
        match message:
            case Accepted():
                self._answer(session, message.run, self._holding(session, message))
            case Held():
                self._hold(session, message.runs, {key.run for key in message.runs})
            case HeldPart():
                self._hold(session, message.runs, message.named)
            case Refused():
                self._refuse(session, message)
            case Result():
                self._take_result(session, message)
            case Progress():
                self._note_progress(session, message)
            case Checkpoint():
                self._note_checkpoint(session, message)
            case LogChunk():
                self._keep_lines(session, message)
            case StoredFirst():
                self._first[message.write] += message.rows

    def write(self, run_ids: Sequence[int]) -> None:
        for write, rows in self._first.items():
            write(self._conn, rows)
        moves = list(self._moves.values())
        insert_spawned(self._conn, list(self._spawned.values()))
        followed = move_with_follow_ups(
            self._conn, moves, configs=self._all_configs, now=self._now, run_ids=run_ids
        )
        self.recorded.queued, self.recorded.armed = followed.queued > 0, followed.armed > 0
        self.recorded.steps = followed.steps
        ask_about_held_runs(self._conn, self._back, now=self._now)
        keep_late_results(
            self._conn,
            [
                (run_id, attempt, result.outcome.value, result.message)
                for (run_id, attempt), result in sorted(self._late.items())
                if self._old_tokens.get((run_id, attempt)) == result.token
            ],
            now=self._now,
        )
        set_deadlines(
            self._conn,
            [(run_id, at) for run_id, at in self._deadlines.items() if run_id not in self._moves],
        )
        set_progress(
            self._conn,
            [
                (run_id, share, text)
                for run_id, (share, text) in sorted(self._progress.items())
                if self._runs[run_id].state is RunState.RUNNING
            ],
        )
        append_log_chunks(self._conn, list(self._chunks.values()))
        append_fetched_chunks(self._conn, self._fetched)
        self.recorded.unkept = self._left.write(self._conn, now=self._now)
        self.recorded.moved = len(moves)
        self.recorded.ended, self.recorded.recorded_at = ends_of_attempts(moves), self._now
        self.recorded.freed = {
            move.before.executor_id
            for move in moves
            if move.before.state in LIVE and move.after.state not in LIVE
        }

    def _holding(self, session: Session, key: Accepted | RunKey) -> Answer:
        return reports.on_holding(
            self._runs.get(key.run),
            key,
            self._config(key.run),
            executor_id=session.executor_id,
            now=self._now,
        )

    def _hold(
        self, session: Session, keys: Sequence[RunKey], named: Collection[int] | None
    ) -> None:
        for key in keys:
            self._answer(session, key.run, self._holding(session, key))
        if named is not None:
            self._back[session.node_id] = named
            self.recorded.opened.append(session)

    def _take_result(self, session: Session, result: Result) -> None:
        run, config = self._runs.get(result.run), self._config(result.run)
        answer = reports.on_result(
            run, result, config, executor_id=session.executor_id, now=self._now
        )
        if run is not None and reports.is_last_word(run, result, session.executor_id):
            self._left.result(run, result, config, answer.move)
            if answer.move is not None and answer.move.after.reason == SPAWNED:
                items, _ = reports.spawned_items(run, result)
                self._spawned[run.id] = SpawnedItems(
                    run.parent_run_id or 0, run.id, len(items or ()), _text(result.spawn)
                )
        if answer.refused == reports.OLD_ATTEMPT:
            self._late[result.run, result.attempt] = result
        self._answer(session, result.run, answer)

    def _refuse(self, session: Session, refused: Refused) -> None:
        config = self._config(refused.run)
        answer = reports.on_refused(
            self._runs.get(refused.run),
            refused,
            config,
            executor_id=session.executor_id,
            now=self._now,
        )
        if answer.move is not None and refused.reason is not Refusal.NEVER_SEEN:
            self.recorded.refusals.append((session.node_id, config.handler, refused.reason))
        self._answer(session, refused.run, answer)

    def _note_progress(self, session: Session, progress: Progress) -> None:
        run = self._runs.get(progress.run)
        if run is not None and reports.proves(run, progress, session.executor_id):
            share = min(max(progress.fraction, 0.0), 1.0)
            self._progress[run.id] = (share, progress.text[:MAX_MESSAGE_CHARS])

    def _note_checkpoint(self, session: Session, checkpoint: Checkpoint) -> None:
        run = self._runs.get(checkpoint.run)
        if run is not None and reports.is_last_word(run, checkpoint, session.executor_id):
            self._left.checkpoint(run, checkpoint)

    def _keep_lines(self, session: Session, chunk: LogChunk) -> None:
        run = self._runs.get(chunk.run)
        if run is not None and run.executor_id == session.executor_id:
            current = run.attempt == chunk.attempt
            token = run.claim_token if current else self._old_tokens.get((chunk.run, chunk.attempt))
            if token == chunk.token:
                if isinstance(chunk, FetchedChunk):
                    self._fetched.append(chunk)
                else:
                    self._chunks[chunk.run, chunk.attempt, chunk.first_seq] = chunk
                self.recorded.logged_runs.add(chunk.run)
        # A chunk that is not stored is acknowledged too, or the node would keep it for ever.
        receipt = LogReceipt(run=chunk.run, attempt=chunk.attempt, first_seq=chunk.first_seq)
        self.recorded.replies.append((session, receipt))

    def _answer(self, session: Session, run_id: int, answer: Answer) -> None:
        if answer.move is not None:
            self._runs[run_id] = answer.move.after
            earlier = self._moves.get(run_id)
            self._moves[run_id] = answer.move if earlier is None else _merged(earlier, answer.move)
        if answer.deadline_at is not None:
            self._deadlines[run_id] = answer.deadline_at
        if answer.reply is not None:
            self.recorded.replies.append((session, answer.reply))
        if answer.refused is not None:
            self.recorded.ignored.append((answer.refused, session, run_id))

    def _config(self, run_id: int) -> JobConfig:
        run = self._runs.get(run_id)
        return _NO_JOB if run is None else self._configs[run.job_id, run.job_revision]

    def _older_attempts(self, batch: Sequence[NodeMessage]) -> set[tuple[int, int]]:
        return {
            (message.run, message.attempt)
            for message in (received.message for received in batch)
            if isinstance(message, _MAY_BE_LATE)
            and message.run in self._runs
            and message.attempt < self._runs[message.run].attempt
        }


_MAY_BE_LATE = (LogChunk, Result)  # made once, for it is asked of each message


def _text(raw: msgspec.Raw | msgspec.UnsetType) -> str:
    return "[]" if isinstance(raw, msgspec.UnsetType) else bytes(raw).decode()


_NO_JOB = JobConfig(name="", handler="")  # stands in where the run is unknown and nothing is done


def _run_ids(batch: Sequence[NodeMessage]) -> set[int]:
    ids: set[int] = set()
    for received in batch:
        match received.message:
            case Held(runs=keys) | HeldPart(runs=keys):
                ids.update(key.run for key in keys)
            case (
                Accepted()
                | Refused()
                | Result()
                | Progress()
                | Checkpoint()
                | LogChunk() as message
            ):
                ids.add(message.run)
    return ids


def _merged(first: Move, second: Move) -> Move:
    """Two moves of one run in one batch are written as one."""
    return replace(
        second,
        before=first.before,
        archived=None if second.unarchived else second.archived or first.archived,
    )
