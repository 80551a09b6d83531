"""Templates compiled once: for all applications of a process, and for its next start."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

import jinja2
import msgspec

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class CompiledTemplates(jinja2.BytecodeCache):
    """Keeps what Jinja compiled in memory; an entry is used only for the very same source."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if code := self._kept.get(bucket.key):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()

    def to_bytes(self) -> bytes:
        """All of it, for another process."""
        return msgspec.msgpack.encode(self._kept)

    def take(self, compiled: bytes) -> bool:
        """Add what another process has; says whether these were the bytes of one."""
        try:
            self._kept |= msgspec.msgpack.decode(compiled, type=dict[str, bytes])
        except msgspec.DecodeError:
            return False
        return True

    def read(self, file: Path) -> None:
        """Take what an earlier process wrote; a file that is missing or damaged has nothing.

        The file is code. One that others could have written is left alone.
        """
        with contextlib.suppress(OSError), file.open("rb") as opened:  # they are compiled again
            about = os.fstat(opened.fileno())
            if about.st_uid == os.geteuid() and not about.st_mode & _WRITABLE_BY_OTHERS:
                self.take(opened.read())

    def write(self, file: Path) -> None:
        """Write all of it, as a whole or not at all.

        Raises:
            OSError: the file cannot be written.
        """
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.")
        try:
            with open(handle, "wb") as new:
                new.write(self.to_bytes())
            os.replace(name, file)
        except BaseException:  # whatever ended it: half a file must not stay
            os.unlink(name)
            raise


COMPILED = CompiledTemplates()
