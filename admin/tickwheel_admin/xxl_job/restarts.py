"""Signs that another process listens at an address than a moment ago."""

from __future__ import annotations

from tickwheel_admin.xxl_job.caller import KEPT_SECONDS

# Two beats that are further apart do not tell why their connection is not kept: we may have closed
# it ourselves.
_TELLING_SECONDS = KEPT_SECONDS - 0.2


class RestartSigns:
    """Of one address. The protocol itself tells nothing: a process has no name and no age.

    Where nobody listened for a moment, there is a new one. And a process keeps the connection of a
    beat until the next, or it never does: if one that did has closed it, it has ended. A proxy may
    close it, too, and a process that went on has its runs still; so these are signs only.
    """

    def __init__(self) -> None:
        self._was_refused = False
        # Whether it has the connection of a beat at the next one still; None: not seen yet.
        self._keeps: bool | None = None
        self._is_doubtful = False  # it closed the first one: it keeps none, or was replaced
        self._answered_at = float("-inf")

    def refused(self) -> None:
        """Nobody listened."""
        self._was_refused = True

    def answered(self, now: float, *, is_new_connection: bool) -> bool:
        """A beat was answered; returns whether it looks like another process.

        Args:
            now: seconds of the running loop.
            is_new_connection: the beat before left none.
        """
        is_soon = now - self._answered_at < _TELLING_SECONDS
        is_other = self._was_refused
        self._was_refused = False
        if is_soon and is_new_connection:
            is_other = is_other or self._keeps is True
            self._is_doubtful = self._keeps is None
            self._keeps = None if self._keeps else False
        elif is_soon:
            is_other = is_other or self._is_doubtful  # it keeps them, so it was replaced before
            self._is_doubtful = False
            self._keeps = True
        else:
            self._is_doubtful = False
        self._answered_at = now
        return is_other
