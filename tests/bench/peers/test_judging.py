"""The judge of the peers is measured first: what was missed, what ran twice, how late."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.peers.contract import Order, Output
from tests.bench.peers.judging import judge, read_output

DUE_AT = 1_800_000_000_000


def an_order(directory: Path, *, schedules: int, period_ms: int | None = None) -> Order:
    return Order(
        schedules=schedules,
        due_at=DUE_AT,
        period_ms=period_ms,
        database_url="sqlite:///peer.db",
        broker_url=None,
        directory=directory,
        output=directory / "output",
    )


def test_an_order_passes_through_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = an_order(tmp_path, schedules=3, period_ms=1000)
    for name, value in order.environment().items():
        monkeypatch.setenv(name, value)
    assert Order.from_environment() == order


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "output"
    output = Output(path)
    output.ready("a peer 1.0")
    output.started(4)
    output.started(5, DUE_AT)
    with path.open("a") as half:
        half.write("6 17")

    told = read_output(path.read_text())

    assert told.ready == "a peer 1.0"
    assert told.cannot is None
    assert [(schedule, nominal) for schedule, nominal, _ in told.executions] == [
        (4, None),
        (5, DUE_AT),
    ]


def test_missed_and_doubled_executions_are_counted(tmp_path: Path) -> None:
    order = an_order(tmp_path, schedules=4)
    executions = [
        (0, None, DUE_AT + 5),
        (1, DUE_AT, DUE_AT + 20),
        (1, DUE_AT, DUE_AT + 30),
        (2, DUE_AT, DUE_AT + 10),
    ]

    verdict = judge(order, executions, from_at=DUE_AT, to_at=DUE_AT + 1)

    assert (verdict.expected, verdict.missed, verdict.duplicates) == (4, 1, 1)
    assert (verdict.late_p50, verdict.late_max) == (10, 20)
    assert verdict.last_started_at == DUE_AT + 20


def test_only_instants_of_the_window_count(tmp_path: Path) -> None:
    order = an_order(tmp_path, schedules=1, period_ms=1000)
    told = [(0, DUE_AT + 1000 * k, DUE_AT + 1000 * k + k) for k in range(6)]
    untold = [(0, None, DUE_AT + 1000 * k + k) for k in range(6)]

    for executions in (told, untold):
        verdict = judge(order, executions, from_at=DUE_AT + 2000, to_at=DUE_AT + 5000)
        assert (verdict.expected, verdict.missed, verdict.duplicates) == (3, 0, 0)
        assert (verdict.late_p50, verdict.late_max) == (3, 4)


def test_a_schedule_that_drifts_misses_its_instants(tmp_path: Path) -> None:
    order = an_order(tmp_path, schedules=1, period_ms=1000)
    drifting = [(0, DUE_AT + 1003 * k, DUE_AT + 1003 * k) for k in range(6)]

    verdict = judge(order, drifting, from_at=DUE_AT, to_at=DUE_AT + 3000)

    assert (verdict.expected, verdict.missed, verdict.duplicates) == (3, 2, 0)
