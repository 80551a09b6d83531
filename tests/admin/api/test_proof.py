"""Proofs by the API, and on the command line: what the admin signs, the command verifies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import RUN_COLUMNS, run_row
from tickwheel_admin.cli import main
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows

HOUR_MS = 3_600_000


async def _night(admin: Served) -> int:
    """An hour ago a run failed, and two succeeded; nobody has audited it."""
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    job_id = await admin.services.jobs.create(
        COMMAND_LINE, executor.id, {"name": "bills <b>", "handler": "h", "owner": "carl"}
    )
    hour_at = admin.clock.now - admin.clock.now % HOUR_MS - HOUR_MS
    common = {"executor_id": executor.id, "job_id": job_id, "trigger_id": 9}
    rows = [
        dict.fromkeys(RUN_COLUMNS)
        | run_row(n, common | {"scheduled_at": hour_at + n, "state": state})
        for n, state in enumerate(("succeeded", "failed", "succeeded"), 1)
    ]
    await admin.services.store.run(insert_rows, tables.run, rows, columns=RUN_COLUMNS)
    return executor.id


async def test_a_proof_by_the_api(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        executor_id = await _night(admin)
        headers = await admin.token_for("dora", Role.VIEWER)

        async def get(path: str, **query: object) -> tuple[int, Any]:
            params = {key: str(value) for key, value in query.items()}
            answer = await admin.client.get(f"/api/v1/proof{path}", params=params, headers=headers)
            return answer.status, await answer.json()

        status, found = await get("", executor_id=executor_id, late_after_seconds=5)
        assert (status, len(found["hours"]), found["agrees"]) == (200, 24, False)
        assert (found["not_proven"]["runs"], found["proven"]["runs"]) == (3, 0)
        assert found["not_proven"]["outcomes"]["failed"] == 1
        assert found["hours"][-1]["status"] == "not_audited"
        status, page = await get("/exceptions", limit=1)
        [failed] = page["items"]
        assert (failed["run_id"], failed["outcome"], failed["owner"]) == (2, "failed", "carl")
        status, refused = await get("", **{"from": "2020-01-01T00:00:00Z"})
        assert (status, refused["error"]["problems"][0]["field"]) == (422, "from")
        assert (await get("/exceptions", cursor="x"))[0] == 422
        skip = sa.update(tables.run).where(tables.run.c.id == 2)
        skip = skip.values(state="skipped", reason="discarded", error_id=None)
        await admin.services.store.run(lambda conn: conn.execute(skip) and None)
        status, page = await get("/unrun", executor_id=executor_id)
        [skipped] = page["items"]
        assert (skipped["run_id"], skipped["cause"], skipped["owner"]) == (2, "discarded", "carl")
        assert (skipped["job_name"], skipped["done_by"], skipped["seen_at"]) == (
            "bills <b>",
            [],
            None,
        )
        assert (await get("/unrun", executor_id=99))[1]["items"] == []
        assert (await get("/unrun", cursor="x"))[0] == 422
        assert (await get("", executor_id=99))[1]["not_proven"]["runs"] == 0


async def test_what_is_exported_is_verified_and_what_was_changed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(tmp_path) as admin:
        await _night(admin)
        headers = await admin.token_for("dora", Role.VIEWER)
        monkeypatch.setenv("TICKWHEEL_URL", str(admin.client.make_url("")))
        monkeypatch.setenv("TICKWHEEL_API_TOKEN", headers["Authorization"].split()[1])

        async def command(*words: object, code: int = 0) -> str:
            done = await asyncio.to_thread(main, [str(word) for word in words])
            told = capsys.readouterr()
            assert done == code, told
            return told.err if code else told.out

        file, key_file = tmp_path / "night.ndjson", tmp_path / "key.pub"
        assert "no key that signs" in await command("proof", "export", file, code=1)
        assert not file.exists()
        await command("proof", "key", "--create", code=4)  # a viewer makes none
        await admin.services.proof_keys.create(COMMAND_LINE)
        await command("proof", "export", file)
        assert "File exists" in await command("proof", "export", file, code=2)
        key_file.write_text((await command("proof", "key")).splitlines()[-1])
        assert "bills <b>" in await command("proof", "exceptions")
        told = await command("verify", file, "--key-file", key_file)
        assert told.startswith("Genuine: ")
        assert "3 runs: 2 succeeded, 1 failed" in told
        shown = await asyncio.to_thread(main, ["proof", "show"])
        assert (shown, "24 hours are not proven" in capsys.readouterr().out) == (1, True)

        whole = file.read_bytes()
        wrong = tmp_path / "wrong.ndjson"
        key = key_file.read_text().strip()
        other = "A" * 43 + "="
        for content, used, code, said in (
            (whole[:-1], key, 20, "is cut"),
            (whole[: len(whole) // 2], key, 20, "is cut"),
            (whole.replace(b"failed", b"passed", 1), key, 21, "was changed"),
            (whole, other, 22, "another key"),
            (b"hello\n", key, 2, "is no proof"),
            (whole, "short", 2, "32 bytes"),
        ):
            wrong.write_bytes(content)
            assert said in await command("verify", wrong, "--key", used, code=code)
        skip = sa.update(tables.run).where(tables.run.c.id == 2)
        skip = skip.values(state="skipped", reason="discarded")
        await admin.services.store.run(lambda conn: conn.execute(skip) and None)
        line = (await command("proof", "unrun")).splitlines()[-1].split()
        assert line[-6:] == ["discarded", "bills", "<b>", "2", "carl", "-"]
        assert "No such file" in await command("verify", tmp_path / "x", "--key", key, code=2)
