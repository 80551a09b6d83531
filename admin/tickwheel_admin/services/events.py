"""What just changed, told to whoever listens in this process.

Events only save time: every listener also looks by itself now and then, because another admin's
changes are seen in the database alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

# Topics; `log_topic` names one more per run.
RUNS = "runs"  # a run changed
QUEUED = "runs.queued"  # a run may be claimable now
CANCEL = "runs.cancel"  # a live run is to be stopped
TRIGGERS = "triggers"  # a trigger may be due sooner
CALENDARS = "calendars"  # a calendar was added, changed or removed
JOBS = "jobs"  # a job was added, changed or removed
NODES = "nodes"  # a node came, went or changed
PEOPLE = "people"  # somebody's sessions, tokens or rights changed


def log_topic(run_id: int) -> str:
    """New log lines of this run were stored."""
    return f"log:{run_id}"


class Events:
    """Topics and their listeners. Used from the event loop's thread only."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)

    def publish(self, topic: str) -> None:
        """Call every listener of the topic; they must be quick and not raise."""
        for listener in tuple(self._listeners.get(topic, ())):
            listener()

    def listen(self, topic: str, listener: Callable[[], None]) -> Callable[[], None]:
        """Be called on every event of the topic, until the returned function is called."""
        self._listeners[topic].append(listener)

        def stop() -> None:
            listeners = self._listeners.get(topic, [])
            if listener in listeners:
                listeners.remove(listener)
            if not listeners:
                self._listeners.pop(topic, None)

        return stop
