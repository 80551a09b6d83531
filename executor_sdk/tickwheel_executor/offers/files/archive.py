"""Write files into a tar.gz or zip archive."""

from __future__ import annotations

import os
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable
from typing import BinaryIO, Protocol

from tickwheel_executor.errors import Fail
from tickwheel_executor.text import clean

from .tree import FoundFile, open_file, open_folder

_CHUNK = 1024 * 1024
_ZIP_FROM = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip archive can hold
SUFFIXES = (".tar.gz", ".tgz", ".zip")


class Readable(Protocol):
    """A source of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; none at the end."""


class Archive(Protocol):
    """An archive that is being written."""

    def add(self, name: str, source: Readable, now: os.stat_result) -> None:
        """Add a file of `now.st_size` bytes."""

    def close(self) -> None:
        """Write its end."""


def check_suffix(name: str) -> None:
    """Refuse a name that tells no known format.

    Raises:
        Fail: likewise.
    """
    if not name.endswith(SUFFIXES):
        raise Fail(f"to: {name!r} is no archive; its name ends with one of {', '.join(SUFFIXES)}")


def write_archive(
    target: BinaryIO,
    name: str,
    root: int,
    files: Iterable[FoundFile],
    *,
    check_stop: Callable[[], None],
    on_skipped: Callable[[FoundFile, OSError], None],
) -> list[FoundFile]:
    """Write all files; returns those that are in it.

    Args:
        name: of the archive, which tells its format.
        root: a descriptor of the files' root.
        check_stop: called for every piece; raises to stop.
        on_skipped: called for a file that is gone or cannot be read.

    Raises:
        OSError: the archive cannot be written, or a file became shorter meanwhile.
    """
    archive: Archive = _Zip(target) if name.endswith(".zip") else _TarGz(target)
    added = []
    for file in files:
        check_stop()
        try:
            with open_folder(root, file.parts[:-1]) as folder:
                source = os.fdopen(open_file(folder, file.parts[-1], file), "rb")
        except OSError as error:
            on_skipped(file, error)
            continue
        with source:
            now = os.fstat(source.fileno())
            archive.add(file.path, _Source(source, now.st_size, check_stop), now)
        added.append(file)
    archive.close()
    return added


class _TarGz:
    def __init__(self, target: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=target, mode="w:gz", format=tarfile.PAX_FORMAT)  # noqa: SIM115 (closed by `close`)

    def add(self, name: str, source: Readable, now: os.stat_result) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.mode = now.st_size, now.st_mtime, now.st_mode & 0o777
        info.uid, info.gid = now.st_uid, now.st_gid
        self._tar.addfile(info, source)

    def close(self) -> None:
        self._tar.close()


class _Zip:
    def __init__(self, target: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED)

    def add(self, name: str, source: Readable, now: os.stat_result) -> None:
        at = time.gmtime(now.st_mtime)[:6]
        info = zipfile.ZipInfo(clean(name), max(at, _ZIP_FROM))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (now.st_mode & 0xFFFF) << 16
        info.file_size = now.st_size
        with self._zip.open(info, "w") as inside:
            while piece := source.read(_CHUNK):
                inside.write(piece)

    def close(self) -> None:
        self._zip.close()


class _Source:
    """Reads exactly `size` bytes: a log that grows meanwhile does not break the archive."""

    def __init__(self, file: BinaryIO, size: int, check_stop: Callable[[], None]) -> None:
        self._file = file
        self._left = size
        self._check_stop = check_stop

    def read(self, size: int = -1, /) -> bytes:
        self._check_stop()
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        if len(data) < wanted:
            raise OSError("a file became shorter while it was archived")
        self._left -= len(data)
        return data
