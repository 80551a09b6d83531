"""Find the files that a job means."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tickwheel_executor.errors import Failed

from .globs import Glob, States
from .tree import FoundFile, open_folder

MAX_ENTRIES = 1_000_000  # files and folders that one run looks at
MAX_DEPTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which files are meant."""

    glob: Glob
    exclude: Sequence[Glob] = ()
    older_than_seconds: int | None = None  # by the time of their last change
    larger_than_bytes: int | None = None
    keep_newest: int = 0  # so many of those that match are left alone
    max_files: int = 1_000


@dataclass(slots=True)
class Findings:
    """What a search has found."""

    files: list[FoundFile]  # oldest first
    has_more: bool = False  # more match than `max_files`
    unreadable: int = 0  # folders that could not be read


def search(
    root: int, selection: Selection, *, now_ns: int, check_stop: Callable[[], None]
) -> Findings:
    """The files that match, oldest first.

    Args:
        root: a descriptor of the root.
        check_stop: called for every entry; raises to end the search.

    Raises:
        Failed: there are too many entries.
    """
    findings = Findings([])
    found: list[FoundFile] = []
    for file in _walk(root, selection.glob, findings, check_stop):
        if any(each.matches(file.parts) for each in selection.exclude):
            continue
        if selection.larger_than_bytes is not None and file.size <= selection.larger_than_bytes:
            continue
        found.append(file)
    found.sort(key=lambda file: (file.modified_ns, file.parts))
    if selection.keep_newest:
        del found[-selection.keep_newest :]
    if selection.older_than_seconds is not None:
        limit = now_ns - selection.older_than_seconds * 1_000_000_000
        found = [file for file in found if file.modified_ns < limit]
    findings.has_more = len(found) > selection.max_files
    findings.files = found[: selection.max_files]
    return findings


def _walk(
    root: int, glob: Glob, findings: Findings, check_stop: Callable[[], None]
) -> Iterator[FoundFile]:
    device = os.fstat(root).st_dev
    folders: list[tuple[tuple[str, ...], States]] = [((), glob.start)]
    entries = 0
    while folders:
        parts, states = folders.pop()
        try:
            with open_folder(root, parts) as folder, os.scandir(folder) as listed:
                for entry in listed:
                    check_stop()
                    entries += 1
                    if entries > MAX_ENTRIES:
                        raise Failed(f"there are more than {MAX_ENTRIES:,} files to look at")
                    reached = glob.step(states, entry.name)
                    if not reached:
                        continue
                    try:
                        now = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # somebody else was quicker
                        continue
                    below = (*parts, entry.name)
                    if stat.S_ISDIR(now.st_mode):
                        # Another file system that is mounted here is no part of the root.
                        if now.st_dev == device and len(below) < MAX_DEPTH:
                            folders.append((below, reached))
                    elif stat.S_ISREG(now.st_mode) and glob.accepts(reached):
                        yield FoundFile(
                            parts=below,
                            size=now.st_size,
                            modified_ns=now.st_mtime_ns,
                            device=now.st_dev,
                            inode=now.st_ino,
                        )
        except OSError:  # gone or exchanged meanwhile, or not for this user
            findings.unreadable += 1
