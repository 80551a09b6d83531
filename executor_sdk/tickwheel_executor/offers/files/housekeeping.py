"""Delete, move or archive the files that were found; in a thread, stopped between two pieces."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tickwheel_executor.errors import Failed
from tickwheel_executor.offers.threads import StoppedError
from tickwheel_executor.run.context import Run
from tickwheel_executor.text import clean

from .archive import write_archive
from .placing import RENAME, SKIP, copy_over, is_other_device, new_file, place, remove_quietly
from .roots import ARCHIVE, DELETE, MOVE
from .search import Findings, Selection, search
from .tree import FoundFile, open_folder, open_root, stat_in, unlink

_MAX_LINES = 1_000  # files that are named in the log
_PROGRESS_EVERY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingPlan:
    """What to do, checked."""

    action: str  # DELETE, MOVE or ARCHIVE
    root: str | os.PathLike[str]
    selection: Selection
    target: str | os.PathLike[str]  # root of moved files and archives
    to: tuple[str, ...] = ()  # a folder in it; for ARCHIVE the path of the archive
    if_exists: str = "skip"
    remove_originals: bool = False  # after ARCHIVE
    remove_empty_folders: bool = False  # those that this run emptied
    dry_run: bool = False


@dataclass(slots=True)
class Housekeeping:
    """Carries out a plan; `run` in one thread, `stop` from others."""

    plan: HousekeepingPlan
    of_run: Run
    _stopped: threading.Event = field(default_factory=threading.Event)
    _failures: list[str] = field(default_factory=list)
    _files: int = 0
    _bytes: int = 0
    _skipped: int = 0
    _lines: int = 0
    _emptied: set[tuple[str, ...]] = field(default_factory=set)

    def stop(self) -> None:
        """Let it end at the next file, or the next MiB of one."""
        self._stopped.set()

    def run(self) -> dict[str, Any]:
        """Carry it out; returns the run's result.

        Raises:
            Failed: some files could not be processed; the others were.
            StoppedError: it was told to stop.
        """
        try:
            with open_root(self.plan.root) as root, open_root(self.plan.target) as target:
                return self._carry_out(root, target)
        except OSError as error:
            name = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            raise Failed(f"{clean(name)}{_reason(error)}") from None

    def _carry_out(self, root: int, target: int) -> dict[str, Any]:
        plan = self.plan
        found = search(root, plan.selection, now_ns=time.time_ns(), check_stop=self._check_stop)
        result: dict[str, Any] = {}
        if plan.dry_run:
            for file in found.files:
                self._done("would be processed", file)
            result["dry_run"] = True
        elif plan.action == ARCHIVE:
            result["archive"] = self._archive(root, target, found.files)
        else:
            self._one_by_one(root, target, found.files)
        if plan.remove_empty_folders and not plan.dry_run:
            self._remove_folders(root)
        return result | self._summary(found)

    def _one_by_one(self, root: int, target: int, files: list[FoundFile]) -> None:
        for number, file in enumerate(files):
            self._check_stop()
            if number % _PROGRESS_EVERY == 0:
                self.of_run.progress(number / len(files), f"{number:,} of {len(files):,} files")
            try:
                with open_folder(root, file.parts[:-1]) as folder:
                    if self.plan.action == DELETE:
                        unlink(folder, file.parts[-1], file)
                        self._done("deleted", file)
                    else:
                        self._move(folder, target, file)
            except OSError as error:
                self._failed(file, error)

    def _move(self, folder: int, target: int, file: FoundFile) -> None:
        name = file.parts[-1]
        with open_folder(target, (*self.plan.to, *file.parts[:-1]), create=True) as into:
            if not file.is_same(stat_in(folder, name)):
                raise OSError("it was exchanged meanwhile")
            try:
                placed = place(folder, name, into, name, if_exists=self.plan.if_exists)
            except OSError as error:
                if not is_other_device(error):
                    raise
                placed = self._move_by_copy(folder, into, file)
        if placed is None:
            self._skipped += 1
            self.of_run.log.warning("%s: there is one at its new place; it stays", _shown(file))
        else:
            self._done("moved" if placed == name else f"moved as {placed}", file)

    def _move_by_copy(self, folder: int, into: int, file: FoundFile) -> str | None:
        temporary = self._temporary(file.parts[-1])
        copied = copy_over(folder, file, into, temporary, self._check_stop)
        placed = place(into, temporary, into, file.parts[-1], if_exists=self.plan.if_exists)
        if placed is None:
            remove_quietly(into, temporary)
        elif copied.is_unchanged(stat_in(folder, file.parts[-1])):
            unlink(folder, file.parts[-1], file)
        else:
            raise OSError("it was written to after it was copied, so it stays beside its copy")
        return placed

    def _archive(self, root: int, target: int, files: list[FoundFile]) -> str | None:
        """The path of the archive; None: there was nothing to archive."""
        if not files:
            return None
        *folders, name = self.plan.to
        temporary = self._temporary(name)
        with open_folder(target, folders, create=True) as into:
            self._refuse_taken(into, name)  # before the work; it is checked again at its end
            try:
                with os.fdopen(new_file(into, temporary), "w+b") as writer:
                    added = write_archive(
                        writer,
                        name,
                        root,
                        files,
                        check_stop=self._check_stop,
                        on_skipped=self._failed,
                    )
                    writer.flush()
                    os.fsync(writer.fileno())
                placed = place(into, temporary, into, name, if_exists=self.plan.if_exists)
            except OSError as error:
                raise Failed(f"the archive cannot be written: {_reason(error)}") from None
            finally:
                remove_quietly(into, temporary)
        if placed is None:
            raise self._taken()
        for file in added:
            self._after_archiving(root, file)
        return "/".join((*folders, placed))

    def _refuse_taken(self, folder: int, name: str) -> None:
        if self.plan.if_exists == SKIP:
            with suppress(FileNotFoundError):
                stat_in(folder, name)
                raise self._taken()

    def _taken(self) -> Failed:
        return Failed(
            f"there is a file {'/'.join(self.plan.to)} already; choose another name, or "
            f"if_exists: {RENAME}"
        )

    def _after_archiving(self, root: int, file: FoundFile) -> None:
        if not self.plan.remove_originals:
            self._done("archived", file)
            return
        try:
            with open_folder(root, file.parts[:-1]) as folder:
                if file.is_unchanged(stat_in(folder, file.parts[-1])):
                    unlink(folder, file.parts[-1], file)
                    self._done("archived and removed", file)
                else:
                    self._failed(file, OSError("it was written to meanwhile, so it stays"))
        except OSError as error:
            self._failed(file, error)

    def _remove_folders(self, root: int) -> None:
        """Those that are empty now, from the deepest on; never the root itself."""
        folders = {parts[:depth] for parts in self._emptied for depth in range(1, len(parts) + 1)}
        for parts in sorted(folders, key=len, reverse=True):
            try:
                with open_folder(root, parts[:-1]) as folder:
                    os.rmdir(parts[-1], dir_fd=folder)
            except OSError:  # it has other files, or is gone
                continue

    def _done(self, what: str, file: FoundFile) -> None:
        self._files += 1
        self._bytes += file.size
        if self.plan.action in (DELETE, MOVE) or self.plan.remove_originals:
            self._emptied.add(file.parts[:-1])
        self._say(f"{what}: {_shown(file)} ({file.size:,} bytes)", self.of_run.log.info)

    def _failed(self, file: FoundFile, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            self._skipped += 1  # somebody else was quicker
            return
        text = f"{_shown(file)}: {_reason(error)}"
        self._failures.append(text)
        self._say(text, self.of_run.log.error)

    def _say(self, text: str, write: Callable[..., None]) -> None:
        self._lines += 1
        if self._lines <= _MAX_LINES:
            write("%s", text)
        elif self._lines == _MAX_LINES + 1:
            self.of_run.log.info("further files are counted, not named")

    def _summary(self, found: Findings) -> dict[str, Any]:
        result = {"files": self._files, "bytes": self._bytes, "skipped": self._skipped}
        if found.has_more:
            result["more"] = True
            self.of_run.log.warning("more files match than max_files; the next run goes on")
        if found.unreadable:
            self.of_run.log.warning("%d folders could not be read", found.unreadable)
        self.of_run.log.info("%s files, %s bytes", f"{self._files:,}", f"{self._bytes:,}")
        if self._failures:
            first = self._failures[0]
            raise Failed(f"{len(self._failures):,} files could not be processed, such as {first}")
        return result

    def _temporary(self, name: str) -> str:
        return f".{name[:150]}.tickwheel-{self.of_run.id}"

    def _check_stop(self) -> None:
        if self._stopped.is_set():
            raise StoppedError


def _shown(file: FoundFile) -> str:
    return clean(file.path)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
