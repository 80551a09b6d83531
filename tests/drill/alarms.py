"""Messages of alarms while the admin that sends them is killed and their provider misbehaves."""

from __future__ import annotations

import threading
import time
from collections import Counter

from tests.drill.bed import Bed
from tests.drill.report import Outcome
from tests.e2e.alarms.provider import Answer, Provider, Taking, Told

ROUNDS = 4
PER_ROUND = 2  # jobs that fail
BEHAVIOURS = {
    "/well": (),
    "/busy": (Answer.BUSY, Answer.BUSY),
    "/lost": (Answer.LOST, Answer.LOST),
    "/late": (Answer.LATE, Answer.LATE, Answer.LATE),
    "/never": (Answer.NEVER,),
    "/killed": (),  # its first request of each round kills whoever sends it
}
TOLD_SECONDS = 90.0


def killed_senders(bed: Bed) -> Outcome:
    """`kill -9` of an admin between the sending of a message and its mark, again and again."""
    outcome = Outcome(database=bed.kind, drill="killed senders of alarms")
    for name in bed.admin_names:
        if not bed.admins[name].process.is_running:
            bed.start_admin(name)
    asked: Counter[str] = Counter()
    lock = threading.Lock()
    killed: list[tuple[int, str]] = []
    kills = threading.Event()

    def behave(taking: Taking) -> Answer:
        with lock:
            number = asked[taking.channel]
            asked[taking.channel] += 1
            if taking.channel == "/killed" and not kills.is_set():
                killed.append(told.sender_of(taking))
                bed.admins[killed[-1][1]].process.kill()
                kills.set()
                return Answer.LOST
        answers = BEHAVIOURS[taking.channel]
        return answers[number] if number < len(answers) else Answer.OK

    with Provider(behave) as provider:
        told = Told(bed.cluster, bed.url, provider)
        told.add_channels(*BEHAVIOURS)
        for _ in range(ROUNDS):
            kills.clear()
            told.fail(PER_ROUND)
            if not kills.wait(TOLD_SECONDS):
                raise TimeoutError("no message came in time to kill its sender")
            began = time.monotonic()
            bed.start_admin(killed[-1][1])
            told.end_leases(killed[-1][0])
            told.wait_for_all(timeout_seconds=TOLD_SECONDS)
            taken = time.monotonic() - began
            outcome.figures["told_again"] = max(taken, outcome.figures.get("told_again", 0))
            outcome.runs += PER_ROUND
        outcome.problems += told.problems()
        told.forget_rules()
    return outcome
