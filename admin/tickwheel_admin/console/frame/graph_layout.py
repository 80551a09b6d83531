"""Where each node stands in a picture of a graph: columns from left to right, few crossings.

A node stands in the column after the last of those that lead to it. Within a column nodes stand
near what they are linked with (barycentres, a few sweeps), so a thousand nodes take milliseconds.
A link that closes a circle is drawn, and counts for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

WIDTH, HEIGHT = 190, 46  # of a node
GAP_X, GAP_Y = 54, 16
EDGE = 8  # around the picture
_SWEEPS = 4


class Spot(NamedTuple):
    """The place of a node; x and y are of its upper left corner."""

    column: int
    x: int
    y: int


class Link(NamedTuple):
    """A line from a node to another one, both by index."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph, drawn."""

    spots: tuple[Spot, ...]  # by index of the node
    width: int
    height: int

    def curve(self, link: Link) -> str:
        """The line as an SVG path."""
        source, target = self.spots[link.source], self.spots[link.target]
        x1, y1 = source.x + WIDTH, source.y + HEIGHT // 2
        x2, y2 = target.x, target.y + HEIGHT // 2
        bend = max((x2 - x1) // 2, GAP_X // 2)
        return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


@lru_cache(maxsize=32)  # a live page asks for the same one again and again
def picture_of(count: int, links: tuple[Link, ...]) -> Picture:
    """The picture of so many nodes; links name nodes that are there."""
    forward = _without_circles(count, links)
    columns = _columns(count, forward)
    rows: list[list[int]] = [[] for _ in range(max(columns, default=0) + 1)]
    for node, column in enumerate(columns):
        rows[column].append(node)
    _order(rows, forward)
    tallest = max(map(len, rows))
    height = max(tallest * (HEIGHT + GAP_Y) - GAP_Y, 0)
    spots = [Spot(0, 0, 0)] * count
    for column, nodes in enumerate(rows):
        own = len(nodes) * (HEIGHT + GAP_Y) - GAP_Y
        top = EDGE + (height - own) // 2
        for place, node in enumerate(nodes):
            x = EDGE + column * (WIDTH + GAP_X)
            spots[node] = Spot(column, x, top + place * (HEIGHT + GAP_Y))
    width = len(rows) * (WIDTH + GAP_X) - GAP_X
    return Picture(tuple(spots), width + 2 * EDGE, height + 2 * EDGE)


def _without_circles(count: int, links: Sequence[Link]) -> list[Link]:
    """The links but those that lead back to a node on the way to them."""
    followers = _followers(count, links)
    seen, on_way = [False] * count, [False] * count
    closing: set[Link] = set()
    for first in range(count):
        if seen[first]:
            continue
        seen[first] = on_way[first] = True
        way = [(first, iter(followers[first]))]
        while way:
            node, rest = way[-1]
            follower = next(rest, None)
            if follower is None:
                on_way[node] = False
                way.pop()
            elif on_way[follower]:
                closing.add(Link(node, follower))
            elif not seen[follower]:
                seen[follower] = on_way[follower] = True
                way.append((follower, iter(followers[follower])))
    return [link for link in links if link not in closing]


def _followers(count: int, links: Sequence[Link]) -> list[list[int]]:
    followers: list[list[int]] = [[] for _ in range(count)]
    for link in links:
        followers[link.source].append(link.target)
    return followers


def _columns(count: int, links: Sequence[Link]) -> list[int]:
    """The column of each node: one after the last that leads to it."""
    followers = _followers(count, links)
    waiting = [0] * count
    for link in links:
        waiting[link.target] += 1
    columns = [0] * count
    ready = [node for node in range(count) if not waiting[node]]
    for node in ready:  # grows while it is read
        for follower in followers[node]:
            columns[follower] = max(columns[follower], columns[node] + 1)
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return columns


def _order(rows: list[list[int]], links: Sequence[Link]) -> None:
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for link in links:
        before.setdefault(link.target, []).append(link.source)
        after.setdefault(link.source, []).append(link.target)
    place: dict[int, float] = {}
    for nodes in rows:
        _note_places(place, nodes)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        near = before if forward else after
        for nodes in rows if forward else reversed(rows):
            centre = {
                node: sum(place[other] for other in near[node]) / len(near[node])
                if node in near
                else place[node]
                for node in nodes
            }
            nodes.sort(key=lambda node: centre[node])
            _note_places(place, nodes)


def _note_places(place: dict[int, float], nodes: Sequence[int]) -> None:
    """Places between 0 and 1, so that columns of different heights can be compared."""
    for number, node in enumerate(nodes):
        place[node] = (number + 0.5) / len(nodes)
