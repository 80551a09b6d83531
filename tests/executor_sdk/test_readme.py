"""Every Python block of the README is executed, and every handler in it runs.

Stubs stand for what the reader brings along (`find_order`, `metrics`), and for nothing else.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import tickwheel_executor
from tickwheel_executor import Executor, Run
from tickwheel_executor.testing import FakeAdmin, HandlerEnd, run_handler

README = Path(__file__).parents[2] / "executor_sdk" / "README.md"
URL = "http://localhost:8500"


@dataclass(frozen=True, slots=True)
class Block:
    """One block of Python."""

    chapter: str
    number: int  # within the chapter
    code: str

    def __str__(self) -> str:
        return f"{self.chapter} {self.number}"


def blocks() -> list[Block]:
    found = []
    for chapter in re.split(r"(?m)^##+ ", README.read_text())[1:]:
        codes = re.findall(r"```python\n(.*?)```", chapter, re.DOTALL)
        title = chapter.partition("\n")[0]
        found += [Block(title, number, code) for number, code in enumerate(codes, start=1)]
    return found


def block(chapter: str, number: int = 1) -> Block:
    (found,) = [each for each in blocks() if (each.chapter, each.number) == (chapter, number)]
    return found


async def execute(code: str, **names: Any) -> dict[str, Any]:
    """What a block leaves, executed as in a module after those above it; it may await."""
    namespace = {name: getattr(tickwheel_executor, name) for name in tickwheel_executor.__all__}
    namespace |= {"__name__": "service", **names}
    compiled = compile(code, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(compiled, namespace)
    if inspect.isawaitable(value):
        await value
    return namespace


def make_executor(admin: FakeAdmin | None = None, directory: Path | None = None) -> Executor:
    return Executor(
        "billing",
        admins=[admin.url if admin else URL],
        token=admin.token if admin else "t" * 40,
        spool_dir=directory,
    )


async def a_coroutine(value: Any) -> Any:
    return value


# --- blocks that register handlers ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """How to run a handler of the README, and what must come of it."""

    check: Callable[[HandlerEnd], bool]
    names: dict[str, Any] = field(default_factory=dict)  # what the reader brings along
    given: dict[str, Any] = field(default_factory=dict)


PROVIDER = SimpleNamespace(
    charge=lambda order: a_coroutine(SimpleNamespace(status=429, retry_after=30))
)
CASES: dict[str, Case] = {
    "cleanup": Case(
        check=lambda end: end.result == 3,
        names={"remove_expired_baskets": lambda: a_coroutine(3), "articles_at": len},
    ),
    "count-articles": Case(
        check=lambda end: end.lines() == ["counting at https://warehouse.example.com"],
        names={"articles_at": len},
    ),
    "write-report": Case(
        check=lambda end: end.result == "2026-03.pdf",
        given={"parameters": {"month": "2026-03-01", "copies": 2}},
    ),
    "charge": Case(
        check=lambda end: (end.outcome, end.retry_after) == ("failed", 30.0),
        names={
            "find_order": lambda order: a_coroutine(SimpleNamespace(paid=False)),
            "provider": PROVIDER,
        },
        given={"parameters": {"order": "4711"}},
    ),
    "nightly-invoices": Case(check=lambda end: end.succeeded),
    "crawl-shop": Case(
        check=lambda end: end.spawned == ["/1", "/2"],
        names={
            "pages_of": lambda shop: a_coroutine(["/1", "/2"]),
            "month_end": SimpleNamespace(step=lambda *given, **fields: None),
        },
        given={"parameters": {"shop": "eu"}, "origin": "step", "may_spawn": True},
    ),
    "export-orders": Case(
        check=lambda end: end.result == {"files": ["05-eu.csv", "05-us.csv"]},
        given={"parameters": {"month": "05"}},
    ),
    "book-file": Case(check=lambda end: end.result == 100, given={"parameters": {"file": "a.csv"}}),
    "close-books": Case(
        check=lambda end: end.result == 30,
        given={"parameters": {"month": "05", "booked": [10, None, 20]}},
    ),
    "sync-stock": Case(check=lambda end: end.succeeded, given={"parameters": {}}),
    "count-stock": Case(
        check=lambda end: [line.level for line in end.log] == ["info", "warning", "info"],
    ),
    "import-orders": Case(
        check=lambda end: (end.result, end.state) == (1, {"since": "2026-03-01"}),
        names={
            "orders_after": lambda since: a_coroutine([{"date": "2026-03-01"}]),
            "store": lambda order: a_coroutine(None),
        },
        given={"state": {}},
    ),
    "monthly-report": Case(
        check=lambda end: end.result == 12,
        names={"write_page": lambda year, page: a_coroutine(f"{year}/{page}")},
        given={"parameters": {"year": 2026}, "checkpoint": ["a", "b"]},
    ),
    "export": Case(
        check=lambda end: end.outcome == "succeeded",
        names={"rows": lambda: [1, 2], "write": lambda row: None},
    ),
}


def handlers_of(code: str) -> list[str]:
    return re.findall(r"executor\.handler\(\s*\"([^\"]+)\"", code)


PROGRAM = ("Executor(", "isolation=")  # what has to be a program of its own
HANDLER_BLOCKS = [
    each
    for each in blocks()
    if handlers_of(each.code) and not any(word in each.code for word in PROGRAM)
]


@pytest.mark.parametrize("block", HANDLER_BLOCKS, ids=str)
async def test_every_handler_runs(block: Block) -> None:
    for name in handlers_of(block.code):
        assert name in CASES, f"no test runs the handler {name!r} of the README: add a case"
        case = CASES[name]
        executor = make_executor()
        await execute(block.code, executor=executor, **case.names)
        end = await run_handler(executor, name, **case.given)
        assert case.check(end), end


async def test_an_unknown_order_and_a_paid_one_end_as_the_readme_says() -> None:
    code = block("Retry, fail, skip").code
    for order, outcome, final in (
        (None, "failed", True),
        (SimpleNamespace(paid=True), "skipped", False),
    ):
        executor = make_executor()
        await execute(code, executor=executor, find_order=lambda _, order=order: a_coroutine(order))
        end = await run_handler(executor, "charge", parameters={"order": "1"})
        assert (end.outcome, end.final) == (outcome, final)


async def test_jobs_are_declared() -> None:
    executor = make_executor()
    await execute(block("Jobs in code").code, executor=executor)
    jobs = {job["name"]: job for job in executor.declared_jobs}
    assert list(jobs) == ["nightly-invoices", "sync-stock", "sync-stock-south"]
    (trigger,) = jobs["nightly-invoices"]["triggers"]
    assert (trigger["expression"], trigger["timezone"]) == ("0 0 3 * * ?", "Asia/Shanghai")
    assert jobs["sync-stock"]["triggers"][0]["every_seconds"] == 300
    assert jobs["sync-stock-south"]["handler"] == "sync-stock"


async def test_a_workflow_is_declared() -> None:
    executor = make_executor()
    await execute(block("Workflows in code").code, executor=executor)
    (job,) = executor.declared_jobs
    assert [step["key"] for step in job["workflow"]["steps"]] == ["export", "book", "sign", "close"]


def test_the_documents_show_the_same_handler_that_spawns() -> None:
    handler = block("Workflows in code", 3).code.partition("\n\n\n")[0]
    assert handler in (README.parents[1] / "docs/workflows.md").read_text()


async def test_hooks_are_called_around_a_handler() -> None:
    told: list[object] = []
    executor = make_executor()
    await execute(
        block("Hooks").code,
        executor=executor,
        sessions=SimpleNamespace(open=told.append, close=told.append),
        metrics=SimpleNamespace(count=lambda job, outcome, seconds: told.append(outcome)),
    )
    executor.handler("work")(lambda: told.append("work"))
    await run_handler(executor, "work")
    assert told == [1, "work", 1, "succeeded"]


# --- blocks that are programs, or parts of them ---------------------------------------------------


async def run_service(admin: FakeAdmin, directory: Path, code: str) -> asyncio.subprocess.Process:
    script = directory / "service.py"
    script.write_text(code.replace(URL, admin.url))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        env={"TICKWHEEL_TOKEN": admin.token, "XDG_STATE_HOME": str(directory)},
        stderr=asyncio.subprocess.PIPE,
    )


async def test_the_service_of_two_minutes_runs(tmp_path: Path) -> None:
    async with FakeAdmin("billing") as admin:
        process = await run_service(admin, tmp_path, block("Two minutes").code)
        try:
            node = await admin.node()
            assert node.schemas["send-invoices"]["required"] == ["month"]
            end = await admin.run("send-invoices", {"month": "2026-03"})
            assert (end.result, end.progress[-1]) == ({"sent": 100}, (1.0, "100 of 100"))
        finally:
            process.terminate()
            _, output = await process.communicate()
        assert process.returncode == 0, output


async def test_a_handler_has_a_process_of_its_own(tmp_path: Path) -> None:
    before, main = block("Two minutes").code.split("@executor.handler")[0], "\nexecutor.run()\n"
    pages = tmp_path / "pages"
    stub = f"def draw(page):\n    open({str(pages)!r}, 'a').write(f'{{page}} ')\n\n"
    async with FakeAdmin("billing") as admin:
        process = await run_service(admin, tmp_path, before + stub + block("Processes").code + main)
        try:
            end = await admin.run("render", {"pages": 3})
            assert (end.result, pages.read_text(), end.progress[-1].fraction) == (3, "1 2 3 ", 1)
        finally:
            process.terminate()
            _, output = await process.communicate()
        assert process.returncode == 0, output


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_it_lives_inside_a_service_with_a_loop(tmp_path: Path, number: int) -> None:
    async with FakeAdmin() as admin:
        executor = make_executor(admin, tmp_path)
        executor.handler("work")(lambda: "done")
        code = block("Inside your service", number).code

        async def look() -> None:
            assert (await admin.run("work")).result == "done"

        if number == 3:
            code = code.replace("...", "await look()")
        names = await execute(code, executor=executor, look=look)
        if number == 1:
            app = names["app"]
            async with app.router.lifespan_context(app):
                await look()
        elif number == 2:
            runner = names["web"].AppRunner(names["app"])
            await runner.setup()
            await look()
            await runner.cleanup()
        await admin.no_node()


async def test_it_lives_inside_a_service_without_a_loop(tmp_path: Path) -> None:
    async with FakeAdmin() as admin:
        executor = make_executor(admin, tmp_path)
        executor.handler("work")(lambda: "done")
        told: list[object] = []

        def look() -> None:
            told.append(admin.run("work").result().result)

        code = block("Inside your service", 4).code.replace("...", "look()")
        await asyncio.to_thread(exec, code, {"executor": executor, "look": look})
        assert told == ["done"]
        await admin.no_node()


async def test_a_worker_starts_its_node_after_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeAdmin() as admin:
        executor = make_executor(admin, tmp_path)
        executor.handler("work")(lambda: "done")
        module = ModuleType("service")
        vars(module)["executor"] = executor
        monkeypatch.setitem(sys.modules, "service", module)
        names = await execute(block("Inside your service", 5).code)
        names["post_worker_init"](worker=None)
        await admin.node()
        assert await asyncio.to_thread(executor.stop)


async def test_structlog_keeps_its_levels() -> None:
    names = await execute(block("Logging", 2).code)
    try:
        logger = names["structlog"].get_logger()
        end = await run_handler(lambda: logger.warning("low stock", article=7))
    finally:
        names["structlog"].reset_defaults()
    ((level, text),) = end.log
    assert level == "warning"
    assert "low stock" in text


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the reader has made of the chapters above."""

    async def find_order(order: str) -> None:
        return None

    module = ModuleType("service")
    for chapter in ("Two minutes", "Retry, fail, skip", "Workflows in code"):
        names = vars(module) | {"__name__": "service", "find_order": find_order}
        monkeypatch.setenv("TICKWHEEL_TOKEN", "t" * 40)
        exec(compile(block(chapter).code, "service.py", "exec"), names)
        vars(module).update(names)
    monkeypatch.setitem(sys.modules, "service", module)
    return module


