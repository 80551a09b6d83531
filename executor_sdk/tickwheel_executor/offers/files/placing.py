"""Put a finished file under its name: never over another one unless that is wanted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO

from .tree import FoundFile, open_file, stat_in

SKIP, REPLACE, RENAME = "skip", "replace", "rename"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
_MAX_NUMBER = 1_000
_CHUNK = 1024 * 1024
_COPIES = 3  # of a file that is written to meanwhile


def place(source: int, name: str, target: int, wanted: str, *, if_exists: str) -> str | None:
    """Rename a file of one open folder into another on the same file system.

    Returns:
        Its new name; None: there is one of this name already, and it was left where it is.

    Raises:
        OSError: not possible; EXDEV: the folders are on different file systems.
    """
    if if_exists == REPLACE:
        os.rename(name, wanted, src_dir_fd=source, dst_dir_fd=target)
        return wanted
    for number in range(_MAX_NUMBER):
        candidate = wanted if number == 0 else numbered(wanted, number)
        try:
            _rename_to_new(source, name, target, candidate)
        except FileExistsError:
            if if_exists == SKIP:
                return None
            continue
        return candidate
    raise FileExistsError(errno.EEXIST, f"{wanted} and its numbered names are taken")


def numbered(name: str, number: int) -> str:
    """`app-1.log` for `app.log`, `.env-1` for `.env`."""
    stem, dot, suffix = name.partition(".") if name.endswith(".tar.gz") else name.rpartition(".")
    return f"{stem}-{number}.{suffix}" if dot and stem else f"{name}-{number}"


def copy_over(
    source: int, found: FoundFile, target: int, temporary: str, check_stop: Callable[[], None]
) -> FoundFile:
    """Copy a file into a folder on another file system, complete and on disk.

    Returns:
        The file as it was copied: it had the same size and time before and after.

    Raises:
        OSError: it cannot be read or written, or is written to again and again; nothing is left
            then.
    """
    with os.fdopen(open_file(source, found.parts[-1], found), "rb") as reader:
        for _ in range(_COPIES):
            before = os.fstat(reader.fileno())
            copied = replace(found, size=before.st_size, modified_ns=before.st_mtime_ns)
            reader.seek(0)
            with os.fdopen(new_file(target, temporary), "wb") as writer:
                try:
                    _copy(reader, writer, check_stop)
                    os.fchmod(writer.fileno(), before.st_mode & 0o777)
                    os.utime(writer.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
                    os.fsync(writer.fileno())
                except BaseException:  # the copy is of no use, whatever happened
                    remove_quietly(target, temporary)
                    raise
            if copied.is_unchanged(os.fstat(reader.fileno())):
                return copied
    remove_quietly(target, temporary)
    raise OSError("it is being written to, so it stays")


def _copy(reader: BinaryIO, writer: BinaryIO, check_stop: Callable[[], None]) -> None:
    while piece := reader.read(_CHUNK):
        check_stop()
        writer.write(piece)
    writer.flush()


def new_file(folder: int, name: str) -> int:
    """A descriptor of a new file that only this user can read; an old one of the name is removed.

    Raises:
        OSError: it cannot be made.
    """
    remove_quietly(folder, name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o600, dir_fd=folder)


def remove_quietly(folder: int, name: str) -> None:
    """Remove an unfinished file if it is there."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def is_other_device(error: OSError) -> bool:
    """Whether a rename failed because the folders are on different file systems."""
    return error.errno == errno.EXDEV


def _rename_to_new(source: int, name: str, target: int, wanted: str) -> None:
    """Rename, but never over another file, which makes a hard link fail and not a rename."""
    try:
        os.link(name, wanted, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with suppress(FileNotFoundError):  # no hard links here: look first
            stat_in(target, wanted)
            raise FileExistsError(errno.EEXIST, wanted) from None
        os.rename(name, wanted, src_dir_fd=source, dst_dir_fd=target)
    else:
        os.unlink(name, dir_fd=source)
