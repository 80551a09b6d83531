"""What the page of a large workflow's run costs a browser, and the admin that makes it.

    python -m tests.bench.scenarios.browser.workflow_run [--steps N] [--items N] [--json FILE]

A run of 500 steps, one of them with 10,000 items, stands in a database of its own; the real
console answers, and the Chromium of this machine looks. Measured are the first paint with
everything cached, and live updates in which twenty steps end and twenty begin: the time that
scripts take in all, and the longest task, which is how long a click would wait. Prints a table;
asserts nothing about time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import sqlalchemy as sa
import structlog
from aiohttp import web
from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.browser.kit.consoles import choose_password
from tests.browser.samples.rows import row
from tests.support.browsers import find_chromium
from tests.support.processes import free_port
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.config import load_config
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.domain.workflows.states import StepState, StepStatus
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import metadata, run, workflow_step
from tickwheel_admin.store.workflows.steps import ItemRun, insert_items, insert_steps, update_steps

AT_ONCE = 20  # steps that end, and that begin, between two updates
WIDE = 10  # steps beside each other
ADMIN = Actor(user_id=1, name="admin", grants={ALL_EXECUTORS: Role.ADMIN})
RUN_ID = 1_000_000
PAINT = """() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"""
WATCH = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const {duration} of list.getEntries()) window.longest = Math.max(window.longest, duration);
  }).observe({type: 'longtask'});
}"""


def main() -> int:
    asked = _parse()
    executable = find_chromium()
    if executable is None:
        print("no Chromium is installed", file=sys.stderr)
        return 1
    with _served(asked.steps, asked.items) as (url, database), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": "tickwheel_session", "value": url[1], "url": url[0]}])
        figures = measure(context.new_page(), url[0], database, asked)
        browser.close()
    for name, value in figures.items():
        print(f"{name:<44}{value:>10,.1f}")
    if asked.json:
        Path(asked.json).write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.browser.workflow_run", description=__doc__
    )
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--items", type=int, default=10_000, help="of one of the steps")
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--json", help="file to write")
    return parser.parse_args()


def measure(page: Page, url: str, database: Path, asked: argparse.Namespace) -> dict[str, float]:
    """Figures by name, in milliseconds unless the name says else."""
    address = f"{url}/runs/{RUN_ID}"
    page.goto(address)  # fills the cache
    paints, answers = [], []
    for _ in range(5):
        page.goto(address)
        page.wait_for_timeout(500)
        paints.append(page.evaluate(PAINT))
        answers.append(
            page.evaluate("() => performance.getEntriesByType('navigation')[0].responseStart")
        )
    session = page.context.new_cdp_session(page)
    # Processor time of the page's thread: other work on this machine does not count.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate(WATCH)
    found: dict[str, list[float]] = {}
    engine = sa.create_engine(f"sqlite:///{database}")
    for number in range(asked.updates):
        with engine.begin() as conn:
            _go_on(conn, number)
        before = _metrics(session)
        page.evaluate("() => { window.longest = 0; }")
        with page.expect_response(lambda answer: answer.url.endswith("/steps")) as told:
            page.evaluate("() => document.body.dispatchEvent(new CustomEvent('live:runs'))")
        page.wait_for_timeout(1_500)
        after = _metrics(session)
        spent = {name: (after[name] - before[name]) * 1_000 for name in after}
        for name, value in (
            ("update: scripting", spent["ScriptDuration"]),
            ("update: style and layout", spent["LayoutDuration"] + spent["RecalcStyleDuration"]),
            ("update: longest task of more than 50", page.evaluate("() => window.longest")),
            ("update: KiB of the answer", len(told.value.body()) / 1024),
        ):
            found.setdefault(name, []).append(value)
    return {
        "first paint, warm cache": median(paints),
        "first byte of the page": median(answers),
        "KiB of the page": len(page.content()) / 1024,
        "elements of the page": page.evaluate("() => document.querySelectorAll('*').length"),
        **{name: median(values) for name, values in found.items()},
        "update: longest task of all, if more than 50": max(
            found["update: longest task of more than 50"]
        ),
    }


def _metrics(session: CDPSession) -> dict[str, float]:
    told = session.send("Performance.getMetrics")["metrics"]
    wanted = {"ScriptDuration", "LayoutDuration", "RecalcStyleDuration"}
    return {each["name"]: each["value"] for each in told if each["name"] in wanted}


