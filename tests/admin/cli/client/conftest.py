"""A scripted admin, and an environment that says nothing of the developer's own."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.admin.cli.client.scripted import TOKEN, Scripted, scripted
from tests.admin.kit.served import served
from tickwheel_admin.cli import main
from tickwheel_admin.domain.users.user import Role

Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command may see profiles, tokens or colours of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        monkeypatch.delenv(name)
    for name in ("NO_COLOR", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A scripted admin that the environment leads to."""
    with scripted() as server:
        monkeypatch.setenv("TICKWHEEL_URL", server.url)
        monkeypatch.setenv("TICKWHEEL_API_TOKEN", TOKEN)
        yield server


@pytest.fixture
async def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Command]:
    """Runs a command in a thread, for an administrator; returns what it printed."""
    async with served(tmp_path) as admin:
        monkeypatch.setenv("TICKWHEEL_URL", str(admin.client.make_url("")))
        headers = await admin.token_for("root", Role.ADMIN)
        monkeypatch.setenv("TICKWHEEL_API_TOKEN", headers["Authorization"].split()[1])

        async def run(words: str, *more: str, code: int = 0, stdin: str = "") -> str:
            monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
            done = await asyncio.to_thread(main, [*words.split(), *more])
            told = capsys.readouterr()
            assert done == code, told.err
            return told.out if code == 0 else told.err or told.out

        run.admin = admin  # type: ignore[attr-defined]
        with structlog.testing.capture_logs():
            yield run
