"""`tickwheel backfill`: what it would do, starting it, and stopping it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwheel_admin.cli import main
from tickwheel_admin.cli.common import with_services
from tickwheel_admin.config import load_config
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE

MARCH = ("--from", "2026-03-01T00:00Z", "--to", "2026-04-01T00:00Z")
DAILY = {"kind": "cron", "expression": "0 3 * * *"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    async def fill(services: Services) -> None:
        executor = await services.executors.create(COMMAND_LINE, name="billing", description="")
        job = {"name": "report", "handler": "h", "triggers": [DAILY]}
        await services.jobs.create(COMMAND_LINE, executor.id, job)

    with_services(load_config({"data_dir": tmp_path}, environment={}), fill)
    return tmp_path


def test_a_backfill_from_its_preview_to_its_cancel(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*words: str, code: int = 0) -> str:
        assert main(["backfill", *words, "--data-dir", str(directory)]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    assert "There is no backfill." in told("list")
    assert "31 instants, 0 of them" in told("preview", "billing", "report", *MARCH)
    none = ("--from", "2026-03-01T00:30Z", "--to", "2026-03-01T00:31Z")
    assert "has no instant in this time" in told("preview", "billing", "report", *none)
    assert "Backfill 1 was started." in told(
        "start", "billing", "report", *MARCH, "--parallel", "4", "--newest-first"
    )
    assert "1  running  0 of 31  billing / report" in told("list")
    assert "31 instants" in told("show", "1")
    assert "is paused" in told("pause", "1")
    assert "goes on" in told("resume", "1")
    assert "is cancelled" in told("cancel", "1")
    assert "ended already" in told("cancel", "1", code=1)
    assert "31 left" in told("show", "1")
    assert "there is no backfill 2" in told("cancel", "2", code=1)
    assert "no job named other" in told("preview", "billing", "other", *MARCH, code=1)
    assert "offset from UTC" in told(
        "preview", "billing", "report", "--from", "March", "--to", "now", code=1
    )
