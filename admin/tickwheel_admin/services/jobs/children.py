"""Whether a job may have the children that it names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.jobs.child_graph import circle_through, longest_chain_through
from tickwheel_admin.domain.jobs.children import MAX_DEPTH, ChildLink
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.store.jobs.child_links import (
    LinkedJob,
    child_graph,
    named_jobs,
    workflow_graph,
)


def check_children(
    conn: sa.Connection, actor: Actor, *, job_id: int, name: str, links: Sequence[ChildLink]
) -> None:
    """Refuse links that lead nowhere, or that this actor may not make; links must be locked:
    two edits that each look for circles alone could close one together.

    Raises:
        InvalidInput: child.unknown, child.not_allowed, child.circle or child.chain_too_long, the
            latter two with the way that the runs would take.
    """
    if not links:
        return
    known = named_jobs(conn, [link.job_id for link in links])
    problems = [
        problem
        for index, link in enumerate(links)
        if (problem := _problem_of(actor, f"children[{index}].job", link, known))
    ]
    if problems:
        raise InvalidInput(problems)
    graph, steps = child_graph(conn), workflow_graph(conn)
    graph[job_id] = tuple(link.job_id for link in links)
    steps[job_id] = ()  # a circle through these is told with the workflow
    both = {
        each: (*graph.get(each, ()), *steps.get(each, ())) for each in graph.keys() | steps.keys()
    }
    if circle := circle_through(both, job_id):
        raise InvalidInput.one(
            f"children[{graph[job_id].index(circle[1])}].job",
            "child.circle",
            "The jobs would start each other in a circle: %(path)s.",
            path=_names(conn, actor, circle, {job_id: name}),
        )
    chain = longest_chain_through(graph, job_id, limit=MAX_DEPTH + 1)
    if len(chain) > MAX_DEPTH:
        raise InvalidInput.one(
            "children",
            "child.chain_too_long",
            "At most %(limit)d jobs may follow each other; this would be %(path)s.",
            limit=MAX_DEPTH,
            path=_names(conn, actor, chain, {job_id: name}),
        )


def _problem_of(
    actor: Actor, field: str, link: ChildLink, known: Mapping[int, LinkedJob]
) -> Problem | None:
    child = known.get(link.job_id)
    if child is None or not actor.may(Permission.VIEW, child.executor_id):
        return Problem(
            field=field,
            code="child.unknown",
            template="There is no job %(job)d, or you may not see it.",
            params={"job": link.job_id},
        )
    if not actor.may(Permission.OPERATE, child.executor_id):
        return Problem(
            field=field,
            code="child.not_allowed",
            template="Your role does not allow you to run “%(name)s”.",
            params={"name": child.name},
        )
    return None


def _names(
    conn: sa.Connection, actor: Actor, job_ids: Iterable[int], own: Mapping[int, str]
) -> str:
    """The jobs in words; of those that the actor may not see, the ids alone."""
    way = list(job_ids)
    known = named_jobs(conn, way)
    return " → ".join(
        own.get(job_id)
        or (
            known[job_id].name
            if job_id in known and actor.may(Permission.VIEW, known[job_id].executor_id)
            else f"#{job_id}"
        )
        for job_id in way
    )
