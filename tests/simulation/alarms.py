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
    _check_groups(database, history)
    _check_told(database, provider, history)


_BAD_ENDS = """
SELECT c.state, c.job_id, c.id, r.origin, r.error_id,
       (SELECT count(*) FROM sim_change l WHERE l.what = 'run' AND l.id = c.id
        AND l.old_state IN ('failed', 'timed_out', 'lost') AND l.state IS NOT l.old_state) AS late
FROM sim_change c LEFT JOIN run r ON r.id = c.id
WHERE c.what = 'run' AND c.state IN ('failed', 'timed_out', 'lost')
AND c.old_state IN ('queued', 'dispatched', 'running') AND r.fire_id IS NULL AND r.origin <> 'try'
"""


def _check_counts(database: SimDatabase, history: History) -> None:
    """Alarms count every bad end once; of jobs that failed alike, which alarm counts is open."""
    deleted = {row.id for row in database.rows("SELECT id FROM job WHERE deleted_at <> 0")}
    alike = _Alike()
    ended: Counter[tuple[str, str]] = Counter()
    counted: Counter[tuple[str, str]] = Counter()
    ends = [row for row in database.rows(_BAD_ENDS) if row.job_id not in deleted]
    alarms = [
        row
        for row in database.rows("SELECT kind, job_id, subject, count FROM alarm")
        if row.kind in {kind.value for kind in KINDS} and row.job_id not in deleted
    ]
    for row in ends:
        if row.error_id is not None:
            alike.join(f"job:{row.job_id}", f"failure:{row.error_id}")
    for row in alarms:
        alike.join(f"job:{row.job_id}", row.subject)
    for row in ends:
        if row.origin != "step":  # all rules are about the installation: its workflow tells of it
            ended[row.state, alike.of(f"job:{row.job_id}")] += 1
    for row in alarms:
        counted[row.kind, alike.of(row.subject)] += row["count"]
    for state, subjects in sorted(ended.keys() | counted.keys()):
        happened, told = ended[state, subjects], counted[state, subjects]
        if happened != told:
            history.violation(
                f"G4: {happened} runs ended {state}, alarms count {told}; of {subjects}"
            )


def _check_groups(database: SimDatabase, history: History) -> None:
    """Every run that failed with a word counts once to the group of that word."""
    failed: defaultdict[int, list[bool]] = defaultdict(list)  # whether it may have another word now
    for row in database.rows(_BAD_ENDS):
        if row.error_id is not None:
            failed[row.error_id].append(row.late > 0)
    unsure = sum(row.late > 0 for row in database.rows(_BAD_ENDS))
    groups = {row.id: row for row in database.rows("SELECT id, runs, returns FROM failure_group")}
    for error_id, runs in sorted(failed.items()):
        group, sure = groups.get(error_id), runs.count(False)
        counted = 0 if group is None else group.runs
        # One that came back counts from then on.
        least = sure if group is None or group.returns == 0 else 1
        if not least <= counted <= sure + unsure:
            history.violation(
                f"G4: {sure} runs failed alike ({error_id}), their group counts {counted}"
            )


class _Alike:
    """Jobs and failures that are linked: each set is named by all of its members."""

    def __init__(self) -> None:
        self._sets: dict[str, set[str]] = {}

    def join(self, one: str, other: str) -> None:
        linked = self._sets.get(one, {one}) | self._sets.get(other, {other})
        for each in linked:
            self._sets[each] = linked

    def of(self, subject: str) -> str:
        return " ".join(sorted(self._sets.get(subject, {subject})))


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
