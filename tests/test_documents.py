"""What documents say of the code, where it can be checked: paths, tests, moves, guarantees."""

from __future__ import annotations

import ast
import inspect
import re
import struct
import subprocess
import zlib
from functools import cache
from pathlib import Path

import pytest

from tests.support.pictures import IMAGES, PICTURES, WIDTH, smaller
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.run import Move

ROOT = Path(__file__).parents[1]
ARCHITECTURE = ROOT / "docs/architecture.md"
FOLDERS = tuple(
    ROOT / name
    for name in (
        "",
        "admin/tickwheel_admin",
        "admin/tickwheel_admin/console/templates",
        "tests/admin",
        "tests/executor_sdk",
    )
)
SDK = ROOT / "executor_sdk/tickwheel_executor"
# Documents that name files of this repository.
ABOUT_CODE = sorted(
    ROOT / path
    for path in (
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/guarantees.md",
        *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/decisions/*.md")),
    )
    if (ROOT / path).exists()
)
SWITCHES = (
    "tests/simulation/mutations.py",
    "tests/simulation/pools/mutations.py",
    "tests/simulation/workflows/mutations.py",
    "tests/simulation/checks/audit_mutations.py",
    "tests/interleavings/switches.py",
)


@cache
def tracked() -> tuple[str, ...]:
    """Files of the repository; new ones too, caches and the like not."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(done.stdout.split())


def stands(name: str) -> bool:
    """Whether a path, with `<noun>` for any name, or a bare file name leads to a file or folder."""
    name = name.partition("::")[0]
    folders = FOLDERS
    if name.startswith("SDK:"):
        folders, name = (SDK,), name.removeprefix("SDK:")
    if "/" not in name:
        return any(path.endswith(f"/{name}") or path == name for path in tracked())
    pattern = re.sub(r"<[a-z_]+>", "*", name.rstrip("/"))
    return any(True for folder in folders for _ in folder.glob(pattern))


@pytest.mark.parametrize("path", ABOUT_CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_documents_name_exist(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    named = set(re.findall(r"`((?:SDK:)?[\w.<>*/-]+(?:/|\.py)(?:::\w+)?)`", text))
    named |= set(re.findall(r"`((?:SDK:)?[\w.<>*-]+/[\w.<>*/-]+\.\w+)`", text))
    named = {name for name in named if not name.startswith("/")}
    assert {name for name in named if not stands(name)} == set()


def test_the_architecture_names_every_move() -> None:
    table = ARCHITECTURE.read_text(encoding="utf-8").partition("## States of a run")[2]
    made = {
        name
        for name, function in inspect.getmembers(moves, inspect.isfunction)
        if not name.startswith("_") and inspect.get_annotations(function).get("return") == "Move"
    }
    rows = re.findall(r"^\| (`.+?) \|", table.partition("## Guarantees")[0], re.MULTILINE)
    assert Move is moves.Move
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == made


def guarantees() -> dict[str, str]:
    """The text of each guarantee, by its number."""
    parts = re.split(r"^### (G\d+): ", ARCHITECTURE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        name: text.partition("\n## ")[0]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_guarantee_that_is_cited_is_defined() -> None:
    assert list(guarantees()) == [f"G{number}" for number in range(1, 15)]
    for path in tracked():
        if path.endswith(".py") and (ROOT / path).exists():
            cited = set(re.findall(r"\bG\d+\b", (ROOT / path).read_text(encoding="utf-8")))
            assert cited <= guarantees().keys(), path


def test_guarantees_name_what_is_switched_off_to_test_them() -> None:
    switches = {
        node.name: ast.get_docstring(node) or ""
        for path in SWITCHES
        for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    for name, text in guarantees().items():
        told = text.partition("*Held by*")[2]
        assert told, name
        named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", told))
        assert named <= switches.keys(), name
        of_it = {each for each, why in switches.items() if re.match(rf"{name}\b", why)}
        assert of_it <= named, f"{name} does not name {of_it - named}"


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


def test_links_lead_to_headings_that_exist() -> None:
    for name in tracked():
        path = ROOT / name
        if path.suffix != ".md" or not path.exists():
            continue
        for target, anchor in re.findall(r"\]\(([^)\s#:]*)#([^)\s]+)\)", path.read_text()):
            found = path.parent / target if target else path
            assert anchor in anchors(found), f"{name}: {target}#{anchor}"


def test_pictures_are_those_that_the_script_takes() -> None:
    shown = set()
    for name in tracked():
        path = ROOT / name
        if path.suffix == ".md" and path.exists():
            for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
                assert (path.parent / target).exists(), f"{name}: {target}"
                shown.add((path.parent / target).resolve())
    taken = {IMAGES / f"{picture.name}.png" for picture in PICTURES}
    assert {path for path in shown if path.parent == IMAGES} == taken
    assert set(IMAGES.iterdir()) == taken, "run python -m tests.support.pictures"
    for path in taken:
        width = int.from_bytes(path.read_bytes()[16:20], "big")
        assert width == WIDTH, path
        assert path.stat().st_size < 300_000, f"{path} is large: make it less high"


def test_a_picture_that_is_compressed_anew_is_the_same() -> None:
    png = (IMAGES / "executor.png").read_bytes()
    assert smaller(png) == png  # it has been, and nothing else of it changes
    head, body = png[:33], png[33:]
    (length,) = struct.unpack_from(">I", body)
    data = zlib.decompress(body[8 : 8 + length])
    fast = zlib.compress(data, 1)
    chunk = b"IDAT" + fast
    loose = struct.pack(">I", len(fast)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    assert smaller(head + loose + body[12 + length :]) == png
