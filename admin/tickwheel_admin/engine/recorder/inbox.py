"""What nodes said and nobody has recorded yet: bounded, and taken in turns.

Messages of one node stay in their order. Between nodes there is none to keep, so each gets a share
of every batch: one that sends tens of thousands of messages waits for itself and for nobody else.
Those that say much which means nothing, such as results of runs that there never were, are suspects
for a while: together they get a small part of some batches, so that they cost little.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from weakref import WeakKeyDictionary, WeakSet

from tickwheel_admin.engine.ports import HeldPart, NodeMessage, Session
from tickwheel_shared.protocol import Checkpoint, FromNode, Held, LogChunk, Result

MESSAGES_PER_BATCH = 2_000  # of a thousand runs that were accepted and ended at once
LEAST_SHARE = 100  # of a batch, however many nodes have something to say
KEYS_PER_PART = 500  # runs that a node holds, recorded at once
TEXT_PER_BATCH = 4_000_000  # characters of log lines, results and checkpoints
LINE_OVERHEAD = 100  # of a log line in memory, in characters
# In memory, of all nodes of one standing (`_Standing`); beyond either, their sockets are not read.
MAX_WAITING = 20_000  # messages
MAX_WAITING_TEXT = 32_000_000  # characters
# Of one node; beyond either, its socket is not read.
MAX_OF_NODE = 5_000
MAX_TEXT_OF_NODE = 16_000_000
# A node of which so many messages of a batch were ignored, and no fewer than half, is a suspect.
SUSPECT_MESSAGES = 100
SUSPECT_SHARE = 500  # of all suspects together in a batch
SUSPECT_REST_SECONDS = 0.2  # between two batches with something of theirs
UNKNOWN_SHARE = 500  # of a node's first batch


class _Standing(Enum):
    """What a node has shown so far. Each standing has room of its own, so that a suspect that fills
    its room cannot keep the sockets of the others from being read.
    """

    UNKNOWN = auto()  # nothing of it has been recorded yet
    GOOD = auto()
    SUSPECT = auto()


@dataclass(slots=True)
class _Amount:
    messages: int = 0
    text: int = 0  # characters in them

    @property
    def fits(self) -> bool:
        return self.messages < MAX_WAITING and self.text < MAX_WAITING_TEXT


@dataclass(slots=True)
class _Queue:
    messages: deque[NodeMessage] = field(default_factory=deque)
    text: int = 0  # characters in them


class Inbox:
    """Used from the event loop's thread only."""

    def __init__(self) -> None:
        # Whose turn is next comes first.
        self._queues: dict[Session, _Queue] = {}
        self._waiting = {standing: _Amount() for standing in _Standing}
        # As long as their sockets live; who is not here is unknown.
        self._standings: WeakKeyDictionary[Session, _Standing] = WeakKeyDictionary()
        self._gone: WeakSet[Session] = WeakSet()  # their sockets are closed
        self._suspects_at = 0.0  # when they may be looked at next

    def __len__(self) -> int:
        """Messages that wait."""
        return sum(amount.messages for amount in self._waiting.values())

    def has_room_for(self, session: Session) -> bool:
        """Whether this node's socket may be read."""
        queue = self._queues.get(session)
        of_node = queue is None or (
            len(queue.messages) < MAX_OF_NODE and queue.text < MAX_TEXT_OF_NODE
        )
        return of_node and self._waiting[self._standing(session)].fits

    def leave(self, session: Session) -> int:
        """The socket of a node has closed. How many messages are dropped: all of a suspect.

        Who sends nothing but what means nothing, and comes back all the time, must not leave it
        all here. It was not acknowledged, so a node that meant it sends it again.
        """
        self._gone.add(session)
        if self._standing(session) is not _Standing.SUSPECT or session not in self._queues:
            return 0
        queue, waiting = self._queues.pop(session), self._waiting[_Standing.SUSPECT]
        waiting.messages -= len(queue.messages)
        waiting.text -= queue.text
        return len(queue.messages)

    def judge(self, ignored: Mapping[Session, int], batch: Sequence[NodeMessage]) -> int:
        """Say of how many messages of a batch there was nothing to record.

        Returns how many messages are dropped, as by `leave`.
        """
        dropped = 0
        said = Counter(dict.fromkeys(ignored, 0))
        for received in batch:
            said[received.session] += _weight(received)
        for session, count in said.items():
            nothing = ignored.get(session, 0)
            is_suspect = nothing >= SUSPECT_MESSAGES and nothing * 2 >= count
            self._stand(session, _Standing.SUSPECT if is_suspect else _Standing.GOOD)
            if session in self._gone:
                dropped += self.leave(session)
        return dropped

    def rests_for(self, now: float) -> float | None:
        """Seconds until suspects may be looked at again, when nobody else waits; else None."""
        if not self._queues or any(
            self._standing(each) is not _Standing.SUSPECT for each in self._queues
        ):
            return None
        return max(self._suspects_at - now, 0.0) or None

    def add(self, session: Session, messages: Sequence[FromNode]) -> None:
        """Put messages behind those of the same node."""
        queue = self._queues.setdefault(session, _Queue())
        for message in messages:
            for part in _parts(message):
                self._put(queue, NodeMessage(session, part))

    def next_batch(self, now: float) -> list[NodeMessage]:
        """What the next transaction takes; nobody gets more than a fair share of it.

        Args:
            now: monotonic seconds.
        """
        batch: list[NodeMessage] = []
        text = 0
        share = max(MESSAGES_PER_BATCH // max(len(self._queues), 1), LEAST_SHARE)
        for_suspects = SUSPECT_SHARE if now >= self._suspects_at else 0
        for session in list(self._queues):
            if len(batch) >= MESSAGES_PER_BATCH or text >= TEXT_PER_BATCH:
                break
            standing = self._standing(session)
            most = min(share, MESSAGES_PER_BATCH - len(batch))
            if standing is _Standing.UNKNOWN:
                most = min(most, UNKNOWN_SHARE)
            elif standing is _Standing.SUSPECT:
                most = min(most, for_suspects)
            if most <= 0:
                continue
            queue = self._queues.pop(session)
            waiting = self._waiting[standing]
            weight = 0
            while queue.messages and weight < most and text < TEXT_PER_BATCH:
                received = queue.messages.popleft()
                chars = text_of(received.message)
                weight += _weight(received)
                text += chars
                queue.text -= chars
                waiting.messages -= 1
                waiting.text -= chars
                batch.append(received)
            if standing is _Standing.SUSPECT:
                for_suspects -= weight
                self._suspects_at = now + SUSPECT_REST_SECONDS
            if queue.messages:
                self._queues[session] = queue  # last in line from here on
        return batch

    def put_back(self, batch: Sequence[NodeMessage]) -> None:
        """Nothing of a batch was recorded: it comes first again."""
        for received in reversed(batch):
            queue = self._queues.setdefault(received.session, _Queue())
            self._put(queue, received, first=True)

    def _standing(self, session: Session) -> _Standing:
        return self._standings.get(session, _Standing.UNKNOWN)

    def _stand(self, session: Session, standing: _Standing) -> None:
        """From here on, what waits of this node counts among those of its new standing."""
        queue = self._queues.get(session)
        if queue is not None:
            before, after = self._waiting[self._standing(session)], self._waiting[standing]
            before.messages -= len(queue.messages)
            before.text -= queue.text
            after.messages += len(queue.messages)
            after.text += queue.text
        self._standings[session] = standing

    def _put(self, queue: _Queue, received: NodeMessage, *, first: bool = False) -> None:
        chars = text_of(received.message)
        if first:
            queue.messages.appendleft(received)
        else:
            queue.messages.append(received)
        queue.text += chars
        waiting = self._waiting[self._standing(received.session)]
        waiting.messages += 1
        waiting.text += chars


def text_of(message: FromNode | HeldPart) -> int:
    """Characters of what may be long; the rest of a message is counted by `MAX_WAITING`."""
    match message:
        case LogChunk():
            return sum(len(line.text) + LINE_OVERHEAD for line in message.lines)
        case Result():
            parts = (message.result, message.state, message.checkpoint)
            return len(message.message) + sum(len(bytes(part)) for part in parts)
        case Checkpoint():
            return len(message.data)
    return 0


def _weight(received: NodeMessage) -> int:
    """How many runs a message is about."""
    message = received.message
    return max(len(message.runs), 1) if isinstance(message, Held | HeldPart) else 1


def _parts(message: FromNode) -> Iterator[FromNode | HeldPart]:
    """A node that holds many runs is taken in piece by piece, and opened after the last one."""
    if not isinstance(message, Held) or len(message.runs) <= KEYS_PER_PART:
        yield message
        return
    named = frozenset(key.run for key in message.runs)
    for begin in range(0, len(message.runs), KEYS_PER_PART):
        last = begin + KEYS_PER_PART >= len(message.runs)
        runs = message.runs[begin : begin + KEYS_PER_PART]
        yield HeldPart(runs=runs, named=named if last else None)
