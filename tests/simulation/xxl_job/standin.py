"""A stand-in for an XXL-JOB admin: its scheduling loop and its ring, from which fires follow.

Written from a description of what they do (lock row, look-ahead of 5 s, ring of 60 slots of which
each second the present one and the two before are taken, commit whatever happens).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import sqlalchemy as sa

from tests.simulation.history import History
from tests.simulation.scheduler import Process, SimLoop
from tests.simulation.xxl_job.books import Books, Pass
from tests.simulation.xxl_job.their_server import (
    ConnectionLostError,
    Session,
    TheirFaults,
    TheirServer,
    close_after,
)

LOOK_AHEAD_MS = 5_000
_LOCK = "SELECT * FROM xxl_job_lock WHERE lock_name = 'schedule_lock' FOR UPDATE"
_DUE = (
    "SELECT id, trigger_next_time, misfire_strategy FROM xxl_job_info"
    " WHERE trigger_status = 1 AND trigger_next_time <= %(until)s ORDER BY id LIMIT 5000"
)
_WRITE_ONE = (
    "UPDATE xxl_job_info SET trigger_last_time = %(last)s, trigger_next_time = %(next)s,"
    " trigger_status = %(status)s WHERE id = %(id)s AND trigger_status = 1"
)


class StrayError(Exception):
    """Something in the middle of a pass fails, such as a conversion; the connection is well."""


NextTime = Callable[[int], int | None]  # of a job: the instant after one


@dataclass(slots=True)
class _Job:
    """A job of a pass."""

    id: int
    was: int  # its next time as it was read
    next: int
    by: Pass
    last: int = 0
    status: int = 1


class XxlAdmin:
    """One admin of XXL-JOB; killed and started again like a process."""

    def __init__(
        self,
        name: str,
        *,
        loop: SimLoop,
        server: TheirServer,
        books: Books,
        history: History,
        random: Random,
        faults: TheirFaults,
        next_times: Mapping[int, NextTime],
        now: Callable[[], int],
        writes_in_batches: bool,
    ) -> None:
        """`now` is the clock of its machine; batches are written since 3.4.0."""
        self.name = name
        self.process = Process(loop, name)
        self.process.kill()
        self._loop = loop
        self._server = server
        self._books = books
        self._history = history
        self._random = random
        self._faults = faults
        self._next_times = next_times
        self._now = now
        self._writes_in_batches = writes_in_batches
        self._starts = 0
        self._session: Session | None = None
        self._ring: defaultdict[int, list[tuple[int, int, Pass]]] = defaultdict(list)

    def start(self) -> None:
        if not self.process.is_dead:
            return
        self._starts += 1
        self._ring = defaultdict(list)  # it was in memory
        self.process = Process(self._loop, f"{self.name}.{self._starts}")
        self.process.on_fuse = self.kill
        self._history.note(self.process.name, "starts")
        self.process.spawn(self._schedule(self.process), name="schedule")
        self.process.spawn(self._turn(), name="ring")

    def kill(self) -> None:
        """As `kill -9`; its database may take a while to notice."""
        if self.process.is_dead:
            return
        self._history.note(self.process.name, "is killed")
        self._books.figures["admins of XXL-JOB killed"] += 1
        self.process.kill()
        if self._session is not None:
            seconds = self._random.choice((0.0, 0.0, 0.1, 1.5))
            close_after(self._loop, self._session, seconds)
            self._session = None

    # --- the scheduling thread -------------------------------------------------------------------

    async def _schedule(self, process: Process) -> None:
        await asyncio.sleep((5_000 - self._now() % 1_000) / 1000)
        while not self._history.closed:
            began = self._now()
            found = False
            try:
                found = await self._pass(process)
            except (ConnectionLostError, StrayError, sa.exc.DBAPIError) as error:
                self._history.note(process.name, f"pass failed: {error!r:.80}")
                self._books.figures["passes of XXL-JOB that failed"] += 1
                if self._session is not None and not isinstance(error, StrayError):
                    self._session.close()
                    self._session = None
            if self._now() - began < 1_000:
                whole = 1_000 if found else 5_000
                await asyncio.sleep((whole - self._now() % 1_000) / 1000)

    async def _pass(self, process: Process) -> bool:
        session = self._session
        if session is None:
            session = self._session = Session(
                self._server, self._loop, process, self._random, self._faults
            )
        jobs: list[_Job] = []
        written: list[_Job] = []
        try:
            await session.execute(_LOCK)
            now = self._now()
            for id_, next_time, misfire in await session.execute(
                _DUE, {"until": now + LOOK_AHEAD_MS}
            ):
                jobs.append(self._look_at(id_, next_time, misfire, now))
            if self._random.random() < self._faults.lost:
                raise StrayError("in the middle of a pass")
            await self._write_back(session, jobs, written)
        finally:

            def committed() -> None:
                for each in written:
                    each.by.committed = True
                    if each.status:
                        self._books.answer(each.id, each.was, each.next)

            if not process.is_dead:
                await session.commit(committed)
        return bool(jobs)

    def _look_at(self, id_: int, next_time: int, misfire: str, now: int) -> _Job:
        job = _Job(id=id_, was=next_time, next=next_time, by=Pass())
        if now > next_time + LOOK_AHEAD_MS:
            self._books.figures["misfires of XXL-JOB"] += 1
            if misfire == "FIRE_ONCE_NOW":
                self._fire(id_, next_time, job.by)
            self._refresh(job, now)
        elif now > next_time:
            self._fire(id_, next_time, job.by)
            self._refresh(job, now)
            if job.status and now + LOOK_AHEAD_MS > job.next:
                self._into_ring(job)
                self._refresh(job, job.next)
        else:
            self._into_ring(job)
            self._refresh(job, job.next)
        return job

    def _refresh(self, job: _Job, after: int) -> None:
        found = self._next_times[job.id](after)
        if found is None:
            self._books.stopped.add(job.id)
            job.status, job.last, job.next = 0, 0, 0
        else:
            job.last, job.next = job.next, found

    async def _write_back(self, session: Session, jobs: list[_Job], written: list[_Job]) -> None:
        if not self._writes_in_batches:
            for each in jobs:
                given = {"id": each.id, "last": each.last, "next": each.next, "status": each.status}
                (count,) = await session.execute(_WRITE_ONE, given)
                written += [each] * count
            return
        for start in range(0, len(jobs), 100):
            some = jobs[start : start + 100]
            lasts = " ".join(f"WHEN {each.id} THEN {each.last}" for each in some)
            nexts = " ".join(f"WHEN {each.id} THEN {each.next}" for each in some)
            states = " ".join(f"WHEN {each.id} THEN {each.status}" for each in some)
            ids = ", ".join(str(each.id) for each in some)
            before = await session.execute(
                f"SELECT id FROM xxl_job_info WHERE id IN ({ids}) AND trigger_status = 1"
            )
            running = {row.id for row in before}
            await session.execute(
                f"UPDATE xxl_job_info SET trigger_last_time = CASE id {lasts} END,"
                f" trigger_next_time = CASE id {nexts} END, trigger_status = CASE id {states} END"
                f" WHERE id IN ({ids}) AND trigger_status = 1"
            )
            written += [each for each in some if each.id in running]

    # --- the ring's thread -----------------------------------------------------------------------

    def _into_ring(self, job: _Job) -> None:
        self._ring[job.next // 1000 % 60].append((job.id, job.next, job.by))

    async def _turn(self) -> None:
        while not self._history.closed:
            await asyncio.sleep((1_000 - self._now() % 1_000) / 1000)
            second = self._now() // 1000
            for back in range(3):
                for job_id, at, by in self._ring.pop((second + 60 - back) % 60, ()):
                    self._fire(job_id, at, by)

    def _fire(self, job_id: int, at: int, by: Pass) -> None:
        self._books.fire(job_id, at, by)
        self._history.note(self.process.name, f"fires job {job_id} for {at}")
