"""What the README and the examples show works as shown."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from tickwheel_executor import Run
from tickwheel_executor.handlers import Handlers
from tickwheel_shared.protocol import LogChunk, Outcome, Progress, Result, RunRequest

from .fake_admin import TOKEN, FakeAdmin, make_node, request, value

SDK = Path(__file__).parents[2] / "executor_sdk"


@pytest.fixture
def demo() -> ModuleType:
    path = SDK / "examples" / "demo_executor.py"
    spec = importlib.util.spec_from_file_location("demo_executor", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_every_demo_handler_does_what_it_says(demo: ModuleType) -> None:
    admin = FakeAdmin()
    handlers = {
        "quick": demo.quick,
        "slow-report": demo.slow_report,
        "flaky": demo.flaky,
        "minutely-cleanup": demo.minutely_cleanup,
        "sync-export": demo.sync_export,
        "mail-digest": demo.mail_digest,
        "warm-cache": demo.warm_cache,
        "import-orders": demo.import_orders,
        "stock-sync": demo.stock_sync,
        "refresh-customer": demo.refresh_customer,
    }
    random.seed(5)
    node = make_node(admin, handlers=handlers, slots=20)
    await node.start()
    session = await admin.session()
    short = {
        "slow-report": b'{"seconds": 0.2}',
        "sync-export": b'{"rows": 50}',
        "mail-digest": b'{"revenue": 5000, "month": "2026-10", "to": ["a@example.com"]}',
    }
    names = [*handlers, *["flaky"] * 9]
    session.send(
        *(
            request(run, handler=name, parameters=msgspec.Raw(short.get(name, b"{}")))
            for run, name in enumerate(names, start=1)
        )
    )
    results = {}
    for _ in names:
        result = await session.expect(Result)
        results[result.run] = result
    by_name = {name: results[run] for run, name in enumerate(handlers, start=1)}
    assert value(by_name["quick"]) == {"ok": True}
    assert value(by_name["slow-report"])["batches"] == 40
    assert value(by_name["minutely-cleanup"])["removed"] >= 0
    assert value(by_name["sync-export"])["rows"] == 50
    assert value(by_name["mail-digest"]) == {"mails": 1}
    assert value(by_name["warm-cache"])["entries"] >= 800
    assert value(by_name["stock-sync"])["articles"] >= 1_000
    assert value(by_name["refresh-customer"]) == {"customer": demo.CUSTOMERS[0]}
    imported = by_name["import-orders"]
    assert imported.retry_after_ms == 3_000 or value(imported) == {"orders": 400}
    flaky = [results[run] for run, name in enumerate(names, start=1) if name == "flaky"]
    assert {result.outcome for result in flaky} == {Outcome.SUCCEEDED, Outcome.FAILED}
    levels = {line.level for chunk in session.all(LogChunk) for line in chunk.lines}
    assert levels == {"debug", "info", "warning", "error"}
    assert session.all(Progress)[-1].fraction == 1.0
    assert await node.drain(1)


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


async def test_what_the_demo_keeps_goes_on_where_it_stopped(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = FakeAdmin()
    handlers = {"read-ledger": demo.read_ledger, "copy-archive": demo.copy_archive}
    monkeypatch.setattr(demo.random, "random", lambda: 1.0)  # no connection is lost
    node = make_node(admin, handlers=handlers, slots=2)
    await node.start()
    session = await admin.session()
    session.send(
        request(1, handler="read-ledger", state=msgspec.Raw(b'{"read": 40, "runs": 1}')),
        request(2, 2, handler="copy-archive", checkpoint=msgspec.Raw(b'{"files": 10}')),
    )
    results = {(result := await session.expect(Result)).run: result for _ in range(2)}
    assert value(results[2]) == {"files": 12}
    entries = value(results[1])["entries"]
    left = results[1].state
    assert left is not None
    assert msgspec.json.decode(left) == {"read": 40 + entries, "runs": 2}
    copied = [line.text for chunk in session.all(LogChunk) for line in chunk.lines]
    assert "file 11 of 12 copied" in copied
    assert "file 10 of 12 copied" not in copied
    assert await node.drain(1)


def readme_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (SDK / "README.md").read_text(), re.DOTALL)


def handler_in_the_readme(marker: str, **names: Any) -> Any:
    """The handler of the one block with this text, which is given these names."""
    (block,) = [each for each in readme_blocks() if marker in each]
    handlers = Handlers()

    class Recorded:
        def handler(self, name: str) -> Any:
            return lambda function: handlers.add(name, function)

    exec(compile(block, "README.md", "exec"), {"executor": Recorded(), "Run": Run, **names})
    (name,) = handlers
    found = handlers.get(name)
    assert found is not None
    return found.function


async def run_in_order(function: Any, *given: RunRequest) -> list[Result]:
    """What a handler makes of these attempts, one after the other."""
    admin = FakeAdmin()
    node = make_node(admin, handlers={"work": function})
    await node.start()
    session = await admin.session()
    results = []
    for each in given:
        session.send(each)
        results.append(await session.expect(Result))
    assert await node.drain(1)
    return results


async def test_the_state_in_the_readme_goes_from_run_to_run() -> None:
    stored: list[dict[str, str]] = []
    orders = [{"date": "2026-03-01"}, {"date": "2026-03-02"}]

    async def orders_after(since: str) -> list[dict[str, str]]:
        return [order for order in orders if order["date"] > since]

    async def store(order: dict[str, str]) -> None:
        stored.append(order)

    function = handler_in_the_readme("run.state[", orders_after=orders_after, store=store)
    (first,) = await run_in_order(function, request(1, state=msgspec.Raw(b"{}")))
    assert (value(first), bytes(first.state)) == (2, b'{"since":"2026-03-02"}')
    orders.append({"date": "2026-03-03"})
    (second,) = await run_in_order(function, request(2, state=first.state))
    assert (value(second), stored) == (1, orders)


async def test_the_checkpoint_in_the_readme_goes_from_try_to_try() -> None:
    written: list[int] = []

    async def write_page(year: int, page: int) -> str:
        written.append(page)
        if written.count(5) == 1 and page == 5:
            raise OSError("no paper")
        return f"{year}/{page}"

    function = handler_in_the_readme("save_checkpoint", write_page=write_page)
    year = msgspec.Raw(b'{"year": 2026}')
    (first,) = await run_in_order(function, request(1, 1, parameters=year))
    assert first.outcome is Outcome.FAILED
    again = request(1, 2, parameters=year, checkpoint=first.checkpoint)
    (second,) = await run_in_order(function, again)
    assert (value(second), written) == (12, [*range(6), *range(5, 12)])
