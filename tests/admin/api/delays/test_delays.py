"""Who delays whom, by the API and on the command line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admin.kit.delayed_runs import ETL, MAIL, MINUTE, SECOND_MAIL, delayed_morning
from tests.admin.kit.served import Served
from tickwheel_admin.cli import main
from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.services.users.administration import COMMAND_LINE


async def test_what_one_run_waited_for(site: Served) -> None:
    morning = await delayed_morning(site)
    headers = await site.token_for("dora", Role.VIEWER)
    answer = await site.client.get(f"/api/v1/runs/{SECOND_MAIL}/delay", headers=headers)
    found = await answer.json()
    assert (found["delay_ms"], found["measured"], found["unknown_before"]) == (
        9 * MINUTE,
        True,
        None,
    )
    [part] = found["parts"]
    assert (part["kind"], part["ms"], part["more_causes"]) == ("slot", 9 * MINUTE, 0)
    etl, mail = part["causes"]
    assert etl == {
        "run_id": ETL, "job_id": morning.etl, "job_name": "etl <b>", "ms": 7 * MINUTE,
    }  # fmt: skip
    assert (mail["run_id"], mail["job_name"], mail["ms"]) == (MAIL, "mail", 2 * MINUTE)
    none = await site.client.get("/api/v1/runs/404/delay", headers=headers)
    assert none.status == 404


async def test_the_matrix_of_an_executor(site: Served) -> None:
    morning = await delayed_morning(site)
    headers = await site.token_for("dora", Role.VIEWER)
    address = f"/api/v1/executors/{morning.executor_id}/delays"

    async def get(**query: str) -> tuple[int, Any]:
        answer = await site.client.get(address, params=query, headers=headers)
        return answer.status, await answer.json()

    status, found = await get()
    assert (status, found["delay_ms"], found["runs"], found["cut_at"]) == (
        200,
        17 * MINUTE,
        2,
        None,
    )
    [row] = found["rows"]
    assert (row["job_name"], row["runs"], row["uncharged_ms"]) == ("mail", 2, 0)
    assert row["caused_by_ms"] == [15 * MINUTE, 2 * MINUTE]
    assert [(each["job_name"], each["to_itself_ms"]) for each in found["causes"]] == [
        ("etl <b>", 0),
        ("mail", 2 * MINUTE),
    ]
    status, refused = await get(**{"from": "2020-01-01T00:00:00Z"})
    assert (status, refused["error"]["problems"][0]["field"]) == (422, "from")
    crm = await site.services.executors.create(COMMAND_LINE, name="crm", description="")
    other = await site.token_for("eve", {crm.id: Grant(Role.VIEWER)})
    assert (await site.client.get(address, headers=other)).status == 404
    assert (await site.client.get("/api/v1/runs/2/delay", headers=other)).status == 404


async def test_on_the_command_line(
    site: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await delayed_morning(site)
    headers = await site.token_for("dora", Role.VIEWER)
    monkeypatch.setenv("TICKWHEEL_URL", str(site.client.make_url("")))
    monkeypatch.setenv("TICKWHEEL_API_TOKEN", headers["Authorization"].split()[1])

    async def command(*words: object) -> str:
        done = await asyncio.to_thread(main, [str(word) for word in words])
        told = capsys.readouterr()
        assert done == 0, told
        return told.out

    told = await command("delays", "run", SECOND_MAIL)
    assert [line.split()[:3] for line in told.splitlines()[-2:]] == [
        ["slot", "7m", "0s"],
        ["slot", "2m", "0s"],
    ]
    assert "etl <b>" in told
    told = await command("delays", "show", "billing")
    assert told.splitlines()[-1].split()[:2] == ["mail", "2"]
    assert "etl <b> 15m 0s, mail 2m 0s" in told
    assert '"delay_ms": 1020000' in await command("delays", "show", "billing", "-o", "json")
    none = await command("delays", "show", "billing", "--until", "2020-01-01T00:00Z")
    assert none.endswith("No run was delayed.\n")
