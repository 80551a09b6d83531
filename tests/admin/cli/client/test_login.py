"""`tickwheel login` and `tickwheel profile`."""

from __future__ import annotations

import io
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.admin.cli.client.scripted import Scripted, error
from tickwheel_admin.cli import main

ME = {"id": 1, "name": "olga", "grants": [], "token_id": 3}


class FakeKeyring:
    """What the package `keyring` offers."""

    priority = 5

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_keyring(self) -> FakeKeyring:
        return self

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, token: str) -> None:
        self.kept[service, name] = token

    def delete_password(self, service: str, name: str) -> None:
        if (service, name) not in self.kept:
            raise LookupError("No such password!")  # as the package's backends do
        del self.kept[service, name]


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    fake = FakeKeyring()
    module: Any = types.ModuleType("keyring")
    for name in ("get_keyring", "get_password", "set_password", "delete_password"):
        setattr(module, name, getattr(fake, name))
    monkeypatch.setitem(sys.modules, "keyring", module)
    return fake


@pytest.fixture
def server(admin: Scripted, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """An admin that only `--url` leads to; the token is typed into a pipe."""
    monkeypatch.delenv("TICKWHEEL_URL")
    monkeypatch.delenv("TICKWHEEL_API_TOKEN")
    monkeypatch.setattr(sys, "stdin", io.StringIO("twa_typed\n"))
    return admin


def test_a_login_is_checked_noted_and_used(
    server: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will((200, ME))
    assert main(["login", "--url", server.url, "--keep-in", "file"]) == 0
    told = capsys.readouterr().out
    assert "as olga" in told
    assert "twa_typed" not in told
    assert server.asked[0].headers["Authorization"] == "Bearer twa_typed"
    assert "twa_typed" in (tmp_path / "config/tickwheel/profiles.toml").read_text()

    assert main(["profile", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "default", "yes", server.url, "profiles.toml", "-",
    ]  # fmt: skip
    assert main(["profile", "delete", "default"]) == 0
    assert "twa_typed" not in (tmp_path / "config/tickwheel/profiles.toml").read_text()


def test_a_refused_token_is_not_noted(
    server: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will((401, error("login.required", "Log in.")))
    assert main(["login", "--url", server.url]) == 4
    assert "Log in. (login.required)" in capsys.readouterr().err
    assert not (tmp_path / "config").exists()


def test_the_keyring_keeps_the_token_if_there_is_one(
    server: Scripted, keyring: FakeKeyring, tmp_path: Path
) -> None:
    server.will((200, ME), (200, ME))
    assert main(["login", "--url", server.url, "--profile", "lab"]) == 0
    assert keyring.kept == {("tickwheel", "lab"): "twa_typed"}
    assert "twa_typed" not in (tmp_path / "config/tickwheel/profiles.toml").read_text()
    keyring.kept["tickwheel", "lab"] = "twa_later"
    sys.stdin = io.StringIO("twa_other\n")
    assert main(["profile", "delete", "lab"]) == 0
    assert keyring.kept == {}


def test_a_profile_whose_token_is_gone_from_the_keyring_can_be_deleted(
    server: Scripted, keyring: FakeKeyring, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will((200, ME))
    assert main(["login", "--url", server.url, "--profile", "lab"]) == 0
    keyring.kept.clear()
    assert main(["profile", "delete", "lab"]) == 0
    assert main(["profile", "list"]) == 0
    assert "There is no profile" in capsys.readouterr().out


def test_a_token_that_another_place_takes_over_does_not_stay_in_the_keyring(
    server: Scripted, keyring: FakeKeyring
) -> None:
    server.will((200, ME), (200, ME))
    assert main(["login", "--url", server.url]) == 0
    assert keyring.kept
    sys.stdin = io.StringIO("twa_other\n")
    assert main(["login", "--url", server.url, "--keep-in", "file"]) == 0
    assert keyring.kept == {}


def test_without_a_keyring_the_extra_is_named(
    server: Scripted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    server.will((200, ME))
    assert main(["login", "--url", server.url, "--keep-in", "keyring"]) == 2
    assert "pip install keyring" in capsys.readouterr().err


def test_the_place_of_a_token_file_is_noted_and_not_the_token(
    server: Scripted, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("twa_file")
    file.chmod(0o600)
    server.will((200, ME))
    assert main(["login", "--url", server.url, "--token-file", str(file)]) == 0
    noted = (tmp_path / "config/tickwheel/profiles.toml").read_text()
    assert str(file) in noted
    assert "twa_file" not in noted
    assert server.asked[0].headers["Authorization"] == "Bearer twa_file"
