"""Chains of child jobs: whether they close a circle, and how long they are.

A graph is the ids of each job's children, by its own id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

Graph = Mapping[int, Iterable[int]]


def circle_through(graph: Graph, start: int) -> list[int] | None:
    """A way from a job back to itself, both ends named; None when there is none."""
    came_from: dict[int, int] = {}
    frontier = [start]
    while frontier:
        found = []
        for job_id in frontier:
            for child in graph.get(job_id, ()):
                if child == start:
                    return [*_way_to(job_id, came_from), start]
                if child not in came_from:
                    came_from[child] = job_id
                    found.append(child)
        frontier = found
    return None


def longest_chain(graph: Graph, start: int, *, limit: int) -> list[int]:
    """One of the longest chains of jobs that begin with `start`, cut after `limit` jobs."""
    # Job -> the one before it on a chain of that length.
    levels: list[dict[int, int]] = [{start: start}]
    while len(levels) < limit:
        reached = {child: each for each in levels[-1] for child in graph.get(each, ())}
        if not reached:
            break
        levels.append(reached)
    job_id = next(iter(levels[-1]))
    chain = [job_id]
    for level in reversed(levels[1:]):
        job_id = level[job_id]
        chain.append(job_id)
    return chain[::-1]


def longest_chain_through(graph: Graph, job_id: int, *, limit: int) -> list[int]:
    """One of the longest chains that pass through a job; each half is cut after `limit` jobs."""
    parents: defaultdict[int, list[int]] = defaultdict(list)
    for parent, children in graph.items():
        for child in children:
            parents[child].append(parent)
    above = longest_chain(parents, job_id, limit=limit)
    return above[::-1] + longest_chain(graph, job_id, limit=limit)[1:]


def _way_to(job_id: int, came_from: Mapping[int, int]) -> list[int]:
    way = [job_id]
    while way[-1] in came_from:
        way.append(came_from[way[-1]])
    return way[::-1]
