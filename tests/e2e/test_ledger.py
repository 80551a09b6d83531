"""The checks of the ledger find what is wrong, or they would be worth nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.e2e.ledger import Kind, Ledger, overlaps, problems, read_journals

SECOND = 1_000


def run(number: int, **changes: Any) -> SimpleNamespace:
    fields = {
        "id": number,
        "job_id": 1,
        "trigger_id": 5,
        "scheduled_at": number * SECOND,
        "state": "succeeded",
        "attempt": 1,
        "tries": 1,
        "reason": None,
        "message": None,
        "result": f'{{"run": {number}, "attempt": 1}}',
    }
    return SimpleNamespace(**fields | changes)


def found(directory: Path, runs: list[SimpleNamespace], journal: str, in_use: int = 0) -> set[Kind]:
    trigger = SimpleNamespace(id=5, spec='{"every_ms": 1000, "anchor_at": 1000}')
    node = SimpleNamespace(id=9, name="node-1", state="live", in_use=in_use)
    ledger = Ledger(runs=runs, attempts=[], triggers=[trigger], nodes=[node])
    file = directory / "journal"
    file.write_text(journal)
    journals = read_journals([file])
    broken = [*problems(ledger, journals, paused_at=3 * SECOND), *overlaps(ledger, journals, [1])]
    return {problem.kind for problem in broken}


GOOD = """\
start 1 1 1.000
end 1 1 1.500
start 2 1 2.000
end 2 1 2.500
start 3 1 3.000
end 3 1 3.500
"""


def runs() -> list[SimpleNamespace]:
    return [run(1), run(2), run(3)]


def test_a_good_ledger_is_good(tmp_path: Path) -> None:
    assert found(tmp_path, runs(), GOOD) == set()


@pytest.mark.parametrize(
    ("changed", "journal", "in_use", "kind"),
    [
        ([run(1), run(3)], GOOD.replace("start 2 1 2.000\nend 2 1 2.500\n", ""), 0, Kind.LOST),
        ([*runs(), run(4, scheduled_at=3_000)], GOOD, 0, Kind.DOUBLED),
        (runs(), GOOD + "start 3 1 3.700\nend 3 1 3.800\n", 0, Kind.DOUBLED),
        (runs(), GOOD + "start 9 1 9.000\n", 0, Kind.DOUBLED),
        ([run(1), run(2, state="skipped"), run(3)], GOOD, 0, Kind.LOST),
        ([run(1), run(2, state="failed"), run(3)], GOOD, 0, Kind.LOST),
        ([run(1), run(2, result='{"run": 1, "attempt": 1}'), run(3)], GOOD, 0, Kind.LOST),
        (runs(), GOOD.replace("end 2 1 2.500\n", ""), 0, Kind.LOST),
        ([run(1), run(2), run(3, tries=2)], GOOD, 0, Kind.LOST),
        ([run(1), run(2), run(3, state="running")], GOOD, 0, Kind.STUCK),
        (runs(), GOOD, 1, Kind.STUCK),
        ([run(1)], "start 1 1 1.0\nend 1 1 1.5\n", 0, Kind.STUCK),
        (runs(), GOOD.replace("2.500", "3.100"), 0, Kind.OVERLAPPED),
        (runs(), GOOD.replace("end 2 1 2.500", "left 2 1 3.100"), 0, Kind.OVERLAPPED),
    ],
)
def test_what_is_wrong_is_found(
    tmp_path: Path, changed: list[SimpleNamespace], journal: str, in_use: int, kind: Kind
) -> None:
    assert kind in found(tmp_path, changed, journal, in_use)
