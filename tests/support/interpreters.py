"""Pythons of this machine, which may be of other versions than the one that runs the tests."""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
from collections.abc import Iterator

SUPPORTED = ("3.11", "3.12", "3.13")
ANOTHER_ACCOUNT = "nobody"


@functools.cache
def find_python(version: str) -> str | None:
    """The path of a CPython of a version such as "3.12" that can make virtual environments."""
    question = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(shutil.which, _candidates(version)):
        done = subprocess.run(
            [candidate, "-I", "-c", question],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[str]:
    """The system's first: other accounts can run it, which is not so in somebody's home."""
    yield f"/usr/bin/python{version}"
    yield from sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python3")))
    if (found := shutil.which(f"python{version}")) is not None:
        yield found


def account_that_can(*files: str) -> str | None:
    """The other account, if this process may change to it, and it can read all of these files."""
    if os.geteuid() != 0:
        return None
    try:
        done = subprocess.run(
            ["cat", "--", *files],
            user=ANOTHER_ACCOUNT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except (LookupError, PermissionError):
        return None
    return ANOTHER_ACCOUNT if done.returncode == 0 else None