@pytest.mark.parametrize(
    ("chapter", "number", "count"),
    [("Testing your handlers", 1, 3), ("Testing your handlers", 3, 2), ("Workflows in code", 2, 3)],
)
async def test_the_tests_of_the_readme_pass(
    service: ModuleType, tmp_path: Path, chapter: str, number: int, count: int
) -> None:
    code = block(chapter, number).code
    names = await execute(code, send_invoices=service.send_invoices)
    found = [value for name, value in names.items() if name.startswith("test_")]
    assert len(found) == count
    for test in found:
        given = {"tmp_path": tmp_path} if inspect.signature(test).parameters else {}
        if inspect.iscoroutinefunction(test):
            await test(**given)
        else:
            await asyncio.to_thread(test, **given)


def test_the_simulated_schedule_of_the_readme_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor("billing", admins=[URL], token="t" * 32)
    zone = {"timezone": "Europe/Berlin"}
    executor.handler("send-invoices", cron="0 8 * * 1-5", calendar="holidays", **zone)(lambda: None)
    executor.handler("close-books", cron="30 2 * * *", **zone)(lambda: None)
    monkeypatch.setitem(sys.modules, "service", SimpleNamespace(executor=executor))
    (test,) = (
        value
        for name, value in asyncio.run(execute(block("Testing your handlers", 2).code)).items()
        if name.startswith("test_")
    )
    test()


