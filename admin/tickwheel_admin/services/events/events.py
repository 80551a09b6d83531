"""What just changed, told to whoever listens in this process.

Events only save time: every listener also looks by itself now and then, because another admin's
changes are seen in the database alone. Pages cannot: for them each admin counts what changed there,
and the others relay it (`services.events.relay`).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

# Topics; `log_topic` names one more per run.
RUNS = "runs"  # a run changed
QUEUED = "runs.queued"  # a run may be claimable now
CANCEL = "runs.cancel"  # a live run is to be stopped
TRIGGERS = "triggers"  # a trigger may be due sooner
CALENDARS = "calendars"  # a calendar was added, changed or removed
JOBS = "jobs"  # a job was added, changed or removed
NODES = "nodes"  # a node came, went or changed
ALARMS = "alarms"  # an alarm, a rule or a channel changed, or a message is to be sent
USERS = "people"  # somebody's sessions, tokens or rights changed

# What pages of other admins are told of, and what it is counted by. The engine listens to none of
# these: it must not be driven by what others relay.
SHARED: Mapping[str, tuple[str, ...]] = {
    RUNS: (RUNS, QUEUED),
    JOBS: (JOBS, CALENDARS),
    NODES: (NODES,),
    USERS: (USERS,),
    ALARMS: (ALARMS,),
}
# What is remembered at all: topics of single runs come without end.
_REMEMBERED = frozenset(each for own in SHARED.values() for each in own)


def log_topic(run_id: int) -> str:
    """New log lines of this run were stored."""
    return f"log:{run_id}"


class Events:
    """Topics and their listeners. Used from the event loop's thread only."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._listeners: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._now = monotonic
        self._since = monotonic()
        self._last: dict[str, float] = {}

    def publish(self, topic: str) -> None:
        """Call every listener of the topic; they must be quick and not raise."""
        if topic in _REMEMBERED:
            self._counts[topic] += 1
        self.relay(topic)

    def relay(self, topic: str) -> None:
        """Call every listener of what another admin did: nobody is told of it a second time."""
        if topic in _REMEMBERED:
            self._last[topic] = self._now()
        for listener in tuple(self._listeners.get(topic, ())):
            listener()

    def counts(self) -> dict[str, int]:
        """How often each of the `SHARED` topics was published here; rises with every change."""
        return {name: sum(self._counts[each] for each in own) for name, own in SHARED.items()}

    def changed_within(self, seconds: float) -> frozenset[str]:
        """The topics that were published or relayed so lately; of longer than we live: all."""
        since = self._now() - seconds
        if since < self._since:
            return _REMEMBERED
        return frozenset(topic for topic, at in self._last.items() if at >= since)

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
