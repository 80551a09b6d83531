"""What the file spool asks of the operating system."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path


def lock(path: Path) -> int | None:
    """Lock a file without waiting; None when another process holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    return file


def write_all(file: int, data: bytes) -> None:
    """Write, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def full_fsync(file: int) -> None:
    """Down to the medium; on macOS plain fsync stops at the drive's cache."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(file)
    else:
        fcntl.fcntl(file, full)
