"""Steps that wait for somebody's answer, as alarms and pages ask for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.workflows.answering import Question, question_of
from tickwheel_admin.domain.workflows.graph import Step
from tickwheel_admin.domain.workflows.states import StepState, StepStatus
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.tables import run, workflow_step
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_admin.store.workflows.steps import COLUMNS

_RUNS_AT_ONCE = 100  # each has up to 1,000 steps
_CONFIGS_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A step that waits for an answer now."""

    status: StepStatus
    step: Step


def still_asked(conn: sa.Connection, questions: Iterable[Question]) -> dict[Question, StepStatus]:
    """Those of the questions that nobody has answered, of runs that go on."""
    wanted = set(questions)
    found: dict[Question, StepStatus] = {}
    ids = sorted({each.run_id for each in wanted})
    for first in range(0, len(ids), _RUNS_AT_ONCE):
        rows = conn.execute(
            sa.select(*(workflow_step.c[name] for name in COLUMNS))
            .join(run, run.c.id == workflow_step.c.workflow_run_id)
            .where(
                workflow_step.c.workflow_run_id.in_(ids[first : first + _RUNS_AT_ONCE]),
                workflow_step.c.state == StepState.READY.value,
                unindexed(run.c.state) == RunState.RUNNING.value,
            )
        )
        for row in rows:
            status = msgspec.convert(tuple(row), StepStatus)
            asked = question_of(status)
            if asked is not None and asked in wanted:
                found[asked] = status
    return found


def open_questions(
    conn: sa.Connection, questions: Iterable[Question]
) -> dict[Question, OpenQuestion]:
    """The same with what the graphs of their runs say of the steps."""
    asked = still_asked(conn, questions)
    if not asked:
        return {}
    ids = sorted({each.run_id for each in asked})
    revisions = {
        row.id: (row.job_id, row.job_revision)
        for row in conn.execute(
            sa.select(run.c.id, run.c.job_id, run.c.job_revision).where(run.c.id.in_(ids))
        )
    }
    keys = sorted(set(revisions.values()))
    found: dict[Question, OpenQuestion] = {}
    for first in range(0, len(keys), _CONFIGS_AT_ONCE):
        configs = read_configs(conn, keys[first : first + _CONFIGS_AT_ONCE])
        for each, status in asked.items():
            config = configs.get(revisions.get(each.run_id, (0, 0)))
            if config is not None and config.workflow is not None:
                step = config.workflow.steps[each.step_index]
                found[each] = OpenQuestion(status=status, step=step)
    return found


def beginnings_of_results(
    conn: sa.Connection, run_ids: Collection[int], *, chars: int
) -> dict[int, str]:
    """By run, so much of its result; those without one are left out."""
    if not run_ids:
        return {}
    rows = conn.execute(
        sa.select(run.c.id, sa.func.substr(run.c.result, 1, chars).label("result")).where(
            run.c.id.in_(sorted(run_ids)), run.c.result.is_not(None)
        )
    )
    return {row.id: row.result for row in rows}
