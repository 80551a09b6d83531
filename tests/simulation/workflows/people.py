"""People of the simulated cluster who answer steps, and who edit workflows while they run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.admin_host import AdminHost
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.operators import OPERATOR, Operators
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.workflows.retries import StepsAgain
from tickwheel_admin.services.runs.edits import RetryRevision
from tickwheel_admin.services.runs.workflow_retries import choice_of

_WAITING = (
    "SELECT s.workflow_run_id, s.step_index, s.due_at, v.config FROM workflow_step s"
    " JOIN run r ON r.id = s.workflow_run_id"
    " JOIN job_revision v ON v.job_id = r.job_id AND v.revision = r.job_revision"
    " WHERE s.state = 'ready' AND s.reason IN ('approval', 'breakpoint') AND r.state = 'running'"
    " ORDER BY s.workflow_run_id, s.step_index"
)

# A step without a row waits.
_LIVE = (
    "SELECT r.id AS workflow_run_id, g.key AS step_index, coalesce(s.state, 'waiting') AS state,"
    " v.config FROM run r"
    " JOIN job_revision v ON v.job_id = r.job_id AND v.revision = r.job_revision"
    " JOIN json_each(v.config, '$.workflow.steps') g"
    " LEFT JOIN workflow_step s ON s.workflow_run_id = r.id AND s.step_index = g.key"
    " WHERE r.shard_index = -2 AND r.state = 'running'"
    " AND coalesce(s.state, 'waiting') IN ('waiting', 'failed')"
    " ORDER BY r.id, g.key"
)
_ENDED = (
    "SELECT r.id, v.config FROM run r JOIN job j ON j.id = r.job_id"
    " JOIN job_revision v ON v.job_id = r.job_id AND v.revision = r.job_revision"
    " WHERE r.shard_index = -2 AND r.origin <> 'step' AND j.deleted_at = 0"
    " AND r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out') ORDER BY r.id"
)

_RUNS = ("handler", "job", "workflow")


@dataclass(slots=True)
class Answer:
    """What somebody said to a step that waited."""

    run_id: int
    key: str
    approved: bool
    is_confirmed: bool = False  # somebody was told that it counts


@dataclass(frozen=True, slots=True)
class Again:
    """How somebody wanted a run to be retried."""

    key: str  # of the request
    again: StepsAgain
    step: str | None
    skip: tuple[str, ...]


class WorkflowPeople:
    """People whom steps of workflows wait for."""

    def __init__(
        self,
        admins: Sequence[AdminHost],
        operators: Operators,
        database: SimDatabase,
        random: Random,
        history: History,
    ) -> None:
        self._admins = admins
        self._operators = operators
        self._database = database
        self._random = random
        self._history = history
        self.answers: list[Answer] = []
        self.retries: list[Again] = []
        self.skips: set[tuple[int, str]] = set()  # run and step that somebody wanted to skip
        self.skipped: set[tuple[int, str]] = set()  # those of them that were confirmed

    async def work(self) -> None:
        """Do something every now and then, until cancelled."""
        while True:
            await asyncio.sleep(self._random.uniform(0.2, 2))
            serving = self._serving()
            number = self._random.random()
            if number < 0.65:
                self._answer_some(self._waiting(), twice=self._random.random() < 0.4)
            elif not serving:
                continue
            elif number < 0.75:
                self._operators.spawn(self._intervene, self._random.choice(serving))
            elif number < 0.9:
                self._retry_some(serving)
            else:
                self._operators.spawn(self._edit, self._random.choice(serving))

    def answer_what_waits(self) -> None:
        """Answer what waits for ever; what has a deadline goes on by itself."""
        waiting = [row for row in self._waiting() if row.due_at is None]
        self._answer_some(waiting, twice=self._random.random() < 0.3)

    def _serving(self) -> list[AdminHost]:
        return [admin for admin in self._admins if admin.is_up]

    def _waiting(self) -> list[Any]:
        return self._database.rows(_WAITING)

    def _answer_some(self, waiting: Sequence[Any], *, twice: bool) -> None:
        """Answer one of them; several people may do so at once, each at an admin of their own."""
        if not waiting:
            return
        row = self._random.choice(waiting)
        key = json.loads(row.config)["workflow"]["steps"][row.step_index]["key"]
        for admin in self._random.sample(self._admins, min(len(self._admins), 2 if twice else 1)):
            if admin.is_up:
                approved = self._random.random() < 0.7
                answer = Answer(row.workflow_run_id, key, approved)
                self.answers.append(answer)
                self._operators.spawn(lambda at, of=answer: self._say(at, of), admin)

    async def _say(self, admin: AdminHost, answer: Answer) -> None:
        told = f"step {answer.key} of run {answer.run_id}"
        self._history.note("operator", f"answers {told}: {answer.approved}")
        await admin.answers.answer(OPERATOR, answer.run_id, answer.key, approved=answer.approved)
        answer.is_confirmed = True

    async def _intervene(self, admin: AdminHost) -> None:
        """Skip a step that has failed or not begun, or pause before one that is to run."""
        rows = self._database.rows(_LIVE)
        if not rows:
            return
        row = self._random.choice(rows)
        step = json.loads(row.config)["workflow"]["steps"][row.step_index]
        place = row.workflow_run_id, step["key"]
        told = f"step {place[1]} of run {place[0]}"
        if row.state == "waiting" and step["body"]["kind"] in _RUNS and self._random.random() < 0.6:
            self._history.note("operator", f"pauses before {told}")
            await admin.interventions.pause(OPERATOR, *place, paused=True)
            return
        self._history.note("operator", f"skips {told}")
        self.skips.add(place)
        await admin.interventions.skip(OPERATOR, *place, reason="as told")
        self.skipped.add(place)

    def _retry_some(self, serving: Sequence[AdminHost]) -> None:
        """Retry a run; sometimes two people do so at once, or one clicks twice."""
        rows = self._database.rows(_ENDED)
        if not rows:
            return
        row = self._random.choice(rows[-5:])
        steps = [step["key"] for step in json.loads(row.config)["workflow"]["steps"]]
        for _ in range(self._random.choice((1, 1, 2))):
            again = self._random.choice((*StepsAgain, StepsAgain.FAILED, StepsAgain.FAILED))
            step = self._random.choice(steps)
            named = again in (StepsAgain.FROM, StepsAgain.ONLY)
            passed = self._random.random() < 0.3 and again in (StepsAgain.FROM, StepsAgain.FAILED)
            wish = Again(
                key=f"again-{len(self.retries)}",
                again=again,
                step=step if named else None,
                skip=(step,) if passed else (),
            )
            self.retries.append(wish)
            for _ in range(self._random.choice((1, 1, 2))):
                admin = self._random.choice(serving)
                self._operators.spawn(lambda at, of=wish: self._retry(at, row.id, of), admin)

    async def _retry(self, admin: AdminHost, run_id: int, wish: Again) -> None:
        self._history.note("operator", f"retries the workflow run {run_id}: {wish}")
        choice = choice_of(
            again=wish.again, step=wish.step, skip=wish.skip, reason="as told" if wish.skip else ""
        )
        current = self._random.random() < 0.2
        made = await admin.runs.retry(
            OPERATOR,
            run_id,
            request_key=wish.key,
            revision=RetryRevision.CURRENT if current else None,
            steps=choice,
        )
        self._history.note("operator", f"was given run {made} for {wish.key}")

    async def _edit(self, admin: AdminHost) -> None:
        """Change a step of a workflow, or leave the last one out."""
        rows = self._database.rows(
            "SELECT id FROM job WHERE handler = 'workflow' AND deleted_at = 0 ORDER BY id"
        )
        if not rows:
            return
        job_id = self._random.choice(rows).id
        detail = await admin.jobs.get(OPERATOR, job_id)
        raw = job_to_raw(detail.item.job.config)
        steps = raw["workflow"]["steps"]
        chosen = self._random.choice(steps)
        if "handler" in chosen and self._random.random() < 0.7:
            chosen["handler"] = self._random.choice(("quick", "flaky", "slow"))
        elif len(steps) > 1 and steps[-1]["key"] != raw["workflow"].get("output"):
            steps.pop()
        self._history.note("operator", f"edits the workflow {job_id}")
        await admin.jobs.update(OPERATOR, job_id, raw, revision=detail.item.job.revision)
