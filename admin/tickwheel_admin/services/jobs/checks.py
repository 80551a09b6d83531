"""Everything that is wrong with a job that is to be saved, told at once.

The rules of its fields are in `domain.job_input`; here is what only the database knows. A check is
left out where a field that it goes by was refused already: it would tell what follows from that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import secret_names
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.calendars.of_triggers import look_at_calendars
from tickwheel_admin.services.handlers.known import check_handler
from tickwheel_admin.services.handlers.scripts import check_script
from tickwheel_admin.services.jobs.alarm_rules import look_at_alarms
from tickwheel_admin.services.jobs.children import check_children
from tickwheel_admin.services.pools.of_jobs import look_at_pools
from tickwheel_admin.services.runs.parameters import check_job_parameters
from tickwheel_admin.services.runs.secret_references import check_secret_references
from tickwheel_admin.services.workflows.checks import check_workflow
from tickwheel_admin.store.jobs import jobs
from tickwheel_admin.store.jobs.jobs import current_configs

NAME_TAKEN = "job.name_taken"
T = TypeVar("T")


class ProblemCollector:
    """Problems that checks raised, instead of the first of them only."""

    def __init__(self, problems: Sequence[Problem] = ()) -> None:
        self.problems = list(problems)
        self._conflict: Conflict | None = None

    def ask(self, check: Callable[..., T], *args: Any, **named: Any) -> T | None:
        """What a check answers; None when it refused."""
        try:
            return check(*args, **named)
        except InvalidInput as error:
            self.problems += error.problems
        except Conflict as error:
            self._conflict = error
            params, template = error.params, error.template
            self.problems.append(
                Problem(field="name", code=error.code, template=template, params=params)
            )
        return None

    def raise_if_any(self) -> None:
        """Raise them all; a conflict as such while it stands alone."""
        if self._conflict is not None and len(self.problems) == 1:
            raise self._conflict
        if self.problems:
            raise InvalidInput(self.problems)


def check_name(
    conn: sa.Connection, executor_id: int, name: str, *, by_other_than: int | None = None
) -> None:
    """Raises Conflict job.name_taken."""
    # The unique key decides: the loser of a race repeats its transaction and ends here.
    if jobs.job_name_is_taken(conn, executor_id, name, by_other_than=by_other_than):
        raise name_taken(name)


def name_taken(name: str) -> Conflict:
    """Another job of the executor has the name."""
    return Conflict(NAME_TAKEN, "This executor already has a job named “%(name)s”.", name=name)


def further_problems(
    conn: sa.Connection,
    actor: Actor,
    executor_id: int,
    config: JobConfig,
    *,
    job_id: int,
    refused: Collection[Problem],
) -> list[Problem]:
    """What else is wrong with a job of which some fields were refused already.

    Args:
        config: with the defaults of the fields that were refused.
        job_id: its own; 0 for a new job.
    """
    bad = {_root(problem.field) for problem in refused}
    found = ProblemCollector()
    if "name" not in bad:
        found.ask(check_name, conn, executor_id, config.name, by_other_than=job_id)
    if not bad & {"script", "handler"} and config.script is not None:
        was = jobs.current_configs(conn, [job_id]).get(job_id) if job_id else None
        found.ask(check_script, conn, actor, executor_id, config, before=was)
    if "workflow" not in bad:
        stored = current_configs(conn, [job_id]).get(job_id) if job_id else None
        found.ask(
            check_workflow,
            conn,
            actor,
            config,
            job_id=job_id,
            executor_id=executor_id,
            before=stored,
        )
    if not bad & {"handler", "workflow"} and config.workflow is None:
        found.ask(check_handler, conn, executor_id, config.handler)
    if not bad & {"handler", "parameters", "triggers"}:
        found.ask(check_job_parameters, conn, executor_id, config)
    if not bad & {"parameters", "triggers"}:
        stored = current_configs(conn, [job_id]).get(job_id) if job_id else None
        kept = () if stored is None else secret_names(stored)
        found.ask(check_secret_references, conn, executor_id, config, kept=kept)
    if "children" not in bad:
        links = config.children
        found.ask(check_children, conn, actor, job_id=job_id, name=config.name, links=links)
    if "alarms" not in bad:
        stored = current_configs(conn, [job_id]).get(job_id) if job_id else None
        before = () if stored is None else stored.alarms
        found.ask(look_at_alarms, conn, job_id, before, config.alarms)
    if "triggers" not in bad:
        found.ask(look_at_calendars, conn, config)
    # Steps may name executors that the caller may not see: then their pools are not told.
    is_refused = any(each.field.startswith("workflow") for each in found.problems)
    if not is_refused and not bad & {"pool", "pool_slots", "workflow"}:
        found.ask(look_at_pools, conn, executor_id, config)
    return found.problems


def merged(*lists: Sequence[Problem]) -> list[Problem]:
    """All of them, of each field those of the first list that has any."""
    told: list[Problem] = []
    for problems in lists:
        known = {problem.field for problem in told}
        told += [problem for problem in problems if problem.field not in known]
    return told


def _root(field: str) -> str:
    return re.split(r"[.\[]", field, maxsplit=1)[0]
