"""Folders opened name by name from a root, never through a symbolic link.

A path that is checked first and used later can be exchanged in between. Here every folder is opened
relative to the one above it, with O_NOFOLLOW, and files are named relative to an open folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO would block


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A regular file below a root, as it was when it was found."""

    parts: tuple[str, ...]  # its path, by names from the root on
    size: int  # bytes
    modified_ns: int  # UTC epoch ns
    device: int
    inode: int

    @property
    def path(self) -> str:
        """Its path relative to the root."""
        return "/".join(self.parts)

    def is_same(self, now: os.stat_result) -> bool:
        """Whether a file is still this one, changed or not."""
        return stat.S_ISREG(now.st_mode) and (now.st_dev, now.st_ino) == (self.device, self.inode)

    def is_unchanged(self, now: os.stat_result) -> bool:
        """Whether it has also the same size and time."""
        same = (now.st_size, now.st_mtime_ns) == (self.size, self.modified_ns)
        return same and self.is_same(now)


class ChangedError(OSError):
    """Another file stands at this path than the one that was found."""

    def __init__(self) -> None:
        super().__init__("it was exchanged meanwhile")


@contextmanager
def open_root(path: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of the root; its own path, which the owner wrote, may contain links.

    Raises:
        OSError: it is gone, or may not be read.
    """
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield root
    finally:
        os.close(root)


@contextmanager
def open_folder(root: int, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """A descriptor of a folder below the root.

    Args:
        create: make what is missing.

    Raises:
        OSError: something on the way is missing, no folder, or a symbolic link.
    """
    folder = os.dup(root)
    try:
        for name in parts:
            try:
                deeper = os.open(name, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                if not create:
                    raise
                make_folder(folder, name)
                deeper = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        yield folder
    finally:
        os.close(folder)


def make_folder(folder: int, name: str) -> None:
    """Make a folder in an open one, unless somebody has just done so."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)


def stat_in(folder: int, name: str) -> os.stat_result:
    """What an entry of an open folder is; of a symbolic link the link itself."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def open_file(folder: int, name: str, found: FoundFile) -> int:
    """A descriptor to read a file that was found.

    Raises:
        OSError: it is gone, exchanged, or may not be read.
    """
    file = os.open(name, _FILE, dir_fd=folder)
    if found.is_same(os.fstat(file)):
        return file
    os.close(file)
    raise ChangedError


def unlink(folder: int, name: str, found: FoundFile) -> None:
    """Remove a file that was found; at worst another one of the same name in the same folder.

    Raises:
        OSError: it is gone, exchanged, or may not be removed.
    """
    if not found.is_same(stat_in(folder, name)):
        raise ChangedError
    os.unlink(name, dir_fd=folder)
