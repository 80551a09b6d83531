"""Jobs of one text that name each other: what they name is not stored yet, so they are added in the
order of their links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.input.run_rules import MAX_ID
from tickwheel_admin.domain.jobs.child_graph import circle_through
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.workflows.graph import JobStep, SubWorkflow
from tickwheel_admin.services.workflows.names import KnownNames

_NOT_STORED = ("workflow.unknown_job", "child.unknown")


class ImportLinks:
    """The links between the jobs of a text, by their places in it."""

    def __init__(self, executor_id: int, names: Sequence[str]) -> None:
        # Ids that no job has: they are never written.
        self._places = {MAX_ID - place: place for place in range(len(names))}
        jobs = {(executor_id, name): MAX_ID - place for place, name in enumerate(names) if name}
        self.known = KnownNames(jobs=jobs)
        self._configs: dict[int, JobConfig] = {}

    def add(self, place: int, config: JobConfig) -> None:
        """Note what a job says, read with the names that are `known`."""
        self._configs[place] = config

    def is_settled(self, problem: Problem) -> bool:
        """Whether something is only wrong until the other jobs of the text are added."""
        return problem.code in _NOT_STORED and problem.params.get("job") in self._places

    def problems(self) -> Mapping[int, Sequence[Problem]]:
        """What is wrong with links between jobs of the text."""
        found: dict[int, list[Problem]] = {}
        graph = self._graph()
        told: set[int] = set()
        for place in graph:
            found[place] = [
                Problem(
                    field=field,
                    code="workflow.no_workflow",
                    template="“%(name)s” is no workflow; name it as the “job” of this step.",
                    params={"name": self._configs[other].name},
                )
                for field, other, has_steps in self._links(place)
                if has_steps and self._configs[other].workflow is None
            ]
            circle = circle_through(graph, place)
            if circle is not None and not told.intersection(circle):
                told |= set(circle)
                found[place].append(
                    Problem(
                        field=next(f for f, other, _ in self._links(place) if other == circle[1]),
                        code="import.circle",
                        template="These jobs would start each other in a circle: %(path)s. Take one"
                        " of the steps or children out.",
                        params={"path": " → ".join(self._configs[each].name for each in circle)},
                    )
                )
        return found

    def order(self) -> list[int]:
        """The places of all jobs, each behind those that it names; there is no circle."""
        return list(TopologicalSorter(self._graph()).static_order())

    def _graph(self) -> dict[int, list[int]]:
        return {place: [other for _, other, _ in self._links(place)] for place in self._configs}

    def _links(self, place: int) -> Iterator[tuple[str, int, bool]]:
        """(field, place of the job that it names, whether that must be a workflow)."""
        config = self._configs[place]
        for index, link in enumerate(config.children):
            if link.job_id in self._places:
                yield f"children[{index}].job", self._places[link.job_id], False
        for index, step in enumerate(() if config.workflow is None else config.workflow.steps):
            body = step.body
            if isinstance(body, JobStep | SubWorkflow) and body.job_id in self._places:
                has_steps = isinstance(body, SubWorkflow)
                kind = "workflow" if has_steps else "job"
                field = f"workflow.steps[{index}].{kind}"
                yield field, self._places[body.job_id], has_steps
