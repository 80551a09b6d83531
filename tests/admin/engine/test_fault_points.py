"""Kill points: one place, once, and nothing at all unless they are asked for."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tickwheel_admin.engine import fault_points
from tickwheel_admin.engine.fault_points import (
    VARIABLE,
    FaultPointError,
    arm,
    before_commit,
    reached,
)


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm({})


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals that this process would have sent itself."""
    sent: list[int] = []
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: sent.append(number))
    return sent


def test_an_armed_point_acts_once_at_the_time_it_was_given(deaths: list[int]) -> None:
    arm({VARIABLE: "claimed:stop:3"})
    passed = [len(deaths) for _ in range(6) if reached("claimed") or not reached("sent")]
    assert passed == [0, 0, 1, 1, 1, 1]
    assert deaths == [signal.SIGSTOP]

    arm({VARIABLE: "sent:kill9"})
    reached("sent")
    assert deaths == [signal.SIGSTOP, signal.SIGKILL]


def test_a_point_in_a_transaction_comes_after_its_statements(deaths: list[int]) -> None:
    seen: list[str] = []

    def write(conn: sa.Connection, what: str) -> str:
        seen.append(f"{what} {len(deaths)}")
        return what

    conn = sa.create_engine("sqlite://").connect()
    with conn:
        assert before_commit("planning", write) is write
        arm({VARIABLE: "planning:kill9"})
        assert before_commit("claiming", write) is write
        assert before_commit("planning", write)(conn, what="fires") == "fires"
    assert seen == ["fires 0"]
    assert deaths == [signal.SIGKILL]


def test_nothing_happens_unarmed(deaths: list[int]) -> None:
    arm({VARIABLE: "planned:kill9"})
    arm({})
    for point in fault_points.POINTS:
        reached(point)
    assert deaths == []


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("clamed:kill9", "no point 'clamed'; there are planning, planned"),
        ("claimed", "no action ''; there are kill9, stop"),
        ("claimed:explode", "no action 'explode'"),
        ("claimed:kill9:0", "'0' is not the how-manieth time"),
        ("claimed:kill9:-1", "'-1' is not the how-manieth time"),
        ("claimed:kill9:1:2", "'1:2' is not the how-manieth time"),
    ],
)
def test_a_wrong_value_is_told(value: str, complaint: str) -> None:
    with pytest.raises(FaultPointError) as refusal:
        arm({VARIABLE: value})
    assert str(refusal.value).startswith(f"{VARIABLE}: {complaint}")


def test_a_wrong_value_stops_the_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tickwheel_admin.cli", "serve", "--data-dir", tmp_path / "data"],
        env=os.environ | {VARIABLE: "clamed:kill9"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"{VARIABLE}: no point 'clamed'; there are planning" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_dies_with_its_transaction_open(tmp_path: Path) -> None:
    program = f"""
import sqlalchemy as sa
from tickwheel_admin.engine.fault_points import arm, before_commit
arm({{"{VARIABLE}": "planning:kill9:2"}})
engine = sa.create_engine("sqlite:///{tmp_path}/some.db")
write = before_commit("planning", lambda conn, text: conn.execute(sa.text(text)))
for text in ("CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)"):
    with engine.begin() as conn:
        write(conn, text)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with closing(sqlite3.connect(tmp_path / "some.db")) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
