"""Jobs of all kinds, and operators who run, cancel, edit, pause, retry and delete them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from sqlalchemy.exc import IntegrityError

from tests.simulation.admin_host import AdminHost
from tests.simulation.chaos import Weather
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.job_input import job_to_raw
from tickwheel_admin.domain.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.store.database import DatabaseUnavailable

OPERATOR = Actor(user_id=1, name="operator", grants={ALL_EXECUTORS: Role.ADMIN})

# Seconds of a slot that one run of the handler takes, roughly, its tries together.
_COST = {
    "quick": 0.1,
    "flaky": 0.5,
    "failing": 0.3,
    "slow": 3.0,
    "long": 15.0,
    "hanging": 4.0,
    "stubborn": 5.0,
    "chatty": 0.6,
}
ENDLESS = "endless"
_UTILISATION = 0.35  # of an executor's slots; what faults hold up must be made up for
_RATES = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)


def make_jobs(
    random: Random,
    *,
    executors: Sequence[str],
    slots: dict[str, int],
    now: int,
    load_seconds: int,
    weather: Weather,
) -> list[tuple[str, dict[str, Any]]]:
    """(executor, job as the API takes it) for a cluster; fires cost no more than it can bear."""
    jobs: list[tuple[str, dict[str, Any]]] = []
    # Seeds differ in how busy they are; all of them stay within what a laptop simulates quickly.
    fires_per_second = random.choice((0.3, 0.6) if weather.is_siege else (1.0, 2.0, 3.5))
    for executor in executors:
        budget = slots[executor] * _UTILISATION
        fires = fires_per_second / len(executors)
        for number in range(random.randint(3, 5)):
            handler = random.choice(tuple(_COST))
            job = _job(random, f"{executor}-{handler}-{number}", handler)
            job["triggers"], used = _triggers(
                random,
                budget=min(budget, fires * _COST[handler]),
                cost=_COST[handler],
                now=now,
                load_seconds=load_seconds,
                weather=weather,
            )
            budget -= used
            fires -= used / _COST[handler]
            jobs.append((executor, job))
        # Never ends by itself and has no timeout: only a cancel that arrives ends its runs.
        endless = _job(random, f"{executor}-{ENDLESS}", "hanging")
        jobs.append((executor, endless | {"timeout_seconds": None}))
    return jobs


def _job(random: Random, name: str, handler: str) -> dict[str, Any]:
    retries = random.choice((0, 0, 1, 2, 4))
    return {
        "name": name,
        "handler": handler,
        "routing": random.choice(("round_robin", "random", "least_busy", "failover")),
        "priority": random.choice((1, 5, 5, 9)),
        "timeout_seconds": random.choice((1, 2, 4))
        if handler == "hanging"
        else random.choice((None, None, 1, 10)),
        "retries": retries,
        "retry_delay_seconds": random.choice((0, 0.1, 1, 3)),
        "retry_backoff": random.choice(("fixed", "exponential")),
        "retry_max_delay_seconds": 8,
        "retry_on_lost": random.random() < 0.7,
        "triggers": [],
    }


def misfires_in(weather: Weather) -> tuple[str, ...]:
    """Policies that are fit for the weather: an hour of fast fires would be thousands of runs."""
    few = weather.clock_step_ms > 60_000
    return ("fire_once", "skip") if few else ("fire_once", "skip", "fire_all")


def _triggers(
    random: Random,
    *,
    budget: float,
    cost: float,
    now: int,
    load_seconds: int,
    weather: Weather,
) -> tuple[list[dict[str, Any]], float]:
    misfire = random.choice(misfires_in(weather))
    triggers: list[dict[str, Any]] = []
    used = 0.0
    rate = random.choice(_RATES)
    if cost / rate <= budget and random.random() < 0.85:
        trigger = {"kind": "fixed_rate", "every_seconds": rate, "misfire": misfire}
        if random.random() < 0.3:
            trigger["anchor_at"] = instant_to_iso(now + random.randrange(-5_000, 5_000))
        triggers.append(trigger)
        used += cost / rate
    if random.random() < 0.3:
        triggers.append({"kind": "cron", "expression": "* * * * *", "misfire": misfire})
    if random.random() < 0.3:
        at = now + random.randrange(3_000, load_seconds * 1000)
        triggers.append({"kind": "once", "at": instant_to_iso(at), "misfire": misfire})
    return triggers, used


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
    ) -> None:
        self._misfires = misfires_in(weather)
        self.requests: list[Request] = []
        self._admins = admins
        self._database = database
        self._random = random
        self._history = history
        self._actions: list[Callable[[AdminHost], Any]] = [self._run_now] * 4 + [self._cancel] * 3
        self._actions.append(self._run_endlessly)
        if not calm:
            self._actions += [self._retry, self._pause, self._resume, self._resume, self._edit]
            self._actions += [self._edit, self._delete] if random.random() < 0.3 else [self._edit]

    async def work(self) -> None:
        """Do something every now and then, until cancelled."""
        while True:
            await asyncio.sleep(self._random.uniform(0.2, 4))
            serving = [admin for admin in self._admins if admin.is_up]
            if serving:
                admin = self._random.choice(serving)
                action = self._random.choice(self._actions)
                admin.process.spawn(self._try(action, admin), name="operator")

    async def pause_all(self) -> None:
        """Stop every trigger; again until each pause was confirmed."""
        for row in self._database.rows("SELECT id FROM job WHERE deleted_at = 0 ORDER BY id"):
            while True:
                admin = next(admin for admin in self._admins if admin.is_up)
                if await self._try(
                    lambda admin, job=row.id: admin.jobs.pause(OPERATOR, job), admin
                ):
                    break
                await asyncio.sleep(0.5)

    async def cancel_endless(self) -> None:
        """Ask once for the end of every run that would never end by itself."""
        for row in self._database.rows(
            "SELECT run.id FROM run JOIN job ON job.id = run.job_id WHERE job.name LIKE ?"
            " AND run.state IN ('queued', 'dispatched', 'running')"
            " AND run.cancel_requested_at IS NULL ORDER BY run.id",
            (f"%-{ENDLESS}",),
        ):
            admin = next(admin for admin in self._admins if admin.is_up)
            await self._try(lambda admin, run=row.id: admin.runs.cancel(OPERATOR, run), admin)

    async def _try(self, action: Callable[[AdminHost], Any], admin: AdminHost) -> bool:
        try:
            await action(admin)
        except (UserError, DatabaseUnavailable) as error:
            self._history.note(admin.name, f"tells an operator: {error}")
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
            other.process.spawn(self._try(lambda a: self._ask(a, request), other), name="operator")
        await self._ask(admin, request)

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
            if self._random.random() < 0.3:
                trigger["misfire"] = self._random.choice(self._misfires)
        self._history.note("operator", f"edits job {job_id}")
        await admin.jobs.update(OPERATOR, job_id, raw, revision=detail.item.job.revision)

    async def _delete(self, admin: AdminHost) -> None:
        job_id = self._some_job()
        if job_id is not None:
            self._history.note("operator", f"deletes job {job_id}")
            await admin.jobs.delete(OPERATOR, job_id)

    def _some_job(self) -> int | None:
        rows = self._database.rows(
            "SELECT id FROM job WHERE deleted_at = 0 AND name NOT LIKE ? ORDER BY id",
            (f"%-{ENDLESS}",),
        )
        return self._random.choice(rows).id if rows else None
