"""Peers in Java, built by Maven on demand, beside the virtual environments of the others."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tests.bench.peers.environments import HOME, NotInstalledError, run_tool
from tests.e2e.cluster import ROOT

TOOLS = ("java", "mvn")
_MAIN = "peers.Program"


def java_command(project: Path) -> list[str]:
    """What starts the peer whose Maven project this is.

    Raises:
        NotInstalledError: without Java and Maven, or without a network.
    """
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        raise NotInstalledError(f"needs Java 17 and Maven, and found no {' and no '.join(lacking)}")
    directory = HOME / project.name
    stamp, wanted = directory / "built.txt", _digest(project)
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"Building {project.name} in {directory.relative_to(ROOT)}", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        run_tool(
            [
                *("mvn", "--quiet", "--batch-mode", f"--file={project / 'pom.xml'}"),
                *(f"-Dout={directory}", "compile", "dependency:copy-dependencies"),
            ]
        )
        stamp.write_text(wanted)
    return ["java", "-cp", f"{directory / 'classes'}:{directory / 'lib'}/*", _MAIN]


def _digest(project: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in project.rglob("*") if path.is_file()):
        digest.update(f"\0{path.relative_to(project)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
