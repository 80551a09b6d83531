"""What every schedule can do, and the one error of this package."""

from __future__ import annotations

from typing import Any, Protocol


class Schedule(Protocol):
    """A set of instants (UTC epoch ms)."""

    def next_after(self, instant: int) -> int | None:
        """The first instant strictly after; None when there is none."""
        ...

    def last_before(self, instant: int) -> int | None:
        """The last instant strictly before; None when there is none."""
        ...


class ScheduleError(ValueError):
    """A spec that cannot be scheduled; `field` names the part of the spec at fault."""

    def __init__(self, field: str, template: str, /, **params: Any) -> None:
        self.field = field
        self.template = template  # English message id with %(name)s placeholders
        self.params = params
        super().__init__(template % params if params else template)
