"""Retries of workflows' runs: what is done anew, what is taken over, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.fields import raise_if_any, remark_of
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.domain.workflows.answering import permission_to_answer
from tickwheel_admin.domain.workflows.graph import MAX_STEPS
from tickwheel_admin.domain.workflows.retries import (
    ApprovedOtherwise,
    StepChoice,
    StepsAgain,
    StepsDiffer,
    StepsNotAnew,
    failed_steps,
    steps_anew,
    take_over,
)
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs.jobs import get_config
from tickwheel_admin.store.runs import lists as run_lists
from tickwheel_admin.store.runs.workflows.step_runs import steps_go_on
from tickwheel_admin.store.runs.workflows.take_over import (
    ended_steps,
    failed_runs_of_steps,
    gone_results,
    lock_sources,
    write_take_over,
)


def choice_of(
    *,
    again: StepsAgain = StepsAgain.ALL,
    step: str | None = None,
    skip: Sequence[str] = (),
    reason: str = "",
) -> StepChoice:
    """What was asked for.

    Raises:
        InvalidInput: on "step", "skip" or "reason".
    """
    noted: list[Problem] = []
    if (again in (StepsAgain.FROM, StepsAgain.ONLY)) != (step is not None):
        noted.append(
            Problem(
                field="step",
                code="step.with_from_or_only",
                template="Name a step for “from” and “only”, and for these alone.",
            )
        )
    if again is StepsAgain.ONLY and skip:
        noted.append(
            Problem(
                field="skip", code="skip.with_only", template="A single step is not to be skipped."
            )
        )
    if len(skip) > MAX_STEPS:
        noted.append(
            Problem(field="skip", code="too_many", template="A workflow has at most 1,000 steps.")
        )
    reason = remark_of("reason", reason)
    if skip and not reason:
        noted.append(
            Problem(field="reason", code="required", template="Say why the steps are skipped.")
        )
    raise_if_any(noted)
    return StepChoice(
        again=again,
        step=step,
        skip=tuple(dict.fromkeys(skip)),
        reason=reason,
    )


def check_choice(conn: sa.Connection, actor: Actor, ended: Run, choice: StepChoice) -> None:
    """Refuse what the run has no steps for; before anything is locked.

    Raises:
        Conflict: run.not_workflow.
        InvalidInput: step.unknown, on "step" or "skip".
        NotAllowed: an approval that is not for the caller to answer is not for it to skip.
    """
    if not choice.takes_over:
        return
    graph = get_config(conn, ended.job_id, ended.job_revision).workflow
    if not ended.is_workflow or graph is None:
        raise Conflict("run.not_workflow", "This run has no steps; it is retried as a whole.")
    named = [("step", choice.step)] if choice.step is not None else []
    for field, key in [*named, *(("skip", key) for key in choice.skip)]:
        if key not in graph.index_of:
            raise InvalidInput.one(
                field, "step.unknown", "The workflow has no step “%(step)s”.", step=key
            )
    for key in choice.skip:
        asked = permission_to_answer(actor, graph.step(key), ended.executor_id)
        actor.require(asked, ended.executor_id)


def repeat_workflow(
    conn: sa.Connection,
    actor: Actor,
    ended: Run,
    before: JobConfig,
    config: JobConfig,
    choice: StepChoice,
    *,
    run_id: int,
) -> Mapping[int, int]:
    """Write what the new run takes over; it has just been written, under its job's lock.

    Args:
        before: the revision of the ended run.
        config: that of the new one.

    Returns:
        The failed runs of steps that are done again, by id, with their instants.

    Raises:
        NotFound: the run was deleted meanwhile.
        Conflict: run.no_failed_steps; workflow.steps_differ; workflow.results_gone;
            step.taken_over; step.approved_otherwise; run.steps_go_on.
    """
    if steps_go_on(conn, ended.id):  # those of a workflow that a defect has ended
        raise Conflict(
            "run.steps_go_on",
            "Steps of this run have not ended yet. Wait for them, or cancel them.",
        )
    if not choice.takes_over or before.workflow is None:
        return failed_runs_of_steps(conn, ended.id)
    if not lock_sources(conn, ended):  # it was deleted a moment ago
        raise not_found()
    graph, now = before.workflow, now_ms(conn)
    steps = ended_steps(conn, ended, graph)
    if choice.again is StepsAgain.FAILED and not failed_steps(graph, steps):
        raise Conflict("run.no_failed_steps", "No step of this run failed.")
    if config.workflow is None:
        raise Conflict("run.not_workflow", "The job is no workflow any more; keep the revision.")
    was = before.parameters if ended.parameters is None else ended.parameters
    made = run_lists.get_run(conn, run_id)
    given = None if made is None else made.run.parameters
    try:
        taken = take_over(
            graph,
            steps,
            config.workflow,
            choice,
            run_id=run_id,
            by=actor.name[:100],
            same_parameters=was == (config.parameters if given is None else given),
            now=now,
        )
    except StepsDiffer as error:
        raise Conflict(
            "workflow.steps_differ",
            "These steps are others in the current revision, so their results cannot be taken"
            " over: %(steps)s. Keep the revision, or begin with one of them.",
            steps=_listed(error.keys),
        ) from None
    except ApprovedOtherwise as error:
        raise Conflict(
            "step.approved_otherwise",
            "These approvals were given for other parameters: %(steps)s. Begin with one of them,"
            " or keep the parameters.",
            steps=_listed(error.keys),
        ) from None
    except StepsNotAnew as error:
        raise Conflict(
            "step.taken_over",
            "These steps would not run again, so they cannot be skipped: %(steps)s.",
            steps=_listed(error.keys),
        ) from None
    if gone := gone_results(conn, steps, taken.needed):
        raise Conflict(
            "workflow.results_gone",
            "The results of these steps have been deleted: %(steps)s. Begin with one of them.",
            steps=_listed([graph.steps[index].key for index in gone]),
        )
    write_take_over(conn, steps, taken, run_id=run_id, now=now)
    return failed_runs_of_steps(conn, ended.id, steps=steps_anew(graph, steps, choice))


def _listed(keys: list[str]) -> str:
    most = 10
    return ", ".join(keys[:most]) + (" …" if len(keys) > most else "")
