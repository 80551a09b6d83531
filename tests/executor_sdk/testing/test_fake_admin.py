"""`tickwheel_executor.testing.FakeAdmin`: whole executors against an admin without a database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Thread

import pytest

from tests.support.polling import wait_until_async
from tickwheel_executor import (
    Client,
    Executor,
    NotFoundError,
    Run,
    RunNotSucceededError,
    TokenRefusedError,
    WaitTimeoutError,
)
from tickwheel_executor.testing import FakeAdmin, RunRefusedError


async def add(run: Run) -> int:
    run.log.info("adding")
    return int(sum(run.parameters["numbers"]))


async def wait(run: Run) -> None:
    run.log.info("waiting")
    await asyncio.sleep(600)


def make_executor(admin: FakeAdmin, directory: Path, name: str = "node-1") -> Executor:
    executor = Executor(
        "billing",
        admins=[admin.url],
        token=admin.token,
        name=name,
        labels={"zone": "eu"},
        spool_dir=directory,
        shutdown_grace_seconds=0,
    )
    executor.handler("add")(add)
    executor.handler("wait")(wait)
    return executor


@pytest.fixture
async def admin() -> AsyncIterator[FakeAdmin]:
    async with FakeAdmin("billing") as admin:
        yield admin


async def test_a_node_comes_runs_and_leaves(admin: FakeAdmin, tmp_path: Path) -> None:
    async with make_executor(admin, tmp_path):
        node = await admin.node()
        assert (node.name, node.executor, node.slots) == ("node-1", "billing", 16)
        assert (node.labels, node.handlers) == ({"zone": "eu"}, ["add", "wait"])
        end = await admin.run("add", {"numbers": [1, 2]})
        assert (end.outcome, end.result, end.log) == ("succeeded", 3, [("info", "adding")])
    await admin.no_node()


async def test_a_run_goes_to_the_node_of_that_name(admin: FakeAdmin, tmp_path: Path) -> None:
    async with (
        make_executor(admin, tmp_path / "1", "node-1"),
        make_executor(admin, tmp_path / "2", "node-2"),
    ):
        assert (await admin.node("node-1")).key != (await admin.node("node-2")).key
        end = await admin.run("add", {"numbers": [4]}, node="node-2")
        assert end.result == 4


async def test_a_run_that_is_not_started_is_an_error(admin: FakeAdmin, tmp_path: Path) -> None:
    async with make_executor(admin, tmp_path):
        with pytest.raises(RunRefusedError, match="did you mean 'add'") as caught:
            await admin.run("ad")
        assert caught.value.reason == "unknown_handler"
        await admin.drain()
        with pytest.raises(RunRefusedError, match="draining"):
            await admin.run("add", {"numbers": []})
        await admin.drain(on=False)
        assert (await admin.run("add", {"numbers": []})).result == 0


async def test_a_run_outlives_its_connection_and_is_cancelled(
    admin: FakeAdmin, tmp_path: Path
) -> None:
    async with make_executor(admin, tmp_path):
        run = await admin.begin("wait")
        await wait_until_async(lambda: run.log)
        await admin.break_links()
        await admin.no_node()
        await admin.node()
        await run.cancel()
        end = await run.end()
        assert end.outcome == "cancelled"
        assert end.lines() == ["waiting", "cancelled by an operator"]


async def test_a_result_without_a_receipt_comes_again_on_the_next_connection(
    admin: FakeAdmin, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    admin.gives_receipts = False
    async with make_executor(admin, tmp_path):
        assert (await admin.run("add", {"numbers": [1]})).result == 1
        admin.gives_receipts = True
        await admin.break_links()
        await admin.no_node()
        await admin.node()
    assert "no receipt" not in caplog.text  # what a node says that leaves one behind


async def test_an_admin_goes_away_and_comes_back_at_its_address(
    admin: FakeAdmin, tmp_path: Path
) -> None:
    async with make_executor(admin, tmp_path):
        await admin.node()
        url = admin.url
        await admin.go_away()
        await admin.come_back()
        assert (await admin.node()).name == "node-1"
        assert admin.url == url


async def test_a_notice_is_in_the_log_of_the_node(
    admin: FakeAdmin, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_executor(admin, tmp_path):
        await admin.node()
        await admin.notice("the clock of this node is 40 s behind", level="error")
        await wait_until_async(lambda: "40 s behind" in caplog.text)
    (record,) = [record for record in caplog.records if "40 s behind" in record.message]
    assert (record.name, record.levelno) == ("tickwheel.node", logging.ERROR)


async def test_waiting_in_vain_ends(tmp_path: Path) -> None:
    async with FakeAdmin(within_seconds=0.05) as admin:
        with pytest.raises(TimeoutError, match="in vain for the node 'node-9'; connected: -"):
            await admin.node("node-9")
    # Its node must come within that.
    async with FakeAdmin(within_seconds=1) as admin, make_executor(admin, tmp_path):
        with pytest.raises(TimeoutError, match="run 1 did not end within"):
            await admin.run("wait")


def test_plain_code_asks_for_results(tmp_path: Path) -> None:
    async def serve(executor: Executor, stop: asyncio.Event) -> None:
        async with executor:
            await stop.wait()

    with FakeAdmin() as admin:
        executor = make_executor(admin, tmp_path)
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()
        thread = Thread(target=loop.run_until_complete, args=(serve(executor, stop),))
        thread.start()
        assert admin.run("add", {"numbers": [5, 6]}).result().result == 11
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
        admin.no_node().result()


async def test_waiting_on_the_loop_of_the_node_is_refused(admin: FakeAdmin) -> None:
    pending = admin.no_node()
    with pytest.raises(RuntimeError, match="use `await`"):
        pending.result()
    await pending


def test_it_is_used_within_its_block() -> None:
    with pytest.raises(RuntimeError, match="within its `with` block"):
        FakeAdmin().node()


# --- for clients ----------------------------------------------------------------------------------


async def test_a_client_runs_handlers_as_jobs(admin: FakeAdmin, tmp_path: Path) -> None:
    async with (
        make_executor(admin, tmp_path),
        Client([admin.url], admin.api_token) as client,
    ):
        await admin.node()
        run_id = await client.run_job("billing/add", {"numbers": [1, 2]})
        status = await client.wait(run_id)
        assert (status.job, status.state, status.result) == ("add", "succeeded", 3)
        (line,) = await client.log(run_id)
        assert (line.seq, line.level, line.text) == (1, "info", "adding")
        assert await client.log(run_id, after=1) == []

        bad = await client.run_job("billing/add", {"numbers": "no"})
        with pytest.raises(RunNotSucceededError, match="unsupported operand"):
            await client.wait(bad)


async def test_a_client_meets_what_it_meets_elsewhere(admin: FakeAdmin, tmp_path: Path) -> None:
    async with (
        make_executor(admin, tmp_path),
        Client([admin.url], admin.api_token) as client,
    ):
        await admin.node()
        with pytest.raises(NotFoundError):
            await client.run_job("billing/nothing")
        with pytest.raises(NotFoundError):
            await client.run_job(77)
        with pytest.raises(NotFoundError):
            await client.run(99)
        with pytest.raises(TokenRefusedError):
            await Client([admin.url], "w" * 40).run(1)

        once = await client.run_job("billing/wait", idempotency_key="order-1")
        assert await client.run_job("billing/wait", idempotency_key="order-1") == once
        with pytest.raises(WaitTimeoutError):
            await client.wait(once, timeout=0.05)
        await admin.drain()
        refused = await client.run_job("billing/add", {"numbers": []})
        await wait_until_async(lambda: _is_queued(client, refused))


async def _is_queued(client: Client, run_id: int) -> bool:
    return (await client.run(run_id)).state == "queued"
