"""Every client against a stand-in for the admin: what fails here is not Tickwheel's fault."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.interop.clients import CLIENTS, Client, start
from tests.interop.stand_in import TOKEN, StandIn
from tests.support.polling import wait_until_async

every_client = pytest.mark.parametrize("client", CLIENTS, ids=str)


@every_client
async def test_a_client_registers_runs_is_killed_shows_logs_and_leaves(
    client: Client, tmp_path: Path
) -> None:
    manner = client.manner
    async with StandIn(client.dialect) as admin:
        with start(client, tmp_path, admins=[admin.url], token=TOKEN) as executor:
            url = executor.url
            await wait_until_async(admin.registered, what="a registration")
            assert set(admin.registered()) == {url}
            assert admin.told[0].body["registryKey"] == "interop"
            assert (await admin.call(url, "beat", "{}"))["code"] == 200
            stranger = await admin.call(url, "beat", "{}", token="forged")
            assert (stranger["code"] == 500) is manner.checks_token

            parameter = 'Größe "1" & <b>中文</b>'
            succeeded, answer = await admin.run(url, "succeed", parameter)
            assert answer["code"] == 200
            result = await admin.result(succeeded)
            assert result["handleCode"] == 200
            time = result["logDateTime" if client.dialect == "C" else "logDateTim"]
            assert (time == admin.at_ms) is manner.echoes_time
            log = await admin.log_with(url, succeeded, f"second line: {parameter}")
            assert f"first line: {parameter}" in log
            assert executor.starts(succeeded) == 1

            failed, _ = await admin.run(url, "fail", job_id=2)
            result = await admin.result(failed)
            assert (result["handleCode"], result["handleMsg"]) == (500, manner.failed)

            echoed, _ = await admin.run(url, "echo", '{"a": 1}', job_id=3)
            message = (await admin.result(echoed))["handleMsg"]
            assert message == (r'"{\"a\": 1}"' if manner.quotes else '{"a": 1}')

            shard, _ = await admin.run(url, "shard", job_id=4, broadcastIndex=2, broadcastTotal=3)
            assert (await admin.result(shard))["handleCode"] == 200
            await admin.log_with(url, shard, "shard 2 of 3")

            filed, _ = await admin.run(url, "file", "order 7", job_id=5)
            await admin.result(filed)
            events = executor.events(log_id=filed)
            assert [(event.what, event.parameter) for event in events] == [
                ("start", "order 7"),
                ("end", "order 7"),
            ]

            killed, _ = await admin.run(url, "slow", "30", job_id=6)
            await admin.log_with(url, killed, "line 2")
            assert (await admin.call(url, "idleBeat", {"jobId": 6}))["code"] == 500
            assert (await admin.call(url, "idleBeat", {"jobId": 7}))["code"] == 200
            second, answer = await admin.run(url, "slow", "30", job_id=6)
            assert _is_accepted(answer) is manner.queues
            assert (await admin.call(url, "kill", {"jobId": 6}))["code"] == 200
            assert (await admin.result(killed))["handleCode"] == manner.killed
            await wait_until_async(
                lambda: [event.what for event in executor.events(log_id=killed)][-1] == "stop",
                what="the handler to stop",
            )
            assert executor.starts(second) == 0

            late, _ = await admin.run(url, "slow", "5", job_id=8, executorTimeout=1)
            assert (await admin.result(late))["handleCode"] == manner.timed_out

            _, answer = await admin.run(url, "nobody", job_id=9)
            assert not _is_accepted(answer)

            assert await asyncio.to_thread(executor.stop) == manner.exit_code
            assert admin.removed() == [url]


def _is_accepted(answer: object) -> bool:
    """One in Go refuses with a list, as if it were a result."""
    return isinstance(answer, dict) and answer["code"] == 200
