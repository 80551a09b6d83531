"""A scripted admin, and an environment that says nothing of the developer's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.cli.client.scripted import TOKEN, Scripted, scripted


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
