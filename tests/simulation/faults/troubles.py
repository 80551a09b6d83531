"""When something was wrong with a node, an admin or the way between them: what excuses a death."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

Subject = tuple[str, str]  # (node host, admin host); "*" stands for any of them


@dataclass(slots=True, kw_only=True)
class Trouble:
    """From its beginning to its end, in virtual seconds."""

    subject: Subject
    began: float
    ended: float = inf


class Troubles:
    """Everything that was wrong, noted by whoever set it off. `time` tells virtual seconds."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._all: list[Trouble] = []

    def begin(self, *, node: str = "*", admin: str = "*") -> Trouble:
        """Something is wrong with a node, an admin, or the way between the two."""
        trouble = Trouble(subject=(node, admin), began=self._time())
        self._all.append(trouble)
        return trouble

    def end(self, trouble: Trouble) -> None:
        trouble.ended = min(trouble.ended, self._time())

    def end_of(self, *, node: str = "*", admin: str = "*") -> None:
        """Everything that was wrong with exactly these is over."""
        for trouble in self._all:
            if trouble.subject == (node, admin):
                self.end(trouble)

    def node_was_well(self, node: str, since: float, until: float) -> bool:
        """Whether nothing was wrong with a node or any of its ways; admins do not matter."""
        return not any(
            trouble.subject[0] == node or trouble.subject == ("*", "*")
            for trouble in self._within(since, until)
        )

    def way_was_well(self, node: str, admin: str, since: float, until: float) -> bool:
        """Whether a node, an admin and the way between them were all right."""
        return not any(
            trouble.subject[0] in (node, "*") and trouble.subject[1] in (admin, "*")
            for trouble in self._within(since, until)
        )

    def _within(self, since: float, until: float) -> list[Trouble]:
        return [each for each in self._all if each.began <= until and each.ended >= since]
