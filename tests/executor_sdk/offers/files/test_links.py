"""Symbolic links, exchanged files and folders: nothing outside a root is ever touched."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.executor_sdk.offers.registry import handler_of
from tickwheel_executor.offers.files import FileRoot, Files, housekeeping
from tickwheel_executor.offers.files.archive import write_archive
from tickwheel_executor.offers.files.search import Findings, search
from tickwheel_executor.testing import HandlerEnd, run_handler


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that jobs may not reach, and links to it from the root."""
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "secret.log").write_text("secret")
    (outside / "sub" / "secret.log").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file.log").symlink_to(outside / "secret.log")
    (root / "folder").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe.log")
    (root / "real.log").write_text("real")
    return outside


async def call(tmp_path: Path, **parameters: Any) -> HandlerEnd:
    offer = Files({"root": FileRoot(tmp_path / "root")})
    return await run_handler(
        handler_of(offer, "file"), "file", parameters={"root": "root", **parameters}
    )


def untouched(outside: Path) -> bool:
    contents = {path.read_text() for path in (outside / "secret.log", outside / "sub/secret.log")}
    return contents == {"secret"} and len(list(outside.rglob("*"))) == 3


async def test_links_are_neither_followed_nor_touched(outside: Path, tmp_path: Path) -> None:
    end = await call(tmp_path, action="delete", glob="**", remove_empty_folders=True)
    assert end.result["files"] == 1, end.message
    assert untouched(outside)
    left = {path.name for path in (tmp_path / "root").iterdir()}
    assert left == {"file.log", "folder", "up", "loop", "pipe.log"}


@pytest.mark.parametrize("glob", ["folder/*", "folder/**", "up/outside/*", "*/secret.log"])
async def test_patterns_do_not_lead_through_links(outside: Path, tmp_path: Path, glob: str) -> None:
    end = await call(tmp_path, action="delete", glob=glob)
    assert end.result["files"] == 0
    assert untouched(outside)


@pytest.mark.parametrize(
    "parameters",
    [
        {"action": "move", "to": "folder"},
        {"action": "move", "to": "folder/new"},
        {"action": "archive", "to": "folder/x.zip"},
        {"action": "archive", "to": "up/x.tar.gz"},
        {"action": "archive", "to": "loop/x.tar.gz"},
    ],
)
async def test_nothing_is_written_through_links(
    outside: Path, tmp_path: Path, parameters: dict[str, Any]
) -> None:
    end = await call(tmp_path, glob="real.log", **parameters)
    assert end.outcome == "failed"
    assert not any("Traceback" in line for line in end.lines())
    assert untouched(outside)
    assert (tmp_path / "root" / "real.log").exists()
    assert set(os.listdir(tmp_path)) == {"outside", "root"}


async def test_an_archive_never_replaces_what_a_link_leads_to(
    outside: Path, tmp_path: Path
) -> None:
    (tmp_path / "root" / "x.zip").symlink_to(outside / "secret.log")
    parameters = {"action": "archive", "glob": "real.log", "to": "x.zip"}
    assert (await call(tmp_path, **parameters)).outcome == "failed"
    assert (await call(tmp_path, **parameters, if_exists="replace")).succeeded
    assert untouched(outside)


@pytest.mark.parametrize("action", ["delete", "move", "archive"])
@pytest.mark.parametrize("what", ["file", "folder"])
async def test_exchanged_between_the_search_and_the_deed(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, what: str
) -> None:
    """The worst race: right after a file was found, it or its folder becomes a link."""
    root = tmp_path / "root"
    (root / "sub").mkdir()
    victim = root / "sub" / "secret.log"
    victim.write_text("mine")

    def exchanging(*arguments: Any, **options: Any) -> Findings:
        found: Findings = search(*arguments, **options)
        assert [file.path for file in found.files] == ["sub/secret.log"]
        victim.unlink()
        if what == "file":
            victim.symlink_to(outside / "sub" / "secret.log")
        else:
            (root / "sub").rmdir()
            (root / "sub").symlink_to(outside / "sub")
        return found

    monkeypatch.setattr(housekeeping, "search", exchanging)
    to = {"delete": "", "move": "new", "archive": "x.tar.gz"}[action]
    end = await call(tmp_path, action=action, glob="sub/*", to=to, remove_originals=True)
    assert end.outcome == "failed"
    assert "1 files could not be processed" in end.message
    assert untouched(outside)
    if action == "archive":
        with tarfile.open(root / "x.tar.gz") as archive:
            assert archive.getnames() == []


async def test_a_file_that_changes_while_it_is_archived_stays(
    outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "root" / "real.log"

    def growing(*arguments: Any, **options: Any) -> Any:
        added = write_archive(*arguments, **options)
        with real.open("a") as file:
            file.write("more")
        return added

    monkeypatch.setattr(housekeeping, "write_archive", growing)
    end = await call(tmp_path, action="archive", glob="real.log", to="x.zip", remove_originals=True)
    assert "it was written to meanwhile, so it stays" in end.message
    assert real.read_text() == "realmore"


async def test_cancel_leaves_no_half_archive(outside: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with (root / "big.bin").open("wb") as file:
        file.truncate(20 * 1024**3)  # takes minutes to compress, and no room
    end = await run_handler(
        handler_of(Files({"root": FileRoot(root)}), "file"),
        "file",
        parameters={"action": "archive", "root": "root", "glob": "big.bin", "to": "x.tar.gz"},
        cancel_after=0.3,
    )
    assert end.outcome == "cancelled"
    assert not any("tickwheel" in name or name.endswith(".gz") for name in os.listdir(root))
