"""What the examples show works as shown; the README's own blocks are in test_readme."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tickwheel_executor.testing import HandlerEnd, run_handler, run_workflow

from .scripted_admin import TOKEN
from .test_readme import a_coroutine, block, execute, make_executor

SDK = Path(__file__).parents[2] / "executor_sdk"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Imported by its name, as the processes of its handlers do."""
    monkeypatch.syspath_prepend(str(SDK / "examples"))
    yield importlib.import_module("demo_executor")
    del sys.modules["demo_executor"]


QUICK: dict[str, dict[str, Any]] = {  # parameters, where those of the console take too long
    "slow-report": {"seconds": 0.05},
    "sync-export": {"rows": 50},
    "mail-digest": {"revenue": 5000, "month": "2026-10", "to": ["a@example.com"]},
    "price-list": {"customer": "Nordwind AG", "valid_from": "2026-03-01", "file_type": "csv"},
    "find-primes": {"below": 1_000},
}
LONG = {"rebuild-index", "train-model"}  # seconds of sleep, and nothing else
EXPECTED: dict[str, Any] = {
    "quick": lambda result: result == {"ok": True},
    "slow-report": lambda result: result["batches"] == 40,
    "minutely-cleanup": lambda result: result["removed"] >= 0,
    "sync-export": lambda result: result["rows"] == 50,
    "mail-digest": lambda result: result == {"mails": 1},
    "warm-cache": lambda result: result["entries"] >= 800,
    "import-orders": lambda result: result == {"orders": 400},
    "stock-sync": lambda result: result["articles"] >= 1_000,
    "refresh-customer": lambda result: result["customer"] == "Nordwind AG",
    "read-ledger": lambda result: result["entries"] >= 20,
    "copy-archive": lambda result: result == {"files": 12},
    "price-list": lambda result: result["file"] == "prices-2026-03-01.csv",
    "find-primes": lambda result: result == 168,
}


@pytest.fixture
def no_waiting(demo: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples take their time, so that there is something to see."""
    monkeypatch.setattr(demo, "asyncio", ModuleType("asyncio"))
    demo.asyncio.sleep = lambda seconds: a_coroutine(None)
    monkeypatch.setattr(demo, "time", ModuleType("time"))
    demo.time.sleep = lambda seconds: None


@pytest.mark.usefixtures("no_waiting")
async def test_every_demo_handler_does_what_it_says(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKWHEEL_ADMINS", "http://localhost:8500")
    monkeypatch.setenv("TICKWHEEL_TOKEN", TOKEN)
    monkeypatch.setattr(demo.random, "random", lambda: 1.0)  # no bad luck
    executor = demo.make_executor("node-1", 3)
    levels: set[str] = set()
    for name in set(executor.handlers) - LONG - {"flaky"}:
        end = await run_handler(executor, name, parameters=QUICK.get(name), state={})
        assert end.succeeded, end
        assert EXPECTED[name](end.result), end
        levels |= {line.level for line in end.log}
    assert levels == {"debug", "info", "warning", "error"}
    for name in LONG:
        assert (await run_handler(executor, name)).progress[-1].fraction == 1.0


@pytest.mark.usefixtures("no_waiting")
async def test_the_demo_has_its_bad_days(demo: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.random, "random", lambda: 0.0)
    flaky = await run_handler(demo.flaky)
    assert "503 Service Unavailable" in flaky.message
    early = await run_handler(demo.import_orders)
    assert (early.outcome, early.retry_after) == ("failed", 3)
    assert (await run_handler(demo.import_orders, try_number=2)).result == {"orders": 400}
    broken = await run_handler(demo.copy_archive, checkpoint={"files": 3})
    assert (broken.outcome, broken.checkpoint) == ("failed", {"files": 3})
    assert (await run_handler(demo.mail_digest, parameters={"revenue": 3})).outcome == "skipped"


@pytest.mark.usefixtures("no_waiting")
async def test_the_workflow_of_the_demo_is_played(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKWHEEL_ADMINS", "http://localhost:8500")
    monkeypatch.setenv("TICKWHEEL_TOKEN", TOKEN)
    workflow = demo.make_executor("node-1", 3).handlers.jobs.workflow("price-round")
    end = await run_workflow(workflow)  # nobody answers
    assert (end.result, end.seconds) == ({"mails": 2}, 300)
    assert len(end.steps["lists"].result) == len(demo.CUSTOMERS)
    declined = await run_workflow(workflow, answers={"check": False})
    assert declined.failed == ("check",)


def test_the_demo_is_configured_by_its_environment(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TICKWHEEL_ADMINS", "http://localhost:8500")
    monkeypatch.setenv("TICKWHEEL_TOKEN", TOKEN)
    monkeypatch.setenv("DEMO_LABELS", "zone=eu,gpu=a100")
    monkeypatch.setenv("DEMO_WEIGHT", "2")
    settings = demo.make_executor("node-1", 3).settings
    assert (settings.executor, settings.name, settings.slots) == ("demo", "node-1", 3)
    assert settings.weight == 2
    assert settings.labels == {"example": "demo_executor", "zone": "eu", "gpu": "a100"}


@pytest.mark.usefixtures("no_waiting")
async def test_what_the_demo_keeps_goes_on_where_it_stopped(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.random, "random", lambda: 1.0)  # no connection is lost
    ledger = await run_handler(demo.read_ledger, state={"read": 40, "runs": 1})
    assert ledger.state == {"read": 40 + ledger.result["entries"], "runs": 2}
    archive = await run_handler(demo.copy_archive, try_number=2, checkpoint={"files": 10})
    assert archive.result == {"files": 12}
    assert archive.lines() == [
        "10 of 12 files were copied by an earlier try",
        "file 11 of 12 copied",
        "file 12 of 12 copied",
    ]


# --- what the README says of state and checkpoints goes from run to run ---------------------------


async def run_block(chapter: str, names: dict[str, Any], **given: Any) -> HandlerEnd:
    """The end of the one handler of this block."""
    executor = make_executor()
    await execute(block(chapter).code, executor=executor, **names)
    (name,) = executor.handlers
    return await run_handler(executor, name, **given)


async def test_the_state_in_the_readme_goes_from_run_to_run() -> None:
    stored: list[dict[str, str]] = []
    orders = [{"date": "2026-03-01"}, {"date": "2026-03-02"}]

    async def orders_after(since: str) -> list[dict[str, str]]:
        return [order for order in orders if order["date"] > since]

    async def store(order: dict[str, str]) -> None:
        stored.append(order)

    names = {"orders_after": orders_after, "store": store}
    first = await run_block("State", names, state={})
    assert (first.result, first.state) == (2, {"since": "2026-03-02"})
    orders.append({"date": "2026-03-03"})
    second = await run_block("State", names, state=first.state)
    assert (second.result, stored) == (1, orders)


async def test_the_checkpoint_in_the_readme_goes_from_try_to_try() -> None:
    written: list[int] = []

    async def write_page(year: int, page: int) -> str:
        written.append(page)
        if written.count(5) == 1 and page == 5:
            raise OSError("no paper")
        return f"{year}/{page}"

    names = {"write_page": write_page}
    first = await run_block("Checkpoint", names, parameters={"year": 2026})
    assert first.outcome == "failed"
    second = await run_block(
        "Checkpoint",
        names,
        parameters={"year": 2026},
        try_number=2,
        checkpoint=first.checkpoint,
    )
    assert (second.result, written) == (12, [*range(6), *range(5, 12)])
