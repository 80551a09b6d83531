"""The handler `file` on a real file system."""

from __future__ import annotations

import errno
import os
import tarfile
import time
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.executor_sdk.offers.registry import handler_of
from tests.support.availability import impossible
from tickwheel_executor.handlers.signature import Signature
from tickwheel_executor.offers.files import FileRoot, Files, housekeeping, placing
from tickwheel_executor.testing import HandlerEnd, run_handler

DAY = 86_400
Call = Callable[..., Awaitable[HandlerEnd]]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Some files; the number in a name is its age in days and its size in KiB."""
    root = tmp_path / "logs"
    for name in ("a-1.log", "b-9.log", "c-20.txt", "app/d-9.log", "app/deep/e-30.log"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        number = int("".join(filter(str.isdigit, name)))
        path.write_bytes(b"x" * 1024 * number)
        then = time.time() - number * DAY
        os.utime(path, (then, then))
    return root


@pytest.fixture
def call(logs: Path, tmp_path: Path) -> Call:
    """Runs `file` with these parameters on the root "logs"; "old" is another one."""
    (tmp_path / "old").mkdir()

    async def run(**parameters: Any) -> HandlerEnd:
        offer = Files({"logs": FileRoot(logs), "old": FileRoot(tmp_path / "old", ("receive",))})
        return await run_handler(
            handler_of(offer, "file"), "file", parameters={"root": "logs", **parameters}
        )

    return run


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


ALL = {"a-1.log", "b-9.log", "c-20.txt", "app/d-9.log", "app/deep/e-30.log"}


@pytest.mark.parametrize(
    ("parameters", "gone"),
    [
        ({"glob": "*.log"}, {"a-1.log", "b-9.log"}),
        ({"glob": "**/*.log", "older_than": "7d"}, {"b-9.log", "app/d-9.log", "app/deep/e-30.log"}),
        ({"glob": "**"}, ALL),
        ({"glob": "app/**"}, {"app/d-9.log", "app/deep/e-30.log"}),
        ({"glob": "*/**/e-*"}, {"app/deep/e-30.log"}),
        ({"glob": "[ab]-?.log", "exclude": ["b*"]}, {"a-1.log"}),
        ({"glob": "**", "exclude": ["app/**", "*.txt"]}, {"a-1.log", "b-9.log"}),
        ({"glob": "**", "larger_than": "9KB"}, {"c-20.txt", "app/deep/e-30.log"}),
        ({"glob": "**", "keep_newest": 3}, {"c-20.txt", "app/deep/e-30.log"}),
        ({"glob": "**", "max_files": 1}, {"app/deep/e-30.log"}),
        ({"glob": "**", "older_than": "4w", "keep_newest": 5}, set()),
        ({"glob": "*.LOG"}, set()),
    ],
)
async def test_what_is_deleted(
    logs: Path, call: Call, parameters: dict[str, Any], gone: set[str]
) -> None:
    dry = await call(action="delete", dry_run=True, **parameters)
    assert names(logs) == ALL
    end = await call(action="delete", **parameters)
    assert names(logs) == ALL - gone
    assert end.result["files"] == dry.result["files"] == len(gone)
    assert end.result.get("more", False) is ("max_files" in parameters)
    for name in gone:
        assert any(name in line for line in end.lines("info"))


async def test_empty_folders_go_too(logs: Path, call: Call) -> None:
    (logs / "empty").mkdir()
    (logs / "app" / "other").mkdir()
    await call(action="delete", glob="app/**", remove_empty_folders=True)
    assert (logs / "empty").exists(), "this run has not emptied it"
    assert sorted(path.name for path in (logs / "app").iterdir()) == ["other"]


async def test_moves_keep_the_folders(logs: Path, call: Call, tmp_path: Path) -> None:
    end = await call(action="move", glob="**/*.log", older_than="5d", to_root="old", to="{date}")
    assert end.result["files"] == 3, end.message
    assert names(logs) == {"a-1.log", "c-20.txt"}
    [day] = (tmp_path / "old").iterdir()
    assert names(day) == {"b-9.log", "app/d-9.log", "app/deep/e-30.log"}
    moved = day / "b-9.log"
    assert time.time() - moved.stat().st_mtime > 8 * DAY


@pytest.mark.parametrize(
    ("if_exists", "left", "old"),
    [
        ("skip", {"a-1.log"}, {"a-1.log": b"old"}),
        ("replace", set(), {"a-1.log": b"x" * 1024}),
        ("rename", set(), {"a-1.log": b"old", "a-1-1.log": b"x" * 1024}),
    ],
)
async def test_names_that_are_taken(
    logs: Path, call: Call, tmp_path: Path, if_exists: str, left: set[str], old: dict[str, bytes]
) -> None:
    (tmp_path / "old" / "a-1.log").write_bytes(b"old")
    end = await call(action="move", glob="a-*", to_root="old", if_exists=if_exists)
    assert end.succeeded, end.message
    assert end.result["skipped"] == len(left)
    assert names(logs) & {"a-1.log"} == left
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == old


def test_moves_between_file_systems(logs: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == logs.stat().st_dev:
        impossible("there is only one file system")
    other = memory / f"tickwheel-{os.getpid()}"
    other.mkdir()
    try:
        offer = Files({"logs": FileRoot(logs), "other": FileRoot(other)})
        parameters = {"action": "move", "root": "logs", "glob": "app/**", "to_root": "other"}
        end = run_handler(handler_of(offer, "file"), "file", parameters=parameters).result()
        assert end.result["files"] == 2, end.message
        assert names(other) == {"app/d-9.log", "app/deep/e-30.log"}
        assert time.time() - (other / "app/d-9.log").stat().st_mtime > 8 * DAY
        assert names(logs) == {"a-1.log", "b-9.log", "c-20.txt"}
    finally:
        for path in sorted(other.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        other.rmdir()


@pytest.mark.parametrize(
    ("during_copies", "after_copy", "message"),
    [
        (1, False, ""),
        (99, False, "it is being written to, so it stays"),
        (0, True, "written to after it was copied, so it stays beside its copy"),
    ],
)
async def test_lines_that_are_appended_while_a_file_is_copied_are_not_lost(
    logs: Path,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    during_copies: int,
    after_copy: bool,
    message: str,
) -> None:
    file, copies, is_other_file_system = logs / "a-1.log", 0, True

    def append() -> None:
        with file.open("ab") as writer:
            writer.write(b"appended\n")

    def copy(*args: Any) -> None:
        nonlocal copies
        copies += 1
        real_copy(*args)
        if copies <= during_copies:
            append()

    def place(*args: Any, **options: Any) -> str | None:
        nonlocal is_other_file_system
        if is_other_file_system:
            is_other_file_system = False
            raise OSError(errno.EXDEV, "another file system")
        placed = real_place(*args, **options)
        if after_copy:
            append()
        return placed

    real_copy, real_place = placing._copy, placing.place
    monkeypatch.setattr(placing, "_copy", copy)
    monkeypatch.setattr(housekeeping, "place", place)
    end = await call(action="move", glob="a-*", to_root="old")
    assert message in end.message
    assert end.succeeded is not bool(message), end.message
    assert file.exists() is bool(message), "nobody else has the line"
    where = file if message else tmp_path / "old" / "a-1.log"
    assert b"appended\n" in where.read_bytes()
    assert names(tmp_path / "old") == ({"a-1.log"} if not message or after_copy else set())


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
async def test_archives(logs: Path, call: Call, tmp_path: Path, suffix: str) -> None:
    parameters = {"action": "archive", "glob": "**/*.log", "to_root": "old", "to": f"x/y{suffix}"}
    end = await call(**parameters, remove_originals=True)
    assert end.result["archive"] == f"x/y{suffix}", end.message
    assert end.result["files"] == 4
    path = tmp_path / "old" / "x" / f"y{suffix}"
    assert names(tmp_path / "old") == {f"x/y{suffix}"}
    if suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            inside = {info.filename: info.file_size for info in archive.infolist()}
    else:
        with tarfile.open(path) as tar:
            inside = {info.name: info.size for info in tar}
    assert inside == {
        "a-1.log": 1024,
        "b-9.log": 9 * 1024,
        "app/d-9.log": 9 * 1024,
        "app/deep/e-30.log": 30 * 1024,
    }
    assert names(logs) == {"c-20.txt"}
    again = await call(**parameters)
    assert again.result["archive"] is None, "nothing is left to archive"
    (logs / "new.log").touch()
    assert "there is a file" in (await call(**parameters)).message
    assert (await call(**parameters, if_exists="rename")).result["archive"] == f"x/y-1{suffix}"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"action": "delete", "glob": "../*"}, "leads out of the root"),
        ({"action": "delete", "glob": "/etc/*"}, "leads out of the root"),
        ({"action": "delete", "glob": "a/./b"}, "is no path below the root"),
        ({"action": "delete", "glob": "*", "exclude": ["../*"]}, "exclude: "),
        ({"action": "move", "glob": "*", "to": "x/../../y"}, "to: "),
        ({"action": "move", "glob": "*"}, "to: say where to"),
        ({"action": "archive", "glob": "*", "to": "x.rar"}, "is no archive"),
        ({"action": "delete", "glob": "*", "to": "x"}, "leave to and to_root out"),
        ({"action": "delete", "glob": "*", "root": "etc"}, "it has: logs, old"),
        ({"action": "delete", "glob": "*", "root": "old"}, "does not allow 'delete' in 'old'"),
        ({"action": "delete", "glob": "*", "older_than": "7 days"}, "parameters: older_than"),
        ({"action": "delete", "glob": "*", "larger_than": "1.5GB"}, "parameters: larger_than"),
    ],
)
async def test_bad_parameters_fail_for_good(
    logs: Path, call: Call, parameters: dict[str, Any], message: str
) -> None:
    end = await call(**parameters)
    assert (end.outcome, end.final) == ("failed", True)
    assert message in end.message
    assert names(logs) == ALL


async def test_a_file_that_cannot_be_processed_fails_the_run_after_the_others(
    logs: Path, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "old" / "a-1.log").mkdir()
    end = await call(action="move", glob="*.log", to_root="old", if_exists="replace")
    assert end.outcome == "failed"
    assert "1 files could not be processed, such as a-1.log: " in end.message
    assert names(logs) == ALL - {"b-9.log"}


def test_a_section_with_every_problem(tmp_path: Path) -> None:
    problems: list[str] = []
    table = {
        "roots": {
            "relative": "logs",
            "everything": "/",
            "missing": "/no/such/folder",
            "number": 5,
            "actions": {"path": str(tmp_path), "actions": ["shred"]},
            "typo": {"path": str(tmp_path), "action": ["delete"]},
            "good": str(tmp_path),
        }
    }
    assert Files.from_config(table, problems) is None
    assert [each.partition(": ")[0] for each in problems] == [
        "file.roots.relative.path",
        "file.roots.everything.path",
        "file.roots.missing.path",
        "file.roots.number",
        "file.roots.actions.actions",
        "file.roots.typo.action",
    ]
    problems.clear()
    assert Files.from_config({}, problems) is None
    assert len(problems) == 1
    problems.clear()
    assert Files.from_config({"roots": {"good": str(tmp_path)}}, problems) is not None


def test_the_form_is_described(tmp_path: Path) -> None:
    assert Signature("file", handler_of(Files({"a": FileRoot(tmp_path)}), "file")).schema