# --- metrics --------------------------------------------------------------------------------------


async def test_metrics_as_numbers_and_for_prometheus(tmp_path: Path) -> None:
    async with FakeAdmin() as admin:
        executor = make_executor(admin, tmp_path)

        @executor.handler("work")
        async def work(run: Run) -> None:
            if run.parameters:
                raise ValueError("no")

        health = (await execute(block("Metrics", 1).code, executor=executor))["health"]
        assert health() == {"connected": False, "free": 0}
        registry = CollectorRegistry()  # not the one that all tests of this process share
        code = block("Metrics", 2).code.replace("REGISTRY.", "registry.")
        await execute(code, executor=executor, registry=registry)
        async with executor:
            await admin.node()
            await admin.run("work")
            await admin.run("work", {"fail": True})
            assert health() == {"connected": True, "free": 16}
            text = generate_latest(registry).decode()
    told = README.read_text().partition("## Metrics")[2].partition("\n## ")[0]
    names = set(re.findall(r"(?m)^(tickwheel_executor_\w+)[ {]", text))
    assert names == set(re.findall(r"`(tickwheel_executor_\w+)", told))
    for line in (
        'attempts_started_total{executor="billing"} 2.0',
        'attempts_ended_total{executor="billing",outcome="succeeded"} 1.0',
        'attempts_ended_total{executor="billing",outcome="failed"} 1.0',
        'attempts_refused_total{executor="billing",reason="full"} 0.0',
        'attempts_running{executor="billing"} 0.0',
        'slots{executor="billing"} 16.0',
        'spool_works{executor="billing"} 1.0',
        f'admin_connected{{admin="{admin.url}",executor="billing"}} 1.0',
    ):
        assert f"tickwheel_executor_{line}" in text.splitlines(), text