def _go_on(conn: sa.Connection, number: int) -> None:
    """Twenty steps end, twenty begin, and a hundred items end."""
    now = int(time.time() * 1_000)
    rows = conn.execute(
        sa.select(*(workflow_step.c[name] for name in StepStatus.__struct_fields__)).where(
            workflow_step.c.workflow_run_id == RUN_ID
        )
    )
    steps = [StepStatus(**each._mapping) for each in rows]
    running = [each for each in steps if each.state == "running" and each.items is None]
    waiting = [each for each in steps if each.state == "waiting"]

    def to(step: StepStatus, **changes: Any) -> StepStatus:
        values = {name: getattr(step, name) for name in StepStatus.__struct_fields__}
        return StepStatus(**(values | {"since": now} | changes))

    changed = [to(each, state=StepState.SUCCEEDED) for each in running[:AT_ONCE]]
    changed += [to(each, state=StepState.RUNNING, started_at=now) for each in waiting[:AT_ONCE]]
    changed += [
        to(each, since=each.since, items_succeeded=each.items_succeeded + 100)
        for each in steps
        if each.items is not None
    ]
    update_steps(conn, changed)


@contextmanager
def _served(steps: int, items: int) -> Iterator[tuple[tuple[str, str], Path]]:
    """A console over a filled database: its address with a session, and the file."""
    with tempfile.TemporaryDirectory(prefix="tickwheel-bench") as directory:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        port = free_port()
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(Path(directory), port, steps, items, sender), daemon=True
        )
        process.start()
        try:
            password = receiver.recv()
            url = f"http://127.0.0.1:{port}"
            cookie = choose_password(url, "admin", password)
            yield (url, cookie), Path(directory) / "tickwheel.db"
        finally:
            process.kill()
            process.join()


def _serve(directory: Path, port: int, steps: int, items: int, ready: Connection) -> None:
    asyncio.run(_answer(directory, port, steps, items, ready))


async def _answer(directory: Path, port: int, steps: int, items: int, ready: Connection) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    config = load_config({"data_dir": directory, "port": port, "name": "admin-1"}, environment={})
    services = create_services(Database(f"sqlite:///{directory / 'tickwheel.db'}"))
    await services.store.run(metadata.create_all)
    password = await services.users.ensure_first_admin()
    executor = await services.executors.create(ADMIN, name="warehouse", description="")
    graph = [_step(number) for number in range(steps)]
    job_id = await services.jobs.create(
        ADMIN, executor.id, {"name": "large", "workflow": {"steps": graph}}
    )
    workflow = (await services.jobs.get(ADMIN, job_id)).item.job.config.workflow
    assert workflow is not None
    await services.store.run(_add_run, workflow, job_id, executor.id, items)
    runner = web.AppRunner(create_app(config, services), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    ready.send(password)
    await asyncio.Event().wait()


def _step(number: int) -> dict[str, Any]:
    """A step that needs two of the row before; the one in the middle of it has items."""
    before = number - WIDE
    needs = sorted({before, before - before % WIDE + (before + 1) % WIDE}) if before >= 0 else []
    step = {"key": f"s{number}", "handler": "work", "needs": [f"s{each}" for each in needs]}
    if number == WIDE:
        step["for_each"] = "${parameters.files}"
    return step


def _add_run(
    conn: sa.Connection, workflow: Workflow, job_id: int, executor_id: int, items: int
) -> None:
    now = int(time.time() * 1_000)
    begun = now - 600_000
    at = {"scheduled_at": begun, "created_at": begun, "due_at": begun, "started_at": begun}
    rows = [
        row(
            id=RUN_ID, executor_id=executor_id, job_id=job_id, shard_index=-2, state="running", **at
        )
    ]
    statuses, item_runs = [], []
    hidden = workflow.job_of("s0")
    assert hidden is not None
    for index in range(len(workflow.steps)):
        own = RUN_ID + 1 + index
        state = "succeeded" if index < 200 else "running" if index < 220 else "waiting"
        status: dict[str, Any] = {"state": StepState(state), "since": begun + index * 2_000}
        if state != "waiting":
            status |= {"run_id": own, "started_at": begun + max(index - WIDE, 0) * 2_000}
            rows.append(
                row(
                    id=own, executor_id=executor_id, job_id=hidden[0], origin="step", state=state,
                    parent_run_id=RUN_ID, request_key=f"step:{RUN_ID}:s{index}:0", **at,
                )
            )  # fmt: skip
        if index == WIDE:
            status |= {
                "state": StepState.RUNNING, "run_id": None, "items": items, "next_item": items,
                "items_started": items, "items_succeeded": items // 10,
            }  # fmt: skip
            rows.pop()
            for item in range(items):
                item_run = RUN_ID + 10_000 + item
                item_runs.append(ItemRun(RUN_ID, index, item, item_run))
                rows.append(
                    row(
                        id=item_run, executor_id=executor_id, job_id=hidden[0], origin="step",
                        state="running", parent_run_id=RUN_ID,
                        request_key=f"step:{RUN_ID}:s{index}:{item}", **at,
                    )
                )  # fmt: skip
        statuses.append(StepStatus(workflow_run_id=RUN_ID, step_index=index, **status))
    conn.execute(sa.insert(run), rows)
    insert_steps(conn, statuses)
    insert_items(conn, item_runs)


if __name__ == "__main__":
    sys.exit(main())
