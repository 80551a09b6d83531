"""Files for the spool: locks, writes, fsync, and explanations of errors."""

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
    """Write everything, in as many calls as needed."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def full_fsync(file: int) -> None:
    """fsync down to the medium; on macOS plain fsync stops at the drive's cache."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(file)
    else:
        fcntl.fcntl(file, full)


def explain(directory: Path, error: OSError) -> str:
    """What is wrong with a spool directory, and how to fix it."""
    hint = _HINTS.get(error.errno or 0, "").format(user=os.geteuid())
    return f"the spool directory {directory}: {error.strerror or error}{hint}"


_NOT_OURS = (
    ": this process (user {user}) may not write there; give it a `spool_dir` where it may, on a "
    "disk that outlives the process"
)
_FULL = ": make room, or give another `spool_dir`"
_HINTS = {
    errno.EACCES: _NOT_OURS,
    errno.EPERM: _NOT_OURS,
    errno.EROFS: _NOT_OURS,
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
}
