"""Virtual environments of the peers, made on demand: none of their packages is one of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.cluster import ROOT

HOME = ROOT / ".peers"  # ignored by git
_REQUIREMENTS = Path(__file__).parent
INSTALL_SECONDS = 300


class NotInstalledError(Exception):
    """A peer's packages could not be installed; says why."""


def interpreter(peer: str) -> Path:
    """The Python of the peer's environment, which has what requirements-PEER.txt asks for.

    Raises:
        NotInstalledError: without a network, for example.
    """
    wanted = (_REQUIREMENTS / f"requirements-{peer}.txt").read_text()
    directory = HOME / peer
    python, stamp = directory / "bin" / "python", directory / "installed.txt"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"Installing {peer} into {directory.relative_to(ROOT)}", flush=True)
    run_tool([sys.executable, "-m", "venv", "--clear", str(directory)])
    requirements = str(_REQUIREMENTS / f"requirements-{peer}.txt")
    run_tool(
        [
            str(python),
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-q",
            "-r",
            requirements,
        ]
    )
    stamp.write_text(wanted)
    return python


def run_tool(command: list[str]) -> None:
    """Let it install or build.

    Raises:
        NotInstalledError: it failed, or took too long.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"not installed within {INSTALL_SECONDS} s") from None
    if done.returncode:
        raise NotInstalledError(f"could not be installed: {_reason(done.stderr or done.stdout)}")


def _reason(said: str) -> str:
    """The line that says why: Maven ends with where to find help, pip with the error."""
    lines = said.strip().splitlines()
    return next((line for line in lines if line.startswith("[ERROR]")), "".join(lines[-1:]))
