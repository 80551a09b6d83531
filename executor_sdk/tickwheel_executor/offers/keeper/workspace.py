"""The private directory of a run: its files, and what the command leaves in them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from typing import Any

WORK = "work"  # where the command runs and has its temporary files
_STALE_SECONDS = 86_400
_READ_BYTES = 256 * 1024  # of one file; what it holds is JSON with a smaller limit of its own
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Workspace:
    """A directory that only the run's user may enter.

    Args:
        path: of the directory, which does not exist yet.
        files: texts by name, written before the command starts.
        user: uid and gid that own all of it; None: this process's.

    Raises:
        OSError: it cannot be created.
    """

    def __init__(self, path: str, files: dict[str, str], user: tuple[int, int] | None) -> None:
        self.path = path
        self._owner = os.geteuid() if user is None else user[0]
        self._files = list(files)
        os.mkdir(path, 0o700)
        self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.mkdir(WORK, 0o700, dir_fd=self._directory)
        for name, text in files.items():
            file = os.open(name, _NEW_FILE, 0o600, dir_fd=self._directory)
            with os.fdopen(file, "wb") as stream:
                stream.write(text.encode("utf-8", "surrogateescape"))
                if user is not None:
                    os.fchown(file, *user)
        if user is not None:
            os.chown(WORK, *user, dir_fd=self._directory)
            os.fchown(self._directory, *user)

    def stamp(self, name: str) -> tuple[int, int, int] | None:
        """Changes when the file does; None: there is none."""
        with suppress(OSError):
            status = os.stat(name, dir_fd=self._directory, follow_symlinks=False)
            return status.st_mtime_ns, status.st_size, status.st_ino
        return None

    def read(self, name: str) -> dict[str, Any] | None:
        """What the command wrote: {"text": …} or {"problem": …}; None: there is no such file.

        A link could name a file of somebody else, and a pipe would never end: only an ordinary file
        that belongs to the run's user, under one name, is read.
        """
        try:
            file = os.open(name, _READ_FILE, dir_fd=self._directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return {"problem": "it is a symbolic link"}
            return {"problem": os.strerror(error.errno or 0)}
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            os.close(file)
            return {"problem": "it is not an ordinary file"}
        with os.fdopen(file, "rb") as stream:
            if status.st_uid != self._owner or status.st_nlink != 1:
                return {"problem": "it is a file of somebody else"}
            if status.st_size > _READ_BYTES:
                return {"problem": f"it has {status.st_size:,} bytes"}
            data = stream.read(_READ_BYTES)
        try:
            return {"text": data.decode()}
        except UnicodeDecodeError:
            return {"problem": "it is not UTF-8"}

    def remove(self, more: list[str]) -> bool:
        """Remove it with all that is in it; returns whether it is gone.

        Args:
            more: files that the command was asked to write.
        """
        for name in (*self._files, *more):
            with suppress(OSError):
                os.unlink(name, dir_fd=self._directory)
        with suppress(OSError):
            os.rmdir(WORK, dir_fd=self._directory)
        os.close(self._directory)
        return remove_tree(self.path)


def lock_directory(path: str) -> int:
    """Lock a directory until this file is closed; returns its number.

    It tells systemd-tmpfiles and other agents that the directory is in use, however old it is.
    """
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file


def remove_stale(directory: str, *, now: float) -> None:
    """Remove what other keepers left beside this directory, when they and their machine crashed.

    That is what begins with the same name, belongs to the same user, is not locked, and a day old.
    """
    parent, name = os.path.split(directory)
    prefix = name[: name.rindex("-") + 1]
    with suppress(OSError):
        for found in os.listdir(parent):
            path = os.path.join(parent, found)
            if not found.startswith(prefix) or found == name:
                continue
            with suppress(OSError):
                status = os.lstat(path)
                if status.st_uid != os.geteuid() or now - status.st_mtime < _STALE_SECONDS:
                    continue
                lock = lock_directory(path)
                remove_tree(path)
                os.close(lock)


def remove_tree(path: str) -> bool:
    """Remove a directory, by `rm` if it is not empty; returns whether it is gone.

    `rm` copes with trees of any depth and follows no links. Directories that their owner has closed
    are opened first.
    """
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        opens = [] if os.geteuid() == 0 else [("/bin/chmod", "-R", "u+rwX")]
        for program, *arguments in (*opens, ("/bin/rm", "-rf")):
            with suppress(OSError):
                os.spawnv(os.P_WAIT, program, [program, *arguments, "--", path])  # noqa: S606 (fixed)
    return not os.path.lexists(path)
