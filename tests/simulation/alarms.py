"""Alarms in the simulated cluster: a provider that answers late, twice or never, and the verdict.

The verdict shares no rule with the engine: it knows the ledger's memory of how runs ended, the rows
that are left of alarms, and what the provider took.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass
from random import Random

import sqlalchemy as sa

from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.scheduler import current_process
from tickwheel_admin.domain.alarms.channel import Channel, ChannelKind
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered
from tickwheel_admin.store.alarms.channels import StoredChannel, add_channel
from tickwheel_admin.store.alarms.rules import add_rule

CHANNEL = 1
KINDS = (AlarmKind.FAILED, AlarmKind.TIMED_OUT, AlarmKind.LOST)
_WINDOW_S = 3


@dataclass(frozen=True, slots=True)
class Taking:
    """The provider took a message, whatever it answered."""

    message_id: str
    at: float  # virtual seconds
    sender: str  # the admin's process
    told: frozenset[tuple[int, str]]  # (alarm, occasion)


class FaultyProvider:
    """What a channel's provider does while there are faults: shares of all messages."""

    def __init__(self, random: Random, history: History) -> None:
        self._random = random
        self._history = history
        self.is_faulty = True
        self.taken: list[Taking] = []

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        await asyncio.sleep(self._random.uniform(0.01, 0.4))
        draw = self._random.random() if self.is_faulty else 1.0
        if draw < 0.15:
            return Undelivered(why="refused")
        if draw < 0.2:
            await asyncio.get_running_loop().create_future()  # it never answers
        if draw < 0.3:
            await asyncio.sleep(self._random.uniform(1.0, 40.0))
        self._take(message)
        if draw < 0.4:
            return Undelivered(why="the answer was lost")
        if draw < 0.45:
            await asyncio.get_running_loop().create_future()  # taken, and it never says so
        await asyncio.sleep(self._random.uniform(0.01, 0.4))
        return Delivered(answer="ok")

    def _take(self, message: AlarmMessage) -> None:
        process = current_process()
        sender = "world" if process is None else process.name
        told = frozenset((each.alarm_id, each.occasion.value) for each in message.entries)
        self.taken.append(Taking(message.id, self._history.now, sender, told))
        self._history.note("provider", f"takes {message.id} of {sender}: {sorted(told)}")


def prepare(conn: sa.Connection, *, per_minute: int, now: int) -> None:
    """A channel, and rules that tell it of every end of a run that is bad."""
    add_channel(
        conn,
        StoredChannel(
            id=CHANNEL,
            name="chat",
            kind=ChannelKind.WEBHOOK,
            language="en",
            time_zone="UTC",
            settings={},
            secrets=None,
            per_minute=per_minute,
        ),
        now=now,
    )
    for number, kind in enumerate(KINDS, 1):
        rule = AlarmRule(
            id=number,
            name=kind.value,
            kind=kind,
            channels=(CHANNEL,),
            group_window_s=_WINDOW_S,
            tell_recovery=number == 1,
        )
        add_rule(conn, rule, now=now)


def unfinished(database: SimDatabase) -> list[str]:
    """What is still to be evaluated or told."""
    signals = database.rows("SELECT count(*) AS n FROM alarm_signal")[0].n
    waiting = database.rows(
        "SELECT id, state, due_at FROM notification WHERE state IN ('waiting', 'sending')"
    )
    return [f"{signals} signals"] * bool(signals) + [f"message {dict(row)}" for row in waiting]


def check_alarms(database: SimDatabase, provider: FaultyProvider, history: History) -> None:
    """Every bad end counts once, every alarm was told, and only lost answers were told again."""
    _check_counts(database, history)
    _check_told(database, provider, history)


def _check_counts(database: SimDatabase, history: History) -> None:
    deleted = {row.id for row in database.rows("SELECT id FROM job WHERE deleted_at <> 0")}
    ended: Counter[tuple[str, int]] = Counter()
    kinds = "('failed', 'timed_out', 'lost')"
    for row in database.rows(
        f"SELECT c.state, c.job_id FROM sim_change c"
        f" LEFT JOIN run r ON r.id = c.id"
        f" WHERE c.what = 'run' AND c.state IN {kinds}"
        f" AND c.old_state IN ('queued', 'dispatched', 'running')"
        # All rules are about the installation: of a step its workflow tells.
        f" AND r.fire_id IS NULL AND r.origin NOT IN ('try', 'step')"
    ):
        ended[row.state, row.job_id] += 1
    counted: Counter[tuple[str, int]] = Counter()
    for row in database.rows("SELECT kind, job_id, count FROM alarm WHERE job_id IS NOT NULL"):
        if row.kind in {kind.value for kind in KINDS}:
            counted[row.kind, row.job_id] += row["count"]
    for state, job_id in sorted(ended.keys() | counted.keys()):
        if job_id in deleted:
            continue  # what ended after its deletion is nobody's any more
        happened, told = ended[state, job_id], counted[state, job_id]
        if happened != told:
            history.violation(
                f"G4: {happened} runs of job {job_id} ended {state}, alarms count {told}"
            )


def _check_told(database: SimDatabase, provider: FaultyProvider, history: History) -> None:
    messages: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
    for taking in provider.taken:
        for pair in taking.told:
            messages[pair].add(taking.message_id)
    for pair, ids in sorted(messages.items()):
        if len(ids) > 1:
            history.violation(f"G4: alarm {pair} was told by several messages: {sorted(ids)}")
    known = {alarm_id for alarm_id, _ in messages}
    for row in database.rows("SELECT id, kind, subject FROM alarm"):
        if row.kind in {kind.value for kind in KINDS} and row.id not in known:
            history.violation(f"G4: alarm {row.id} ({row.kind}, {row.subject}) was told to nobody")
    taken = Counter(each.message_id for each in provider.taken)
    for row in database.rows("SELECT message_id, state, attempts FROM notification"):
        if row.state == "delivered" and not taken[row.message_id]:
            history.violation(f"G4: message {row.message_id} counts as delivered, and never came")
        if taken[row.message_id] > row.attempts:
            history.violation(f"G4: message {row.message_id} came more often than it was sent")
