"""Graphs as pages draw them: nodes and the links between them, as a server-made SVG.

Any noun can have one: it says what its nodes are and which lead to which, the layout finds their
places, and `frame/graph.html` draws them. `static/js/graph.js` adds zoom, dragging and arrow keys;
without it each node is a link like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwheel_admin.console.frame.graph_layout import HEIGHT, WIDTH, Link, picture_of

MAX_CHARS = 24  # of a line of text in a node


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """Something that stands in a graph."""

    key: str  # unique in its graph
    name: str  # the first line
    told: str  # the line below
    spoken: str  # the whole of it, for who cannot see the picture
    look: str = ""  # of which state of a run it has the colour; "": of none
    mark: str = ""  # beside the name, where a colour alone would say something
    href: str | None = None
    is_active: bool = False  # whoever follows the graph looks at such ones


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLink:
    """That one node leads to another one, both by index."""

    source: int
    target: int
    looks: tuple[str, ...] = ()  # classes of the line: "done", "n-failed", …


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """A node with its place; texts are as long as there is room for."""

    node: GraphNode
    column: int
    x: int
    y: int
    name: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLink:
    """A link with its line."""

    link: GraphLink
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDrawing:
    """What `frame/graph.html` draws."""

    name: str  # what it is a graph of, in words
    width: int
    height: int
    nodes: tuple[DrawnNode, ...]
    links: tuple[DrawnLink, ...]
    node_width: int = WIDTH
    node_height: int = HEIGHT


def draw(name: str, nodes: Sequence[GraphNode], links: Sequence[GraphLink]) -> GraphDrawing:
    """The graph with a place for each of its nodes; it may have circles.

    Args:
        name: what it is a graph of, in words.
        links: between nodes that are there.
    """
    places = tuple(Link(each.source, each.target) for each in links)
    picture = picture_of(len(nodes), places)
    return GraphDrawing(
        name=name,
        width=picture.width,
        height=picture.height,
        nodes=tuple(
            DrawnNode(
                node=node,
                column=spot.column,
                x=spot.x,
                y=spot.y,
                name=_short(node.name, MAX_CHARS - 2 if node.mark else MAX_CHARS),
                told=_short(node.told, MAX_CHARS),
            )
            for node, spot in zip(nodes, picture.spots, strict=True)
        ),
        links=tuple(
            DrawnLink(link=link, path=picture.curve(place))
            for link, place in zip(links, places, strict=True)
        ),
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
