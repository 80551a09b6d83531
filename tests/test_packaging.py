"""What `make dist` builds: reproducible, complete, and of use where there is no repository."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.availability import impossible
from tests.support.interpreters import SUPPORTED, account_that_can, find_python
from tests.support.nightly import IS_NIGHT
from tests.support.processes import ManagedProcess, free_port

ROOT = Path(__file__).parents[1]
MEMBERS = {
    "shared": "tickwheel_shared",
    "executor_sdk": "tickwheel_executor",
    "admin": "tickwheel_admin",
}
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
OWN_LICENCE = "Apache-2.0"


class Built(NamedTuple):
    """What was built of one distribution."""

    sdist: Path
    wheel: Path

    def metadata(self) -> Message:
        with zipfile.ZipFile(self.wheel) as wheel:
            [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            return email.message_from_bytes(wheel.read(name))

    def names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as wheel:
            return set(wheel.namelist())


def build(source: Path, directory: Path) -> Built:
    """As `make dist` does it."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(directory)]
    subprocess.run(
        [*command, "--target", "sdist", "--target", "wheel"],
        cwd=source,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    [sdist], [wheel] = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Sdist and wheel of each distribution, built from this checkout."""
    directory = tmp_path_factory.mktemp("dist")
    return {member: build(ROOT / member, directory / member) for member in MEMBERS}


@pytest.mark.parametrize("member", MEMBERS)
def test_an_sdist_builds_the_same_again_elsewhere(
    built: dict[str, Built], member: str, tmp_path: Path
) -> None:
    subprocess.run(["tar", "-xf", built[member].sdist, "-C", tmp_path], check=True)
    [source] = tmp_path.iterdir()
    (source / "PKG-INFO").unlink()  # the one file that is not of the sources
    for path in source.rglob("*"):
        os.utime(path, (10**9, 10**9))
        if path.is_file():
            path.chmod(0o600)  # as a strict umask would have left them
    again = build(source, tmp_path / "dist")

    for before, after in zip(built[member], again, strict=True):
        assert (before.name, before.read_bytes()) == (after.name, after.read_bytes())


@pytest.mark.parametrize(("member", "package"), MEMBERS.items())
def test_a_wheel_holds_the_whole_package_and_nothing_else(
    built: dict[str, Built], member: str, package: str
) -> None:
    source = ROOT / member
    there = {
        str(path.relative_to(source))
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = {name for name in built[member].names() if ".dist-info/" not in name}
    example = {"tickwheel_executor/demo_executor.py"} if member == "executor_sdk" else set()
    assert names == there | example


@pytest.mark.parametrize("member", MEMBERS)
def test_metadata_says_what_an_index_and_an_installer_need(
    built: dict[str, Built], member: str
) -> None:
    told = built[member].metadata()
    version = str(told["Version"])

    assert told["Requires-Python"] == ">=3.11"
    assert {f"Programming Language :: Python :: {each}" for each in SUPPORTED} <= set(
        told.get_all("Classifier", [])
    )
    assert told["Description-Content-Type"] == "text/markdown"
    assert "# " in str(told.get_payload())
    assert all(told[name] for name in ("Summary", "Keywords", "Author", "License-Expression"))
    for need in told.get_all("Requires-Dist", []):
        if need.startswith("tickwheel-"):
            assert f"=={version}" in need, "the three go together"
    extras = set(told.get_all("Provides-Extra", []))
    assert (
        extras
        == {
            "shared": set(),
            "executor_sdk": {"agent", "otel", "schedule", "sql"},
            "admin": {"apprise", "cli-keyring", "demo", "mcp", "mysqlclient", "otel"},
        }[member]
    )


@pytest.mark.parametrize("member", MEMBERS)
def test_licences_are_in_the_wheel_and_named(built: dict[str, Built], member: str) -> None:
    told = built[member].metadata()
    assert (ROOT / member / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    files = told.get_all("License-File", [])
    assert "LICENSE" in files
    for file in files:
        assert any(name.endswith(f".dist-info/licenses/{file}") for name in built[member].names())

    vendored = ROOT / "admin/tickwheel_admin/console/static/vendor/VENDORED.md"
    brought = set(re.findall(r"^\| `admin/.*\) \| [\d.]+ \| (\S+) \|", vendored.read_text(), re.M))
    expected = {OWN_LICENCE} | (brought if member == "admin" else set())
    assert set(str(told["License-Expression"]).split(" AND ")) == expected


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory that every account can read; pytest's own cannot be entered by others."""
    with tempfile.TemporaryDirectory(prefix="tickwheel-packages-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        before = os.umask(0o022)
        yield directory
        os.umask(before)


@pytest.mark.slow
@pytest.mark.parametrize("version", SUPPORTED if IS_NIGHT else [THIS_PYTHON])
def test_the_wheels_run_for_another_account_without_the_repository(
    built: dict[str, Built], elsewhere: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By day with the libraries of the tests, by night with those of pip, in each Python."""
    python = find_python(version)
    if python is None:
        impossible(f"there is no Python {version}")
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        monkeypatch.delenv(name)
    environment = install(built, elsewhere, python)
    program = environment / "bin" / "python"
    libraries = [] if IS_NIGHT else [f"{sysconfig.get_path('purelib')}/aiohttp/__init__.py"]
    account = account_that_can(os.path.realpath(program), *libraries)
    home = elsewhere / "home"
    home.mkdir()
    if account is not None:
        shutil.chown(home, account)
    port = free_port()
    command = ["demo", "--nodes", "1"] if IS_NIGHT else ["serve"]
    with ManagedProcess(
        [environment / "bin" / "tickwheel", *command, "--port", str(port)],
        elsewhere / "log",
        environment={"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "PYTHONPATH": ""},
        directory=Path("/"),
        user=account,
    ) as tickwheel:
        tickwheel.wait_for_line("with password", timeout_seconds=120)
        page = fetch(f"http://127.0.0.1:{port}/login", language="zh-CN")
        assert "登录" in page
        for asset in re.findall(r'(?:src|href)="(/static/[^"#]+)', page):
            assert fetch(f"http://127.0.0.1:{port}{asset}", language="en")
        if IS_NIGHT:
            tickwheel.wait_for_line("Logs of all processes are in", timeout_seconds=60)
            assert (home / "data" / "tickwheel-demo" / "tickwheel.db").exists()
        assert tickwheel.stop(timeout_seconds=60) == 0


def install(built: dict[str, Built], directory: Path, python: str) -> Path:
    """A virtual environment with the wheels, and libraries of the tests or, by night, its own."""
    environment = directory / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True)
    [admin, *others] = [str(built[member].wheel) for member in ("admin", "executor_sdk", "shared")]
    wheels = [f"{admin}[demo,apprise,otel,mcp]", *others] if IS_NIGHT else [admin, *others]
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--quiet"]
    alone = [] if IS_NIGHT else ["--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "install", *alone, *wheels], cwd="/", check=True)
    if not IS_NIGHT:
        [packages] = environment.glob("lib/python*/site-packages")
        (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return environment


def fetch(url: str, *, language: str) -> str:
    request = urllib.request.Request(url, headers={"Accept-Language": language})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode(errors="replace"))
