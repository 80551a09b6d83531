"""A workflow as a graph: of a job, of which nothing runs, and of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwheel_admin.console.frame.graphs import GraphDrawing, GraphLink, GraphNode, draw
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.workflows import labels
from tickwheel_admin.domain.workflows.graph import NeedOutcome, Workflow
from tickwheel_admin.domain.workflows.states import StepState
from tickwheel_admin.services.workflows.steps import StepView, WorkflowView


def graph_of(workflow: Workflow, job_names: Mapping[str, str]) -> GraphDrawing:
    """The graph of a job; its nodes lead to the lines of its steps on the same page.

    Args:
        job_names: of the jobs that steps run, by step.
    """
    nodes = [
        GraphNode(
            key=step.key,
            name=step.key,
            told=labels.kind_text(step, job_names.get(step.key)),
            spoken=labels.spoken(step, job_name=job_names.get(step.key)),
            href=f"#step-{step.key}",
        )
        for step in workflow.steps
    ]
    return draw(_("Steps and what they need"), nodes, links_of(workflow))


def graph_of_run(view: WorkflowView) -> GraphDrawing:
    """The graph of a run, with what its steps do."""
    nodes = [node_of(each) for each in view.steps]
    links = links_of(view.workflow, [each.status.has_ended for each in view.steps])
    return draw(_("Steps and what they need"), nodes, links)


def node_of(view: StepView) -> GraphNode:
    """A step of a run; one that has no run leads to its line in the table."""
    key, status = view.step.key, view.status
    return GraphNode(
        key=key,
        name=key,
        told=labels.told(view),
        spoken=labels.spoken(view.step, view),
        look=look_of(view),
        href=href_of(view) or f"#step-{key}",
        is_active=status.state in (StepState.RUNNING, StepState.READY),
    )


def links_of(workflow: Workflow, ended: Sequence[bool] = ()) -> list[GraphLink]:
    """The needs of all steps.

    Args:
        ended: whether each step has; (): of a job, where none runs.
    """
    index = workflow.index_of
    return [
        GraphLink(
            source=index[need.step],
            target=target,
            looks=looks_of_link(need.outcome, is_done=bool(ended) and ended[index[need.step]]),
        )
        for target, step in enumerate(workflow.steps)
        for need in step.needs
    ]


def looks_of_link(outcome: NeedOutcome, *, is_done: bool = False) -> tuple[str, ...]:
    """The classes of a line: that its beginning has ended, and how it has to end."""
    done = ("done",) if is_done else ()
    return done if outcome is NeedOutcome.SUCCEEDED else (*done, f"n-{outcome.value}")


def look_of(view: StepView) -> str:
    """The state of a run whose colour a step has."""
    state = view.status.state
    if state is StepState.FAILED and view.run is not None:
        return view.run.state.value if view.run.state.value != "succeeded" else "failed"
    if labels.is_queued(view):
        return "retrying" if labels.has_been_tried(view) else "queued"
    return labels.look_of(state.value)


def href_of(view: StepView) -> str | None:
    """The page of a step's run, or of its items; None while it has neither."""
    status = view.status
    if status.run_id is not None:
        return f"/runs/{status.run_id}"
    if status.items is not None:
        return f"/runs/{status.workflow_run_id}/steps/{view.step.key}"
    return None