# --- clients --------------------------------------------------------------------------------------


@contextmanager
def shop(service: ModuleType, directory: Path) -> Iterator[FakeAdmin]:
    with FakeAdmin() as admin:
        executor = make_executor(admin, directory)
        executor.handler("send-invoices")(service.send_invoices)
        executor.start()
        admin.node().result()
        try:
            yield admin
        finally:
            executor.stop()


def test_a_client_with_a_loop(
    service: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop(service, tmp_path) as admin:
        monkeypatch.setenv("TICKWHEEL_API_TOKEN", admin.api_token)
        code = block("Client", 1).code.replace(URL, admin.url)
        names = asyncio.run(execute(code))
        assert asyncio.run(names["close_month"]("2026-03")) == {"sent": 100}
        with pytest.raises(SystemExit, match="expected str, got int"):
            asyncio.run(names["close_month"](3))


def test_a_client_without_a_loop(
    service: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with shop(service, tmp_path) as admin:
        code = block("Client", 2).code
        assert "http://admin-2:8500" in code
        code = re.sub(r"http://admin-\d:8500", admin.url, code)
        exec(compile(code, "README.md", "exec"), {"token": admin.api_token})
        assert capsys.readouterr().out == "succeeded\n"


# --- nothing is left out --------------------------------------------------------------------------

OTHERS = {
    "Two minutes": 1,
    "Processes": 1,
    "Hooks": 1,
    "Logging": 2,
    "Inside your service": 5,
    "Metrics": 2,
    "Client": 2,
    "Testing your handlers": 3,
    "Workflows in code": 2,
}


def test_every_block_is_executed_by_a_test_above() -> None:
    handled = {str(each) for each in HANDLER_BLOCKS}
    others = {f"{chapter} {n}" for chapter, last in OTHERS.items() for n in range(1, last + 1)}
    assert {str(each) for each in blocks()} == handled | others


def test_the_settings_of_the_readme_are_all_there_are() -> None:
    parameters = list(inspect.signature(Executor).parameters)
    text = README.read_text().partition("## Settings")[2].partition("\n## ")[0]
    assert re.findall(r"(?m)^\| `(\w+)` \|", text) == parameters[1:]


def test_links_within_the_readme_lead_somewhere() -> None:
    text = README.read_text()
    titles = re.findall(r"(?m)^##+ (.*)$", text)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
    for path in re.findall(r"\]\((?!#|https?:)([^)]+)\)", text):
        assert (README.parent / path.partition("#")[0]).exists(), path
