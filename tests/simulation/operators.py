"""People at the consoles of all admins: they run, cancel, edit, pause, retry, drain and delete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from sqlalchemy.exc import IntegrityError

from tests.simulation.admin_host import AdminHost
from tests.simulation.database import SimDatabase
from tests.simulation.faults.chaos import Weather
from tests.simulation.history import History
from tests.simulation.scheduler import Process
from tests.simulation.schedules import calendar_in_use
from tests.simulation.store import done_unknown
from tests.simulation.workload import ENDLESS, misfires_in
from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.store.database.database import DatabaseUnavailable

OPERATOR = Actor(user_id=1, name="operator", grants={ALL_EXECUTORS: Role.ADMIN})


@dataclass(slots=True)
class Request:
    """A run that an operator asked for."""

    job_id: int
    key: str
    answers: list[int]  # ids of the run, one for each time the request was answered


class Operators:
    """People in front of the consoles of all admins."""

    def __init__(
        self,
        admins: Sequence[AdminHost],
        database: SimDatabase,
        random: Random,
        history: History,
        *,
        calm: bool,
        weather: Weather,
        zone: str,
        workflows: bool = False,
    ) -> None:
        self._zone = zone
        self._misfires = misfires_in(weather)
        self.requests: list[Request] = []
        self._admins = admins
        self._database = database
        self._random = random
        self._history = history
        self._under_way: list[tuple[Process, asyncio.Task[Any]]] = []
        self._actions: list[Callable[[AdminHost], Any]] = [self._run_now] * 4 + [self._cancel] * 3
        self._actions.append(self._run_endlessly)
        if workflows:
            self._actions += [self._run_workflow] * 40 + [self._cancel_workflow] * 4
        if not calm:
            # Not every cluster has people who pause and drain.
            if random.random() < 0.4:
                self._actions += [self._pause_executor, self._resume_executor]
                self._actions += [self._pause_all, self._resume_all, self._resume_all]
            if random.random() < 0.4:
                self._actions += [self._cordon, self._drain, self._resume_node, self._resume_node]
                self._actions += [self._set_slots]
            self._actions += [self._pause_trigger, self._resume_trigger, self._resume_trigger]
            self._actions += [self._retry_all, self._release]
            self._actions += [self._change_calendar]
            self._actions += [self._retry, self._pause, self._resume, self._resume, self._edit]
            self._actions += [self._edit, self._delete] if random.random() < 0.3 else [self._edit]
            self._actions += [self._write_state] if random.random() < 0.3 else []

    async def work(self) -> None:
        """Do something every now and then, until cancelled."""
        while True:
            await asyncio.sleep(self._random.uniform(0.2, 4))
            serving = [admin for admin in self._admins if admin.is_up]
            if serving:
                admin = self._random.choice(serving)
                action = self._random.choice(self._actions)
                self.spawn(action, admin)

    def spawn(self, action: Callable[[AdminHost], Any], admin: AdminHost) -> None:
        """Let somebody at this admin do it; what they are told is noted."""
        process = admin.process
        task = process.spawn(self._try(action, admin), name="operator")
        self._under_way = [each for each in self._under_way if not each[1].done()]
        self._under_way.append((process, task))

    async def pause_all(self) -> None:
        """Stop every trigger; again until each pause was confirmed."""
        for row in self._database.rows("SELECT id FROM job WHERE deleted_at = 0 ORDER BY id"):
            await self._until_confirmed(lambda admin, job=row.id: admin.jobs.pause(OPERATOR, job))

    async def restore(self) -> None:
        """Take back what would keep runs from ending: again until it was confirmed."""
        # First what is under way, for it may drain a node in the end. It is looked at again and
        # again because the tasks of a dead process never end.
        while any(not (t.done() or p.is_dead) for p, t in self._under_way):  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        await self._until_confirmed(lambda admin: admin.system.resume_all(OPERATOR))
        for row in self._database.rows("SELECT id FROM executor ORDER BY id"):
            await self._until_confirmed(
                lambda admin, of=row.id: admin.executors.resume(OPERATOR, of)
            )
        await self.resume_nodes()

    async def resume_nodes(self) -> None:
        """Let every live node work; one that comes back from the dead is still drained."""
        for row in self._database.rows(
            "SELECT id FROM node WHERE state = 'live' AND cordoned ORDER BY id"
        ):
            # A node that ends meanwhile needs none of this.
            await self._try(lambda admin, of=row.id: admin.nodes.resume(OPERATOR, of), self._any())

    async def attempt(self, action: Callable[[AdminHost], Any]) -> bool:
        """Do it at some admin; returns whether it was confirmed."""
        return await self._try(action, self._any())

    async def _until_confirmed(self, action: Callable[[AdminHost], Any]) -> None:
        while True:
            if await self._try(action, self._any()):
                return
            await asyncio.sleep(0.5)

    def _any(self) -> AdminHost:
        return next(admin for admin in self._admins if admin.is_up)

    async def cancel_endless(self) -> None:
        """Ask once for the end of every run that would never end by itself."""
        for row in self._database.rows(
            "SELECT run.id FROM run JOIN job ON job.id = run.job_id WHERE job.name LIKE ?"
            " AND run.state IN ('queued', 'dispatched', 'running')"
            " AND run.cancel_requested_at IS NULL ORDER BY run.id",
            (f"%-{ENDLESS}",),
        ):
            await self._try(lambda admin, run=row.id: admin.runs.cancel(OPERATOR, run), self._any())

    async def _try(self, action: Callable[[AdminHost], Any], admin: AdminHost) -> bool:
        done_unknown.set(False)
        try:
            await action(admin)
        except (UserError, DatabaseUnavailable) as error:
            self._history.note(admin.name, f"tells an operator: {error}")
            if done_unknown.get() and isinstance(error, UserError):
                self._history.violation(f"an operator was told “{error}” of what had been done")
            return False
        except IntegrityError as error:
            self._history.note(admin.name, f"tells an operator: {error.orig}")
            self._history.violation(f"an operator was told an internal error: {error.orig}")
            return False
        return True

    async def _run_now(self, admin: AdminHost) -> None:
        job_id = self._some_job()
        if job_id is None:
            return
        request = Request(job_id, f"key-{len(self.requests)}", [])
        self.requests.append(request)
        clicks = self._random.choice((1, 1, 1, 2))
        for _ in range(clicks - 1):  # a double click, perhaps through the other admin
            other = self._random.choice([other for other in self._admins if other.is_up] or [admin])
            self.spawn(lambda a: self._ask(a, request), other)
        await self._ask(admin, request)

    async def _run_workflow(self, admin: AdminHost) -> None:
        job_id = self._some(
            "SELECT id FROM job WHERE handler = 'workflow' AND deleted_at = 0 ORDER BY id"
        )
        for _ in range(0 if job_id is None else self._random.randint(1, 4)):
            request = Request(job_id or 0, f"key-{len(self.requests)}", [])
            self.requests.append(request)
            await self._ask(admin, request)

    async def _cancel_workflow(self, admin: AdminHost) -> None:
        run_id = self._some(
            "SELECT id FROM run WHERE shard_index = -2 AND state = 'running' ORDER BY id"
        )
        if run_id is not None:
            self._history.note("operator", f"cancels the workflow run {run_id}")
            await admin.runs.cancel(OPERATOR, run_id)

    async def _ask(self, admin: AdminHost, request: Request) -> None:
        run_id = await admin.jobs.run_now(OPERATOR, request.job_id, request_key=request.key)
        request.answers.append(run_id)
        self._history.note("operator", f"asked for run {run_id} ({request.key})")

    async def _run_endlessly(self, admin: AdminHost) -> None:
        rows = self._database.rows(
            "SELECT id FROM job WHERE name LIKE ? AND deleted_at = 0 ORDER BY id", (f"%-{ENDLESS}",)
        )
        if not rows:
            return
        run_id = await admin.jobs.run_now(OPERATOR, self._random.choice(rows).id)
        done_unknown.set(False)  # that was answered; the cancel is another request
        await asyncio.sleep(self._random.uniform(0.0, 8))
        self._history.note("operator", f"cancels run {run_id}, which is endless")
        await admin.runs.cancel(OPERATOR, run_id)

    async def _cancel(self, admin: AdminHost) -> None:
        rows = self._database.rows(
            "SELECT id FROM run WHERE state IN ('queued', 'dispatched', 'running') ORDER BY id"
        )
        if rows:
            run_id = self._random.choice(rows).id
            self._history.note("operator", f"cancels run {run_id}")
            await admin.runs.cancel(OPERATOR, run_id)

    async def _retry(self, admin: AdminHost) -> None:
        rows = self._database.rows(
            "SELECT id FROM run WHERE state IN ('failed', 'lost', 'timed_out') ORDER BY id"
        )
        if rows:
            await admin.runs.retry(OPERATOR, self._random.choice(rows).id)

    async def _retry_all(self, admin: AdminHost) -> None:
        """What a selection in the console does."""
        rows = self._database.rows(
            "SELECT id FROM run WHERE state IN ('failed', 'lost', 'timed_out') ORDER BY id"
        )
        chosen = [row.id for row in rows[-3:]]
        if chosen:
            key = f"many-{self._random.randrange(10**9)}"
            only = self._random.random() < 0.3
            await admin.runs.retry_many(OPERATOR, chosen, request_key=key, failed_shards_only=only)

    async def _write_state(self, admin: AdminHost) -> None:
        """Set what a job keeps, or clear it."""
        rows = self._database.rows("SELECT job_id FROM job_state ORDER BY job_id")
        if not rows:
            return
        job_id = self._random.choice(rows).job_id
        if self._random.random() < 0.3:
            await admin.job_states.clear(OPERATOR, job_id)
        else:
            counted = {"n": self._random.randrange(100, 1_000), "by": "operator"}
            await admin.job_states.set(OPERATOR, job_id, json.dumps(counted))

    async def _release(self, admin: AdminHost) -> None:
        rows = self._database.rows(
            "SELECT id FROM run WHERE state IN ('dispatched', 'running')"
            " AND reason = 'cancel_unconfirmed' ORDER BY id"
        )
        if rows:
            run_id = self._random.choice(rows).id
            self._history.note("operator", f"releases run {run_id}")
            await admin.runs.release(OPERATOR, run_id)

    async def _pause_executor(self, admin: AdminHost) -> None:
        executor_id = self._some("SELECT id FROM executor ORDER BY id")
        self._history.note("operator", f"pauses executor {executor_id}")
        await admin.executors.pause(OPERATOR, executor_id)

    async def _resume_executor(self, admin: AdminHost) -> None:
        executor_id = self._some("SELECT id FROM executor ORDER BY id")
        self._history.note("operator", f"resumes executor {executor_id}")
        await admin.executors.resume(OPERATOR, executor_id)

    async def _pause_all(self, admin: AdminHost) -> None:
        self._history.note("operator", "pauses everything")
        await admin.system.pause_all(OPERATOR)

    async def _resume_all(self, admin: AdminHost) -> None:
        self._history.note("operator", "resumes everything")
        await admin.system.resume_all(OPERATOR)

    async def _pause_trigger(self, admin: AdminHost) -> None:
        found = self._some_trigger(paused=False)
        if found is not None:
            self._history.note("operator", f"pauses trigger {found.id}")
            await admin.jobs.pause_trigger(OPERATOR, found.job_id, found.id)

    async def _resume_trigger(self, admin: AdminHost) -> None:
        found = self._some_trigger(paused=True)
        if found is not None:
            self._history.note("operator", f"resumes trigger {found.id}")
            await admin.jobs.resume_trigger(OPERATOR, found.job_id, found.id)

    async def _cordon(self, admin: AdminHost) -> None:
        await self._of_node(admin, "cordons", lambda nodes, of: nodes.cordon(OPERATOR, of))

    async def _drain(self, admin: AdminHost) -> None:
        await self._of_node(admin, "drains", lambda nodes, of: nodes.drain(OPERATOR, of))

    async def _resume_node(self, admin: AdminHost) -> None:
        await self._of_node(admin, "resumes", lambda nodes, of: nodes.resume(OPERATOR, of))

    async def _set_slots(self, admin: AdminHost) -> None:
        slots = self._random.choice((None, 1, 2, 4))
        await self._of_node(
            admin, f"gives {slots} slots to", lambda nodes, of: nodes.set_slots(OPERATOR, of, slots)
        )

    async def _of_node(
        self, admin: AdminHost, verb: str, action: Callable[[Any, int], Any]
    ) -> None:
        node_id = self._some("SELECT id FROM node WHERE state = 'live' ORDER BY id")
        if node_id is not None:
            self._history.note("operator", f"{verb} node {node_id}")
            await action(admin.nodes, node_id)

    async def _pause(self, admin: AdminHost) -> None:
        job_id = self._some_job()
        if job_id is not None:
            self._history.note("operator", f"pauses job {job_id}")
            await admin.jobs.pause(OPERATOR, job_id)

    async def _resume(self, admin: AdminHost) -> None:
        rows = self._database.rows(
            "SELECT id FROM job WHERE deleted_at = 0 AND paused = 1 ORDER BY id"
        )
        if rows:
            job_id = self._random.choice(rows).id
            self._history.note("operator", f"resumes job {job_id}")
            await admin.jobs.resume(OPERATOR, job_id)

    async def _edit(self, admin: AdminHost) -> None:
        job_id = self._some_job()
        if job_id is None:
            return
        detail = await admin.jobs.get(OPERATOR, job_id)
        raw = job_to_raw(detail.item.job.config)
        raw["description"] = f"edited {self._random.random()}"
        for trigger in raw["triggers"]:
            if trigger["kind"] == "fixed_rate" and self._random.random() < 0.6:
                trigger["every_seconds"] = max(trigger["every_seconds"], 1) + self._random.choice(
                    (0, 0.25, 1)
                )
            if trigger["kind"] != "fixed_delay" and self._random.random() < 0.3:
                self._change_misfire(trigger)
        self._history.note("operator", f"edits job {job_id}")
        await admin.jobs.update(OPERATOR, job_id, raw, revision=detail.item.job.revision)

    def _change_misfire(self, trigger: dict[str, Any]) -> None:
        trigger["misfire"] = self._random.choice(self._misfires)
        trigger["catch_up_limit"] = 3 if trigger["misfire"] == "fire_all" else None

    async def _change_calendar(self, admin: AdminHost) -> None:
        [row] = self._database.rows("SELECT id, version FROM calendar")
        raw = calendar_in_use(self._random, now=self._database.now(), zone=self._zone)
        self._history.note("operator", f"changes the calendar: {raw}")
        await admin.calendars.update(OPERATOR, row.id, raw, version=row.version)

    async def _delete(self, admin: AdminHost) -> None:
        job_id = self._some_job()
        if job_id is not None:
            self._history.note("operator", f"deletes job {job_id}")
            await admin.jobs.delete(OPERATOR, job_id)

    def _some(self, sql: str) -> int | None:
        rows = self._database.rows(sql)
        return self._random.choice(rows).id if rows else None

    def _some_trigger(self, *, paused: bool) -> Any:
        rows = self._database.rows(
            'SELECT t.id, t.job_id FROM "trigger" t JOIN job ON job.id = t.job_id'
            " WHERE job.deleted_at = 0 AND t.paused = ? ORDER BY t.id",
            (int(paused),),
        )
        return self._random.choice(rows) if rows else None

    def _some_job(self) -> int | None:
        rows = self._database.rows(
            "SELECT id FROM job WHERE deleted_at = 0 AND name NOT LIKE ? ORDER BY id",
            (f"%-{ENDLESS}",),
        )
        return self._random.choice(rows).id if rows else None
