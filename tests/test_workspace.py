"""The workspace as a visitor meets it: commands, links, packages, files."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
MEMBERS = {
    "admin": "tickwheel_admin",
    "executor_sdk": "tickwheel_executor",
    "shared": "tickwheel_shared",
}
_OF_MAKE = ("MAKE", "MFLAGS", "PYTHON")
READERS = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "docker/*.md",
        "sql/*.md",
        "*/README.md",
        "tests/bench/*.md",
    )
    for path in ROOT.glob(pattern)
)


def project(member: str) -> dict[str, Any]:
    content = tomllib.loads((ROOT / member / "pyproject.toml").read_text())
    return dict(content["project"])


def names_of(dependencies: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ]", text)[0].lower() for text in dependencies}


def test_a_service_that_installs_the_sdk_gets_nothing_of_the_server() -> None:
    assert names_of(project("executor_sdk")["dependencies"]) == {
        "tickwheel-shared",
        "aiohttp",
        "msgspec",
    }
    assert names_of(project("shared")["dependencies"]) == {"msgspec"}


def test_the_three_distributions_are_of_one_version_and_need_each_other_in_it() -> None:
    versions = {project(member)["version"] for member in MEMBERS}
    assert len(versions) == 1
    for member in ("admin", "executor_sdk"):
        assert f"tickwheel-shared=={versions.pop()}" in project(member)["dependencies"]
        versions = {project(member)["version"]}


@pytest.mark.parametrize("member", MEMBERS)
def test_each_distribution_is_typed_licensed_and_described(member: str) -> None:
    assert (ROOT / member / MEMBERS[member] / "py.typed").exists()
    assert project(member)["license"].split(" AND ")[0] == "Apache-2.0"
    assert project(member)["requires-python"] == ">=3.11"
    readme = (ROOT / member / project(member)["readme"]).read_text()
    assert len(readme.splitlines()) > 1


def test_the_root_is_only_workspace_and_tools() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "project" not in content
    assert set(content["tool"]["uv"]["workspace"]["members"]) == set(MEMBERS)


def test_make_help_lists_every_command() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    told = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    phony = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    for command in phony.group(1).split():
        assert re.search(rf"^  make {command} +\w", told, re.MULTILINE), command


@pytest.mark.parametrize(
    ("fake_python", "sentence"),
    [
        ("exit 1", "needs Python 3.11 or newer"),
        # Passes the version check and lacks the modules, as Debian's python3 without python3-venv.
        ('case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac', "apt-get install python3-venv"),
    ],
)
def test_a_python_that_will_not_do_is_one_sentence(
    tmp_path: Path, fake_python: str, sentence: str
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        (tools / name).write_text(f"#!/bin/sh\n{fake_python}\n")
        (tools / name).chmod(0o755)
    done = make_demo(copy_of_makefile(tmp_path), PATH=f"{tools}:/usr/bin:/bin")

    assert done.returncode != 0
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Tickwheel:")]
    assert sentence in line


def test_a_directory_that_is_not_writable_is_one_sentence() -> None:
    # Not in tmp_path, which nobody else may enter: as root this runs as another user.
    with tempfile.TemporaryDirectory(prefix="tickwheel-clone-") as name:
        Path(name).chmod(0o755)
        directory = copy_of_makefile(Path(name))
        directory.chmod(0o555)
        done = make_demo(directory, user="nobody" if os.geteuid() == 0 else None)
        directory.chmod(0o755)

    assert done.returncode != 0
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Tickwheel:")]
    assert "cannot write to" in line


def copy_of_makefile(tmp_path: Path) -> Path:
    directory = tmp_path / "clone"
    directory.mkdir()
    shutil.copy(ROOT / "Makefile", directory)
    for member in MEMBERS:
        (directory / member).mkdir()
        shutil.copy(ROOT / member / "pyproject.toml", directory / member)
    return directory


def make_demo(
    directory: Path, *, user: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    # Not the variables of a `make test` around us: they would change what this make does.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_OF_MAKE)}
    return subprocess.run(
        ["make", "demo"],
        cwd=directory,
        env=inherited | environment,
        user=user,
        capture_output=True,
        text=True,
        check=False,
    )


def test_ci_runs_the_test_command_of_the_readme() -> None:
    ci = ROOT / ".ci" / "run"
    assert ci.stat().st_mode & stat.S_IXUSR
    assert "export CI=true" in ci.read_text()
    assert ci.read_text().rstrip().endswith("make test")
    for name in ("README.md", "README.zh-CN.md"):
        readme = (ROOT / name).read_text()
        assert "```sh\nmake demo\n```" in readme
        assert "```sh\nmake test\n```" in readme


@pytest.mark.parametrize("path", READERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_nobody_is_told_to_install_what_is_not_published() -> None:
    """Packages come from a checkout; where they are named, they are there."""
    sources = [path for member in MEMBERS for path in (ROOT / member).rglob("*.py")]
    templates = (ROOT / "admin/tickwheel_admin/console/templates").rglob("*.html")
    told = set()
    for path in (*READERS, *sources, *templates):
        for rest in re.findall(r"pip (?:install|wheel)([^\n`]*)", path.read_text()):
            assert "tickwheel-" not in rest, f"{path.name}: pip install{rest}"
            told.update(re.findall(r"(?<=\./)[a-z_]+", rest))
    assert told == set(MEMBERS)


def test_ignored_names_are_anchored() -> None:
    """An unanchored `logs/` would keep a package folder of that name out of a wheel."""
    lines = [
        line
        for line in (ROOT / ".gitignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert [line for line in lines if not line.startswith("/")] == ["__pycache__/", "*.egg-info/"]


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
