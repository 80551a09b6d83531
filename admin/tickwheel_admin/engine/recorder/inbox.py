"""Messages of nodes that are not recorded yet: bounded, and taken in turns.

Messages of one node stay in their order. Between nodes no order matters, so each gets a share of
every batch: a node that sends tens of thousands of messages delays only itself. Nodes that send
many messages with nothing to record, such as results of unknown runs, are suspects for a while:
together they get a small part of some batches, so that they cost little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from weakref import WeakKeyDictionary, WeakSet

import msgspec

from tickwheel_admin.engine.ports import HeldPart, NodeMessage, Session, StoredFirst
from tickwheel_shared.protocol import Checkpoint, FromNode, Held, LogChunk, Result

MESSAGES_PER_BATCH = 2_000  # of a thousand runs that were accepted and ended at once
LEAST_SHARE = 100  # of a batch, however many nodes have messages
KEYS_PER_PART = 500  # runs that a node holds, recorded at once
TEXT_PER_BATCH = 4_000_000  # characters of log lines, results and checkpoints
LINE_OVERHEAD = 100  # of a log line in memory, in characters
# In memory, for all nodes of the same `_Trust`; beyond either, their sockets are not read.
MAX_WAITING = 20_000  # messages
MAX_WAITING_TEXT = 32_000_000  # characters
# For one node; beyond either, its socket is not read.
MAX_OF_NODE = 5_000
MAX_TEXT_OF_NODE = 16_000_000
# A node of which so many messages of a batch were ignored, and no fewer than half, is a suspect.
SUSPECT_MESSAGES = 100
SUSPECT_SHARE = 500  # of all suspects together in a batch
SUSPECT_REST_SECONDS = 0.2  # between two batches with something of theirs
UNKNOWN_SHARE = 500  # of a node's first batch


class _Trust(Enum):
    """How far a node is trusted. Each level has its own room, so that suspects that fill theirs
    cannot keep the sockets of the others from being read.
    """

    UNKNOWN = auto()  # none of its messages has been recorded yet
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
    messages: deque[tuple[NodeMessage, int]] = field(default_factory=deque)  # with their text
    text: int = 0  # characters in them


class Inbox:
    """Used from the event loop's thread only."""

    def __init__(self) -> None:
        # The node whose turn is next comes first.
        self._queues: dict[Session, _Queue] = {}
        self._waiting = {trust: _Amount() for trust in _Trust}
        # As long as their sockets live; the others are unknown.
        self._trust: WeakKeyDictionary[Session, _Trust] = WeakKeyDictionary()
        self._gone: WeakSet[Session] = WeakSet()  # their sockets are closed
        self._suspects_at = 0.0  # when their messages may be taken next

    def __len__(self) -> int:
        """Messages that wait."""
        return sum(amount.messages for amount in self._waiting.values())

    def has_room_for(self, session: Session) -> bool:
        """Whether this node's socket may be read."""
        queue = self._queues.get(session)
        of_node = queue is None or (
            len(queue.messages) < MAX_OF_NODE and queue.text < MAX_TEXT_OF_NODE
        )
        return of_node and self._waiting[self._trust_of(session)].fits

    def close(self, session: Session) -> int:
        """The socket of a node has closed. Returns how many messages are dropped: all of a suspect.

        A node that sends only meaningless messages, and reconnects all the time, must not fill
        the memory. Nothing of it was acknowledged, so an honest node sends it again.
        """
        self._gone.add(session)
        if self._trust_of(session) is not _Trust.SUSPECT or session not in self._queues:
            return 0
        queue, waiting = self._queues.pop(session), self._waiting[_Trust.SUSPECT]
        waiting.messages -= len(queue.messages)
        waiting.text -= queue.text
        return len(queue.messages)

    def rate(self, ignored: Mapping[Session, int], batch: Sequence[NodeMessage]) -> int:
        """Adjust the trust in the nodes of a recorded batch.

        Args:
            ignored: by session, for how many messages there was nothing to record.

        Returns how many messages are dropped, as `close` does.
        """
        dropped = 0
        said: dict[Session, int] = dict.fromkeys(ignored, 0)
        for received in batch:
            session = received.session
            said[session] = said.get(session, 0) + _weight(received.message)
        for session, count in said.items():
            nothing = ignored.get(session, 0)
            is_suspect = nothing >= SUSPECT_MESSAGES and nothing * 2 >= count
            self._set_trust(session, _Trust.SUSPECT if is_suspect else _Trust.GOOD)
            if session in self._gone:
                dropped += self.close(session)
        return dropped

    def rests_for(self, now: float) -> float | None:
        """Seconds until messages of suspects may be taken, if only those wait; else None."""
        if not self._queues or any(
            self._trust_of(each) is not _Trust.SUSPECT for each in self._queues
        ):
            return None
        return max(self._suspects_at - now, 0.0) or None

    def add(self, session: Session, messages: Sequence[FromNode | StoredFirst]) -> None:
        """Put messages behind those of the same node."""
        queue = self._queues.setdefault(session, _Queue())
        waiting = self._waiting[self._trust_of(session)]
        for message in messages:
            if type(message) is Held:
                for part in _parts(message):
                    _put(queue, waiting, NodeMessage(session, part))
            else:
                _put(queue, waiting, NodeMessage(session, message))

    def next_batch(self, now: float) -> list[NodeMessage]:
        """What the next transaction takes; no node gets more than its share of it.

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
            trust = self._trust_of(session)
            most = min(share, MESSAGES_PER_BATCH - len(batch))
            if trust is _Trust.UNKNOWN:
                most = min(most, UNKNOWN_SHARE)
            elif trust is _Trust.SUSPECT:
                most = min(most, for_suspects)
            if most <= 0:
                continue
            queue = self._queues.pop(session)
            waiting = self._waiting[trust]
            weight = 0
            while queue.messages and weight < most and text < TEXT_PER_BATCH:
                received, chars = queue.messages.popleft()
                weight += _weight(received.message)
                text += chars
                queue.text -= chars
                waiting.messages -= 1
                waiting.text -= chars
                batch.append(received)
            if trust is _Trust.SUSPECT:
                for_suspects -= weight
                self._suspects_at = now + SUSPECT_REST_SECONDS
            if queue.messages:
                self._queues[session] = queue  # last in line from here on
        return batch

    def put_back(self, batch: Sequence[NodeMessage]) -> None:
        """The batch was not recorded: it comes first again."""
        for received in reversed(batch):
            queue = self._queues.setdefault(received.session, _Queue())
            waiting = self._waiting[self._trust_of(received.session)]
            _put(queue, waiting, received, first=True)

    def _trust_of(self, session: Session) -> _Trust:
        return self._trust.get(session, _Trust.UNKNOWN)

    def _set_trust(self, session: Session, trust: _Trust) -> None:
        """Count the node's waiting messages with those of its new level from now on."""
        queue = self._queues.get(session)
        if queue is not None:
            before, after = self._waiting[self._trust_of(session)], self._waiting[trust]
            before.messages -= len(queue.messages)
            before.text -= queue.text
            after.messages += len(queue.messages)
            after.text += queue.text
        self._trust[session] = trust


