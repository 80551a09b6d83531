"""Habits of single clients that Tickwheel must cope with: a version without them is noticed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import ServerDisconnectedError

from tests.interop.clients import GO, JAVA_2_4, NODE, OWN_C, PYXXL, Client, start
from tests.interop.dialect_c import Executor, Script, handlers
from tests.interop.stand_in import TOKEN, StandIn
from tests.support.polling import wait_until_async
from tests.support.processes import free_port


async def test_one_in_java_takes_a_run_again_that_it_is_running(tmp_path: Path) -> None:
    """So an order must never be sent twice; only one that waits in its queue is refused."""
    async with StandIn("A") as admin:
        with start(JAVA_2_4, tmp_path, admins=[admin.url], token=TOKEN) as executor:
            log_id, _ = await admin.run(executor.url, "slow", "0.5")
            await wait_until_async(lambda: executor.starts(log_id), what="its start")
            for code in (200, 500):
                _, answer = await admin.run(executor.url, "slow", "0.5", logId=log_id)
                assert answer["code"] == code
            await wait_until_async(lambda: executor.starts(log_id) == 2, what="a second start")


async def test_one_in_go_mixes_up_two_runs_of_a_handler(tmp_path: Path) -> None:
    """Both report under the number of the later one, and a kill hits that one."""
    async with StandIn("A") as admin:
        with start(GO, tmp_path, admins=[admin.url], token=TOKEN) as executor:
            first, _ = await admin.run(executor.url, "slow", "0.8", job_id=1)
            second, _ = await admin.run(executor.url, "slow", "0.4", job_id=2)
            await wait_until_async(lambda: len(admin.results(second)) == 2, what="both results")
            assert admin.results(first) == []
            assert {executor.starts(first), executor.starts(second)} == {1}


@pytest.mark.parametrize("client", [PYXXL, NODE], ids=str)
async def test_some_call_a_success_a_failure_when_its_result_is_refused(
    client: Client, tmp_path: Path
) -> None:
    async with StandIn(client.dialect) as admin:
        with start(client, tmp_path, admins=[admin.url], token=TOKEN) as executor:
            await wait_until_async(admin.registered, what="a registration")
            admin.refused_results = 1
            log_id, _ = await admin.run(executor.url, "succeed")
            assert (await admin.result(log_id))["handleCode"] == 500


async def test_one_in_go_loses_a_result_that_is_not_taken(tmp_path: Path) -> None:
    async with StandIn("A") as admin:
        with start(GO, tmp_path, admins=[admin.url], token=TOKEN) as executor:
            admin.refused_results = 1
            log_id, _ = await admin.run(executor.url, "succeed")
            await wait_until_async(lambda: admin.refused_results == 0, what="its result")
            await asyncio.sleep(1)
            assert admin.results(log_id) == []
            assert (await admin.call(executor.url, "idleBeat", {"jobId": 1}))["code"] == 200


async def test_one_in_node_shows_the_whole_log_whichever_lines_are_asked_for(
    tmp_path: Path,
) -> None:
    async with StandIn("A") as admin:
        with start(NODE, tmp_path, admins=[admin.url], token=TOKEN) as executor:
            log_id, _ = await admin.run(executor.url, "succeed")
            await admin.result(log_id)
            await admin.log_with(executor.url, log_id, "finished")
            later = await admin.log(executor.url, log_id, 100)
            assert "first line" in later["content"]["logContent"]


async def test_pyxxl_says_of_an_empty_page_that_its_first_line_was_sent(tmp_path: Path) -> None:
    """So what was read is counted by lines; the line after `toLineNum` would leave one out."""
    async with StandIn("A") as admin:
        with start(PYXXL, tmp_path, admins=[admin.url], token=TOKEN) as executor:
            log_id, _ = await admin.run(executor.url, "succeed")
            await admin.result(log_id)
            page = (await admin.log(executor.url, log_id, 50))["content"]
            assert (page["logContent"], page["toLineNum"]) == ("", 50)


async def test_one_that_is_killed_and_started_again_goes_on_with_its_record(tmp_path: Path) -> None:
    async with StandIn("C") as admin:
        with start(OWN_C, tmp_path, admins=[admin.url], token=TOKEN) as first:
            cut, _ = await admin.run(first.url, "slow", "30")
            await wait_until_async(lambda: first.starts(cut), what="its start")
            first.freeze()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(admin.call(first.url, "beat", "{}"), 0.3)
            first.thaw()
            assert (await admin.call(first.url, "beat", "{}"))["code"] == 200
            first.kill()
        with start(OWN_C, tmp_path, admins=[admin.url], token=TOKEN, port=first.port) as second:
            log_id, _ = await admin.run(second.url, "file")
            await admin.result(log_id)
            assert [event.what for event in second.events()] == ["start", "start", "end"]
            assert admin.results(cut) == []


@pytest.mark.parametrize("dialect", ["A", "B", "C"])
async def test_our_own_executor_speaks_each_dialect_and_misbehaves_on_request(
    dialect: str, tmp_path: Path
) -> None:
    script = Script(unanswered_runs=1, lost_results=1)
    async with (
        StandIn(dialect) as admin,
        Executor(
            dialect,
            admins=[admin.url],
            token=TOKEN,
            app="interop",
            host="127.0.0.1",
            port=free_port(),
            logs=tmp_path,
            handlers=handlers(tmp_path / "record"),
            script=script,
        ) as executor,
    ):
        with pytest.raises(ServerDisconnectedError):
            await admin.run(executor.url, "succeed")
        await wait_until_async(lambda: script.lost_results == 0, what="the lost result")
        script.results_twice = True
        log_id, _ = await admin.run(executor.url, "echo", "x")
        await wait_until_async(lambda: len(admin.results(log_id)) == 2, what="two results")
        assert admin.results(log_id)[0]["handleMsg"] == "x"
