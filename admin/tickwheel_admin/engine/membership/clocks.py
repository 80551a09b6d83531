"""How far the wall clocks of this admin's nodes are off, as they said it when they connected."""

from __future__ import annotations

from collections.abc import Mapping

CLOCK_LIMIT_MS = 30_000  # the way of a hello may take some seconds
MOST_TOLD = 20


class NodeClocks:
    """The clocks that are far off, of nodes that are connected."""

    def __init__(self) -> None:
        self._off: dict[int, tuple[int, int]] = {}  # by node: session and milliseconds

    def note(self, node_id: int, *, session_id: int, offset_ms: int | None) -> None:
        """A node has connected.

        Args:
            offset_ms: its clock less the database's; None: it does not tell.
        """
        if offset_ms is not None and abs(offset_ms) > CLOCK_LIMIT_MS:
            self._off[node_id] = (session_id, offset_ms)
        else:
            self._off.pop(node_id, None)

    def forget(self, node_id: int, *, session_id: int) -> None:
        """A session has ended; a later one of the same node counts on."""
        if node_id in self._off and self._off[node_id][0] == session_id:
            del self._off[node_id]

    def worst(self) -> Mapping[int, int]:
        """Milliseconds by node, at most 20."""
        found = sorted(self._off.items(), key=lambda each: -abs(each[1][1]))
        return {node_id: offset_ms for node_id, (_, offset_ms) in found[:MOST_TOLD]}