def _put(queue: _Queue, waiting: _Amount, received: NodeMessage, *, first: bool = False) -> None:
    chars = text_of(received.message)
    if first:
        queue.messages.appendleft((received, chars))
    else:
        queue.messages.append((received, chars))
    queue.text += chars
    waiting.messages += 1
    waiting.text += chars


def text_of(message: FromNode | HeldPart | StoredFirst) -> int:
    """Characters of the parts that may be long; `MAX_WAITING` bounds the rest."""
    match message:
        case LogChunk():
            return sum(len(line.text) + LINE_OVERHEAD for line in message.lines)
        case Result():
            kept = sum(map(_size, (message.result, message.state, message.checkpoint)))
            return len(message.message) + kept
        case Checkpoint():
            return len(message.data)
    return 0


def _size(raw: msgspec.Raw) -> int:
    return memoryview(raw).nbytes  # bytes(raw) would copy it


_OF_MANY_RUNS = (Held, HeldPart)  # made once: this is asked twice of each message


def _weight(message: FromNode | HeldPart | StoredFirst) -> int:
    """How many runs a message is about."""
    return max(len(message.runs), 1) if isinstance(message, _OF_MANY_RUNS) else 1


def _parts(message: Held) -> Iterator[FromNode | HeldPart]:
    """A long `held` is recorded in parts; the node may be sent runs after the last one."""
    if len(message.runs) <= KEYS_PER_PART:
        yield message
        return
    named = frozenset(key.run for key in message.runs)
    for begin in range(0, len(message.runs), KEYS_PER_PART):
        last = begin + KEYS_PER_PART >= len(message.runs)
        runs = message.runs[begin : begin + KEYS_PER_PART]
        yield HeldPart(runs=runs, named=named if last else None)
