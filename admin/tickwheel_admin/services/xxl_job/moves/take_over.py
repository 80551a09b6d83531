"""Taking jobs over from XXL-JOB, and giving them back, with no fire lost and none doubled.

XXL-JOB's admins schedule only while they hold the lock row of its database. While we hold it, each
job's `trigger_next_time` lies behind everything that they have put into their rings, so that is
where we go on. domain.xxl_job.take_over tells the steps, and who fires after a crash between two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.domain.xxl_job.take_over import Decision, NextAction
from tickwheel_admin.services.events.events import JOBS, QUEUED, RUNS, TRIGGERS, Events
from tickwheel_admin.services.xxl_job.moves.edits import (
    MoveRefusal,
    MoveRefusedError,
    NewMove,
    OurJob,
    Returned,
    ToArm,
    ToReturn,
    arm_jobs,
    prepare,
    refusal_to_start,
    return_job,
    settle,
)
from tickwheel_admin.services.xxl_job.moves.schedule import HeldSchedule, TheirSchedule
from tickwheel_admin.services.xxl_job.moves.situation import (
    Moved,
    Moving,
    Situation,
    decide_give_back,
    decide_take_over,
    read_situation,
)
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.xxl_job.moves import StoredMove

T = TypeVar("T")

TAKEN_AT_ONCE = 200  # jobs: while they are stopped, XXL-JOB schedules nothing
RETURNED_AT_ONCE = 25  # each is a transaction here, under XXL-JOB's lock
ARMED_AT_ONCE = 50
HOLD_SECONDS = 3.0  # XXL-JOB looks 5 s ahead: so long it can do without its lock
LOOK_AHEAD_MS = 5_000  # what is due within this may be in XXL-JOB's rings
# For the clocks of XXL-JOB's admins, which may differ from that of their database.
MARGIN_MS = 2_000
PATIENCE_MS = 15_000  # so long we wait for a moment at which no ring can hold a job
MAX_CLOCK_DIFFERENCE_MS = 2_000  # between the two databases, to give jobs back
SEQUENCE = "xxl_take_over"  # of ids


class ClocksDiffer(Exception):
    """The clocks of the two databases differ too much to start jobs at an instant."""


class TakeOver:
    """Moves the jobs of one XXL-JOB installation."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        events: Events,
        theirs: TheirSchedule,
        *,
        source: str,
        actor: Actor,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        """`source` names the installation, as in the import."""
        self._store = store
        self._ids = ids
        self._events = events
        self._theirs = theirs
        self._source = source
        self._actor = actor
        self._patience_ms = patience_ms

    async def take_over(self, jobs: Sequence[Moving]) -> Moved:
        """Let Tickwheel fire jobs from the instant on at which XXL-JOB stops.

        Safe to repeat: what an earlier call left undone is finished.
        """
        moved = Moved()
        to_arm: dict[int, _ToArm] = {}
        waiting = list(jobs)
        started = await self._store.read(now_ms)
        try:
            while waiting:
                wait = await self._store.read(now_ms) - started <= self._patience_ms
                soon: list[Moving] = []
                for batch in _batches(waiting, TAKEN_AT_ONCE):
                    soon += await self._take(batch, moved, to_arm, wait=wait)
                    await self._arm_ready(to_arm, moved)
                waiting = soon
                if waiting:
                    await asyncio.sleep(1.0)
        finally:
            # Whatever became of the others, these are stopped there.
            while to_arm:
                ready_at = await self._arm_ready(to_arm, moved)
                if ready_at is not None:
                    await asyncio.sleep(ready_at / 1000)
            self._announce()
        return moved

    async def give_back(self, jobs: Sequence[Moving]) -> Moved:
        """Let XXL-JOB fire jobs from the instant on at which Tickwheel stops.

        Safe to repeat.

        Raises:
            ClocksDiffer: XXL-JOB would take fires for missed, or fire too late.
        """
        moved = Moved()
        try:
            for batch in _batches(jobs, RETURNED_AT_ONCE):
                await self._return(batch, moved)
        finally:
            self._announce()
        return moved

    # --- one batch -------------------------------------------------------------------------------

    async def _take(
        self, batch: Sequence[Moving], moved: Moved, to_arm: dict[int, _ToArm], *, wait: bool
    ) -> list[Moving]:
        """Stop jobs there; returns those that may be in a ring that XXL-JOB failed to write back.

        When XXL-JOB's transaction fails after it put a job into its ring, it fires the job from the
        ring, and the next pass puts it there again. Such a job is due within the look-ahead: one
        that is due later is in no ring. So we wait for that, as long as there is hope.
        """
        by_id = {each.their_id: each for each in batch}
        async with self._theirs.held() as held:
            found = await self._read(held, by_id)
            decisions = found.decide(moved, decide_take_over)
            due = found.their_now + LOOK_AHEAD_MS + MARGIN_MS
            tokens = iter(await self._ids.take_many(SEQUENCE, len(decisions)))
            wanted: dict[int, NewMove] = {}
            soon: list[Moving] = []
            for their_id, decision in decisions.items():
                move, ours = found.moves.get(their_id), found.ours[their_id]
                if decision.step is NextAction.ARM and move is not None:
                    to_arm[their_id] = _ToArm(move, _ready_at(move, ours))
                if decision.step is not NextAction.STOP_THEIRS or decision.at is None:
                    continue
                start = refusal_to_start(ours, decision.at, found.calendars, now=found.now)
                if isinstance(start, MoveRefusal):
                    moved.refused[their_id] = start
                elif wait and 0 < decision.at <= due:
                    soon.append(by_id[their_id])
                else:
                    stored, at = start
                    wanted[their_id] = NewMove(
                        job_id=ours.job_id,
                        trigger_id=stored.trigger.id,
                        at=at,
                        their_next_at=decision.at,
                        follows=None if move is None else move.record.token,
                        token=next(tokens),
                    )
            if wanted:
                # Our record is committed before theirs: whatever happens then, their row decides.
                kept = await self._in_time(self._store.run(prepare, self._source, wanted))
                moved.refused |= {each: why for each, why in kept.items() if why is not None}
                stopped = [each for each, why in kept.items() if why is None]
                if stopped:
                    await held.stop(stopped)
                    await held.commit()
                for each in stopped:
                    move = wanted[each].as_stored()
                    to_arm[each] = _ToArm(move, _ready_at(move, found.ours[each]))
        return soon

    async def _arm_ready(self, to_arm: dict[int, _ToArm], moved: Moved) -> int | None:
        """Let jobs fire here, each once no instant before its first one is left to come.

        What XXL-JOB's rings still hold lies before that instant. An edit of the job computes its
        next fire from the present on, and must not find one of those. Returns in how many ms the
        next one is ready.
        """
        now = await self._store.read(now_ms)
        ready = sorted(each for each, arm in to_arm.items() if arm.ready_at <= now)
        for some in _batches(ready, ARMED_AT_ONCE):
            tokens = await self._ids.take_many(SEQUENCE, len(some))
            audit_ids = await self._ids.take_many("audit", len(some))
            wanted = {
                each: ToArm(move=to_arm[each].move, token=token, audit_id=audit_id)
                for each, token, audit_id in zip(some, tokens, audit_ids, strict=True)
            }
            armed = await self._store.run(arm_jobs, self._source, wanted, actor=self._actor)
            for their_id, why in armed.items():
                if why is None:
                    moved.moved[their_id] = to_arm[their_id].move.record.next_at
                else:
                    moved.refused[their_id] = why
                del to_arm[their_id]
        return min((max(arm.ready_at - now, 1) for arm in to_arm.values()), default=None)

    async def _return(self, batch: Sequence[Moving], moved: Moved) -> None:
        by_id = {each.their_id: each for each in batch}
        async with self._theirs.held() as held:
            found = await self._read(held, by_id)
            if found.clocks_differ_ms > MAX_CLOCK_DIFFERENCE_MS:
                raise ClocksDiffer(
                    "the clocks of the two databases differ by"
                    f" {found.clocks_differ_ms / 1000:.1f} seconds, so XXL-JOB would start jobs"
                    " too late or take their fires for missed"
                )
            decisions = found.decide(moved, decide_give_back)
            settled: dict[int, int] = {}  # tokens, by XXL-JOB's id
            for each, decision in decisions.items():
                if decision.step is NextAction.SETTLE:
                    settled[each] = found.moves[each].record.token
                    moved.moved[each] = found.states[each].next_at
            paused = {each: d for each, d in decisions.items() if d.step is not NextAction.SETTLE}
            returned = await self._in_time(self._pause(paused, found, moved))
            start = {each: r.next_at for each, r in returned.items() if r.next_at is not None}
            if start:
                await held.start(start)
                if await self._store.read(now_ms) - found.now > HOLD_SECONDS * 1000:
                    # XXL-JOB would find them missed. Run again, they are planned here till then.
                    raise TimeoutError
                await held.commit()
        settled |= {each: returned[each].token for each in start}
        if settled:
            await self._store.run(settle, self._source, settled)
        moved.moved |= {each: r.next_at for each, r in returned.items()}

    async def _pause(
        self, decisions: Mapping[int, Decision], found: Situation, moved: Moved
    ) -> dict[int, Returned]:
        """Pause jobs here; those that cannot be given back are refused."""
        paused: dict[int, Returned] = {}
        for their_id, decision in decisions.items():
            wanted = ToReturn(
                move=found.moves[their_id],
                from_at=decision.at,
                their_next_at=found.states[their_id].next_at,
                token=await self._ids.take(SEQUENCE),
                audit_id=await self._ids.take("audit"),
            )
            work = partial(
                return_job, source=self._source, their_id=their_id, wanted=wanted, actor=self._actor
            )
            try:
                returned = await self._with_run_ids(work)
            except MoveRefusedError as refused:
                returned = refused.refusal
            if isinstance(returned, MoveRefusal):
                moved.refused[their_id] = returned
            else:
                paused[their_id] = returned
        return paused

    async def _with_run_ids(self, work: Callable[..., T]) -> T:
        """Do what learns on its way how many new runs it has to write."""
        return await self._ids.run_with_ids(
            "run", lambda run_ids: self._store.run(work, run_ids=run_ids)
        )

    # --- helpers ---------------------------------------------------------------------------------

    async def _read(self, held: HeldSchedule, by_id: Mapping[int, Moving]) -> Situation:
        """How the jobs stand on both sides; nothing changes there while the lock is held."""
        states = await held.jobs(by_id)
        before = await self._store.read(now_ms)
        their_now = await held.now()
        job_ids = {their_id: each.job_id for their_id, each in by_id.items()}
        return await self._store.read(
            read_situation, self._source, job_ids, states, their_now=their_now, before=before
        )

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Do something under XXL-JOB's lock; TimeoutError gives that back before it is missed.

        Our transaction may be committed nevertheless, later: its token makes that harmless.
        """
        async with asyncio.timeout(HOLD_SECONDS):
            return await work

    def _announce(self) -> None:
        for topic in (JOBS, TRIGGERS, RUNS, QUEUED):
            self._events.publish(topic)


@dataclass(frozen=True, slots=True)
class _ToArm:
    """A job that is stopped there."""

    move: StoredMove
    ready_at: int  # when it may be armed here


def _ready_at(move: StoredMove, ours: OurJob) -> int:
    """The last instant before the one from which on a job fires here; 0: there is none."""
    at = move.record.next_at
    for stored in ours.triggers:
        spec = stored.trigger.spec
        if stored.trigger.id != move.trigger_id or spec.calendar is not None:
            continue
        if spec.counts_from_save:
            after = parse(spec, saved_at=at).next_after(at)
            return 0 if after is None else at - (after - at)
        return parse(spec, saved_at=stored.saved_at).last_before(at) or 0
    return 0


def _batches(of: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(of), size):
        yield of[start : start + size]
