"""Whether parameters are what the handler takes, as far as its nodes have said."""

from __future__ import annotations

import json

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.parameter_problems import inner
from tickwheel_admin.domain.input.parameter_schema import Work, check_parameters, parameter_problems
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.planning.fires import merged_parameters
from tickwheel_admin.services.handlers.schemas import schema_of


def check_job_parameters(conn: sa.Connection, executor_id: int, config: JobConfig) -> None:
    """Refuse a job whose fires would be refused.

    Each trigger's parameters are looked at as its runs are given them, laid over the job's. A job
    without triggers may leave to those who run it what it does not say itself.

    Raises:
        InvalidInput: on "parameters.…" or "triggers[0].parameters.…".
    """
    check_against_schema(schema_of(conn, executor_id, config.handler), config)


def check_against_schema(schema: str | None, config: JobConfig) -> None:
    """The same, against a schema that was read already; None: it takes anything."""
    if schema is None:
        return
    if not config.triggers:
        check_parameters(schema, config.parameters, partial=True)
    problems: dict[str, Problem] = {}
    work = Work()  # for all: the database waits for the end of this
    for index, spec in enumerate(config.triggers):
        own = {} if spec.parameters is None else json.loads(spec.parameters)
        given = merged_parameters(config.parameters, spec.parameters or "{}")
        for problem in parameter_problems(schema, given, field="", work=work):
            is_own = any(
                problem.field == f".{name}" or problem.field.startswith((f".{name}.", f".{name}["))
                for name in own
            )
            field = f"triggers[{index}].parameters" if is_own else "parameters"
            told = Problem(
                field=field + problem.field,
                code=problem.code,
                template=problem.template,
                params=problem.params,
            )
            problems.setdefault(told.field, told)
    raise_if_any(list(problems.values()))


def check_step_parameters(
    conn: sa.Connection, executor_id: int, config: JobConfig, *, known: str
) -> None:
    """Refuse a step of a workflow whose run would be refused, whatever its values turn out to be.

    Args:
        config: of its hidden job. Nobody gives its runs what it leaves out.
        known: the parameters whose values are known before it starts.

    Raises:
        InvalidInput: on "parameters.…".
    """
    schema = schema_of(conn, executor_id, config.handler)
    if schema is not None:
        check_step_against_schema(schema, config, known=known)


def check_step_against_schema(schema: str, config: JobConfig, *, known: str) -> None:
    """The same, against a schema that was read already."""
    problems = parameter_problems(schema, known, partial=True)
    given = {inner("parameters", name) for name in json.loads(config.parameters)}
    problems += [
        problem
        for problem in parameter_problems(schema, known)
        if problem.code == "required" and problem.field not in given
    ]
    raise_if_any(list({problem.field: problem for problem in problems}.values()))


def check_run_parameters(conn: sa.Connection, job: Job, parameters: str | None) -> None:
    """Refuse a run that its node would refuse.

    Args:
        parameters: all that the run is given; None: the job's own.

    Raises:
        InvalidInput: on "parameters.…".
    """
    schema = schema_of(conn, job.executor_id, job.config.handler)
    if schema is not None:
        check_parameters(schema, job.config.parameters if parameters is None else parameters)
