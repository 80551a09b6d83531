"""A peer in Java is built once, anew when its sources change, and left out without its tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.peers import environments, java_builds
from tests.bench.peers.environments import NotInstalledError, run_tool
from tests.bench.peers.java_builds import java_command


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "some_peer"
    folder.mkdir()
    (folder / "pom.xml").write_text("<project/>")
    return folder


def test_it_is_built_when_its_sources_have_changed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "home" / "some_peer"
    builds = []

    def build(command: list[str]) -> None:
        builds.append(command)
        built.mkdir(parents=True)

    monkeypatch.setattr(java_builds, "ROOT", tmp_path)
    monkeypatch.setattr(java_builds, "HOME", tmp_path / "home")
    monkeypatch.setattr(java_builds, "TOOLS", ())
    monkeypatch.setattr(java_builds, "run_tool", build)

    first, second = java_command(project), java_command(project)
    assert first == second
    assert f"{built}/classes:{built}/lib/*" in first
    assert len(builds) == 1

    (project / "pom.xml").write_text("<project></project>")
    java_command(project)
    assert len(builds) == 2


def test_what_is_missing_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_builds, "TOOLS", ("no-such-java", "no-such-mvn"))
    with pytest.raises(NotInstalledError, match="found no no-such-java and no no-such-mvn"):
        java_command(project)


def test_the_line_that_says_why_is_told() -> None:
    maven = ["sh", "-c", "echo '[ERROR] no such artifact'; echo '[ERROR] help'; exit 1"]
    with pytest.raises(NotInstalledError, match="no such artifact"):
        run_tool(maven)
    pip = ["sh", "-c", "echo notice >&2; echo 'ERROR: no such package' >&2; exit 1"]
    with pytest.raises(NotInstalledError, match="no such package"):
        run_tool(pip)


def test_a_tool_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "INSTALL_SECONDS", 0.1)
    with pytest.raises(NotInstalledError, match="not installed within"):
        run_tool(["sleep", "5"])
