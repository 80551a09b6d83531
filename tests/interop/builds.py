"""Builds the clients' programs by their own tools, once: the results stay in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent
BUILD_SECONDS = 600
"""The first build fetches what the client needs, which may take minutes."""
PAUSES_SECONDS = (5, 30)
"""Waited before the second and the third try: a registry that is busy answers a bit later."""


class BuildError(Exception):
    """The tools ended with an error; the text is the end of what they said."""


def cached(name: str, sources: Path, build: Callable[[Path], None], *, key: str = "") -> Path:
    """The directory that `build` filled from these sources, now or at an earlier time.

    Args:
        key: what else the result depends on, such as the version of the client.
    """
    directory = _cache() / f"{name}-{_digest(sources, key)}"
    complete = directory / ".complete"
    with _locked(directory.with_name(directory.name + ".lock")):
        if not complete.exists():
            _build(directory, build)
            complete.touch()
    return directory


def _build(directory: Path, build: Callable[[Path], None]) -> None:
    for pause in PAUSES_SECONDS:
        try:
            _build_once(directory, build)
        except BuildError:
            time.sleep(pause)
        else:
            return
    _build_once(directory, build)


def _build_once(directory: Path, build: Callable[[Path], None]) -> None:
    shutil.rmtree(directory, ignore_errors=True)  # what an earlier try left
    directory.mkdir()
    build(directory)


def maven(version: str) -> Callable[[Path], None]:
    """Classes with this version of XXL-JOB, and below `lib` the jars that they need."""
    return _maven("java", f"-Dxxl.version={version}")


def quartz(version: str) -> Callable[[Path], None]:
    """The same with this version of Quartz."""
    return _maven("quartz", f"-Dquartz.version={version}")


def _maven(project: str, version: str) -> Callable[[Path], None]:
    def build(directory: Path) -> None:
        _run(
            [
                *("mvn", "--quiet", "--batch-mode", f"--file={SOURCES / project / 'pom.xml'}"),
                *(version, f"-Dout={directory}"),
                *("compile", "dependency:copy-dependencies"),
            ]
        )

    return build


def go(directory: Path) -> None:
    _run(["go", "build", "-buildvcs=false", "-o", directory / "program", "."], SOURCES / "go")


def npm(directory: Path) -> None:
    """The program beside its modules, where Node looks for them."""
    shutil.copytree(SOURCES / "node", directory, dirs_exist_ok=True)
    _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], directory)


def pip(directory: Path) -> None:
    """A virtual environment: what the client needs would clash with what Tickwheel needs."""
    _run([sys.executable, "-m", "venv", "--without-pip", directory])
    _run(
        [
            *(sys.executable, "-m", "pip", "--python", directory / "bin/python"),
            *("install", "--quiet", "--requirement", SOURCES / "python/requirements.txt"),
        ]
    )


def _run(command: Sequence[str | Path], directory: Path = SOURCES) -> None:
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} took more than {error.timeout:.0f} s") from None
    if done.returncode:
        raise BuildError(f"{command[0]} ended with {done.returncode}\n{done.stdout[-2000:]}")


def _digest(sources: Path, key: str) -> str:
    digest = hashlib.sha256(key.encode())
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(f"\0{path.relative_to(sources)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(home, "tickwheel-interop")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
