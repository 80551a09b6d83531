"""The screen of `tickwheel top`, and its thread."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.admin.cli.client.scripted import Scripted
from tickwheel_admin.cli import main
from tickwheel_admin.cli.client.errors import ApiRefused, NotReached
from tickwheel_admin.cli.client.output.words import width_of
from tickwheel_admin.cli.client.top.live import Watch
from tickwheel_admin.cli.client.top.screen import SORTS, TopView, screen_lines
from tickwheel_admin.cli.client.top.snapshot import Snapshot

AT = "2026-03-01T08:00:00Z"


def run(number: int, **more: Any) -> dict[str, Any]:
    fields = {
        "id": number, "executor_name": "shop", "job_name": f"月报 {number}", "state": "running",
        "started_at": f"2026-03-01T08:00:{number:02}Z", "ended_at": None, "due_at": AT,
        "origin": "schedule", "reason": None, "node_name": f"node-{9 - number % 3}",
        "progress": 0.5, "progress_text": "half",
    }  # fmt: skip
    return fields | more


def concern(number: int) -> dict[str, Any]:
    return {
        "severity": "error", "message": f"Job {number} failed.", "executor_name": "shop",
        "job_name": "x", "admin_name": None,
    }  # fmt: skip


NODE = {
    "id": 7, "name": "node-1", "executor_name": "shop", "in_use": 3, "slots": 4, "state": "live",
    "drain_wanted": False, "draining": False, "safe_to_stop": False, "cordoned": True,
}  # fmt: skip
LOOKED = {"items": [], "succeeded": 5, "failed": 1, "open_alarms": 2}
EXECUTOR = {"id": 1, "name": "shop", "in_use": 3, "slots": 4, "live_nodes": 1}


def snapshot(running: int = 0, waiting: int = 0, concerns: int = 0, nodes: int = 1) -> Snapshot:
    return Snapshot(
        at=datetime(2026, 3, 1, 9, tzinfo=UTC),
        url="http://127.0.0.1:8500",
        paused_at=None,
        attention=LOOKED | {"items": [concern(each) for each in range(concerns)]},
        running=[run(each) for each in range(running)],
        running_count=running,
        waiting=[run(each, state="queued") for each in range(waiting)],
        waiting_count=waiting,
        executors=[EXECUTOR],
        nodes=[NODE | {"name": f"node-{each}"} for each in range(nodes)],
    )


@pytest.mark.parametrize("rows", [10, 24, 60])
@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (1, 1, 1, 1), (50, 50, 50, 50), (0, 50, 0, 1)])
def test_a_screen_fits_its_terminal(rows: int, columns: int, counts: tuple[int, ...]) -> None:
    lines = screen_lines(snapshot(*counts), TopView(), columns=columns, rows=rows)
    assert len(lines) == rows
    assert max(width_of(line.text) for line in lines) <= columns
    assert lines[-1].text.startswith("q quit")


def test_eighty_by_twenty_four_has_a_part_of_everything() -> None:
    lines = screen_lines(snapshot(50, 50, 50, 50), TopView(), columns=80, rows=24)
    text = "\n".join(line.text for line in lines)
    assert "running 50  waiting 50  slots 3/4  nodes 1  alarms 2  24 h: 5 ok, 1 failed" in text
    for title in ("Needs attention: 50", "Running: 50", "Waiting: 50", "Nodes: 1"):
        assert f"{title} (the first" in text
    assert "███" in text
    assert sum(line.word == "error" for line in lines) >= 1


def test_running_runs_have_an_order() -> None:
    view = TopView()
    seen = {}
    for _ in SORTS:
        lines = screen_lines(snapshot(running=4), view, columns=120, rows=None)
        start = next(i for i, line in enumerate(lines) if line.text.startswith("Running"))
        seen[view.sort] = [int(line.text.split()[0]) for line in lines[start + 2 : start + 6]]
        view = view.next_sort()
    assert seen == {
        "longest": [0, 1, 2, 3],
        "newest": [3, 2, 1, 0],
        "job": [0, 1, 2, 3],
        "node": [2, 1, 0, 3],
    }
    assert view == TopView()


def test_trouble_is_told_in_the_last_line() -> None:
    lines = screen_lines(snapshot(), TopView(), columns=80, rows=12, trouble="no admin answers")
    assert (lines[-1].text.strip(), lines[-1].word) == ("no admin answers", "error")


def test_the_thread_goes_on_when_nobody_answers_and_ends_when_it_is_refused() -> None:
    script: list[Any] = [
        snapshot(),
        NotReached("away"),
        snapshot(running=1),
        ApiRefused("no", status=401, code="login.required"),
    ]
    seen: list[tuple[Any, str]] = []

    def take() -> Snapshot:
        seen.append((watch.newest and watch.newest.running_count, watch.trouble))
        answer = script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    watch = Watch(take, seconds=0)
    watch.start()
    watch.join(10)
    assert not watch.is_alive()
    assert seen == [(None, ""), (0, ""), (0, "away"), (1, "")]
    assert watch.failure is not None
    assert threading.active_count() >= 1


def test_without_a_terminal_it_is_printed_once(
    admin: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    page = {"items": [run(1)], "next": None}
    answers = [
        (200, {"items": [EXECUTOR]}), (200, page), (200, page),
        (200, {"name": "shop", "id": 1, "nodes": [NODE, NODE | {"state": "gone"}]}),
        (200, {"paused_at": AT}), (200, LOOKED),
    ]  # fmt: skip
    admin.will(*answers, *answers)
    assert main(["top"]) == 0
    told = capsys.readouterr().out
    assert "Everything is paused since" in told
    assert "shop/月报 1" in told
    assert main(["top", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["running_count"], len(shown["nodes"])) == (1, 1)
