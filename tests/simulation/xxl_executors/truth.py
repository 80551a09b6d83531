"""What executors really did: kept outside of every process, for the checker only.

An executor's word and its deeds may differ; what befell an attempt excuses what follows from it,
and nothing else does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

from tests.simulation.history import History
from tickwheel_admin.xxl_job.dialects import Call

Key = tuple[int, int]  # run, attempt
KILL_HELD_UP_SECONDS = 10.0  # beyond which a call to end a run is late
HELD_UP_SECONDS = 4.9  # beyond which a call to start a run is late: its admin has given it up


class Mishap(StrEnum):
    """Something that befell one attempt, of which the bridge could not know."""

    DROPPED = "dropped"  # the executor said that it runs it, and did nothing
    SAID_IDLE = "said_idle"  # it said that its job is idle while it ran
    LOG_DENIED = "log_denied"  # it said that there is no log while there was one
    HELD_UP = "held_up"  # the call arrived, or was carried out, when its admin had given it up
    REPEATED = "repeated"  # the network brought the call twice
    DISK_LOST = "disk_lost"  # its process was replaced by one with an empty disk
    SILENCED = "silenced"  # its report was thrown away, by its executor's own fault
    KILLED_AGAIN = "killed_again"  # the network brought the call to end its job twice
    # The call to end what ran there before it was held up for too long.
    KILLED_LATE = "killed_late"
    RESTARTED = "restarted"  # its process was replaced by another one at the same address


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """An executor ended a run because it was told to."""

    run: int
    attempt: int
    by_its_process: bool  # which was stopping
    at: float  # virtual seconds
    seq: int


def key_of(log_id: int) -> Key:
    """Run and attempt of a logId, as xxl-job.md has them."""
    return log_id >> 16, log_id >> 8 & 0xFF


class Truth:
    """Of all executors of one world."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.mishaps: defaultdict[Key, set[Mishap]] = defaultdict(set)
        self.delivered: dict[Key, int] = {}  # what an admin has answered with code 200: its code
        self.kills: list[Kill] = []
        self.busy: defaultdict[int, int] = defaultdict(int)  # run: how often refused as busy

    def note(self, key: Key, mishap: Mishap) -> None:
        if mishap not in self.mishaps[key]:
            self.mishaps[key].add(mishap)
            self.history.note("truth", f"{key[0]}/{key[1]} {mishap}")

    def has(self, key: Key, *mishaps: Mishap) -> bool:
        """Whether one of these befell the attempt."""
        return not self.mishaps.get(key, set()).isdisjoint(mishaps)

    def note_repeated(self, call: Call) -> None:
        if call.path in ("/run", "/trigger"):
            self.note(key_of(json.loads(call.body)["logId"]), Mishap.REPEATED)

    def note_delay(self, call: Call, seconds: float) -> None:
        if call.path in ("/run", "/trigger") and seconds > HELD_UP_SECONDS:
            self.note(key_of(json.loads(call.body)["logId"]), Mishap.HELD_UP)

    def killed(self, key: Key, *, by_its_process: bool) -> None:
        self.history.note("truth", f"{key[0]}/{key[1]} is killed")
        self.kills.append(
            Kill(
                run=key[0],
                attempt=key[1],
                by_its_process=by_its_process,
                at=self.history.now,
                seq=self.history.next_seq(),
            )
        )

    def was_delivered(self, key: Key, code: int) -> None:
        self.delivered.setdefault(key, code)
        self.history.note("truth", f"{key[0]}/{key[1]} was told to an admin: {code}")
