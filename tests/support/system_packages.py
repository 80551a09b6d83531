"""Installs the servers, browser and fonts that the tests use, where it can: as root, with apt."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.browsers import find_chromium
from tests.support.servers import MariaDB, PostgreSQL
from tests.support.servers.base import find_program
from tests.support.servers.galera import find_provider

OPT_OUT = "TICKWHEEL_TEST_INSTALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPackage:
    """A Debian package, and what the tests do without it."""

    name: str
    is_there: Callable[[], bool]
    without_it: str


def _has_font(file_name: str) -> Callable[[], bool]:
    return lambda: any(Path("/usr/share/fonts").rglob(file_name))


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


DATABASES = (
    SystemPackage(
        name="mariadb-server",
        is_there=MariaDB.is_installed,
        without_it="tests on MariaDB are skipped",
    ),
    SystemPackage(
        name="postgresql",
        is_there=PostgreSQL.is_installed,
        without_it="tests on PostgreSQL are skipped",
    ),
)
INTERPRETERS = tuple(
    SystemPackage(
        name=name,
        is_there=lambda program=program: shutil.which(program) is not None,
        without_it=f"scripts in {language} are not tested",
    )
    for name, program, language in (
        ("nodejs", "node", "JavaScript"),
        ("php-cli", "php", "PHP"),
        ("ruby", "ruby", "Ruby"),
    )
)
MONITORING = (
    SystemPackage(
        name="prometheus",
        is_there=lambda: bool(find_program("prometheus") and find_program("promtool")),
        without_it="rules and the board are not tested with Prometheus",
    ),
)
# Debian's MariaDB brings them along; on other systems they are packages of their own.
GALERA = tuple(
    SystemPackage(name=name, is_there=is_there, without_it="tests on Galera are skipped")
    for name, is_there in (
        ("galera-4", lambda: find_provider() is not None),
        ("rsync", lambda: find_program("rsync") is not None),
        ("lsof", lambda: find_program("lsof") is not None),
    )
)
CONTAINERS = tuple(
    SystemPackage(
        name=name,
        is_there=lambda program=name: find_program(program) is not None,
        without_it="images are not built and run",
    )
    for name in ("buildah", "podman", "runc", "mmdebstrap")
)
BROWSER = (
    SystemPackage(
        name="libatomic1",
        is_there=lambda: sys.platform != "linux" or _can_load("libatomic.so.1"),
        without_it="Playwright's driver does not start, so browser tests fail",
    ),
    SystemPackage(
        name="chromium-headless-shell",
        is_there=lambda: find_chromium() is not None,
        without_it="browser tests are skipped",
    ),
    SystemPackage(
        name="fonts-dejavu-core",
        is_there=_has_font("DejaVuSans.ttf"),
        without_it="texts in screenshots have another width",
    ),
    SystemPackage(
        name="fonts-wqy-microhei",
        is_there=_has_font("wqy-microhei.ttc"),
        without_it="Chinese texts in screenshots are boxes",
    ),
)


def install_missing(packages: Sequence[SystemPackage]) -> list[str]:
    """Install what is missing, say what is done, and return what its lack means, if any is left."""
    missing = [package for package in packages if not package.is_there()]
    if not missing:
        return []
    names = " ".join(package.name for package in missing)
    if os.environ.get(OPT_OUT) == "0":
        print(f"Not installing {names}, because {OPT_OUT}=0.")
    elif os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"Only root on Debian or Ubuntu can have this installed: apt-get install {names}")
    else:
        print(f"Installing {names} with apt-get ({OPT_OUT}=0 prevents it)", flush=True)
        _install([package.name for package in missing])
    return [
        f"{package.name} is not installed: {package.without_it}"
        for package in missing
        if not package.is_there()
    ]


def _install(names: Sequence[str]) -> None:
    _apt_get("update")
    # Together is quicker, but one package unknown to this release would stop all the others.
    if not _apt_get("install", *names):
        for name in names:
            _apt_get("install", name)


def _apt_get(command: str, *names: str) -> bool:
    done = subprocess.run(
        [
            "apt-get",
            "--quiet",
            "--quiet",
            "--yes",
            "--no-install-recommends",
            "--option=DPkg::Lock::Timeout=120",
            command,
            *names,
        ],
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"apt-get {command} failed:\n{done.stdout[-2000:]}")
    return done.returncode == 0


if __name__ == "__main__":
    for consequence in install_missing((*DATABASES, *MONITORING, *GALERA, *BROWSER)):
        print(consequence)
