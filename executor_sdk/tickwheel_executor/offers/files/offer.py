"""The offer `file`, with the folders that the owner of a machine lists."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tickwheel_executor.errors import ConfigurationError, Fail
from tickwheel_executor.offers import HandlerRegistry
from tickwheel_executor.offers.config import ConfigTable
from tickwheel_executor.offers.examples import with_examples
from tickwheel_executor.offers.threads import in_thread
from tickwheel_executor.run.context import Run

from . import parameters as p
from .archive import check_suffix
from .globs import Glob, exclusion, path_parts
from .housekeeping import Housekeeping, HousekeepingPlan
from .measures import age_seconds, size_bytes
from .roots import ARCHIVE, DELETE, MOVE, RECEIVE, FileRoot, problem_of, roots_of
from .search import Selection

_STOP_SECONDS = 8.0  # that a slow disk may take to finish its piece
_NONE: list[str] = []


class Files:
    """Offers the handler `file`.

    Args:
        roots: Folders, by the names that jobs use.

    Raises:
        ConfigurationError: a folder cannot be used.
    """

    def __init__(self, roots: Mapping[str, FileRoot]) -> None:
        problems = [
            f"root {name!r}: {problem[0]}: {problem[1]}"
            for name, root in roots.items()
            if (problem := problem_of(root)) is not None
        ]
        if problems:
            raise ConfigurationError(problems)
        self._roots = dict(roots)

    @classmethod
    def from_config(cls, table: Mapping[str, Any], problems: list[str]) -> Files | None:
        """From the section [file] of an agent's file; None if it has problems."""
        config = ConfigTable("file", table, problems)
        roots = roots_of(config, table)
        return cls(roots) if config.finish() else None

    def register(self, executor: HandlerRegistry) -> None:
        """Register the handler."""
        executor.handler("file")(with_examples(self._file, root=self._roots))

    async def _file(
        self,
        run: Run,
        *,
        action: p.Action,
        root: p.Root,
        glob: p.Pattern,
        exclude: p.Exclude = _NONE,
        older_than: p.OlderThan = "",
        larger_than: p.LargerThan = "",
        keep_newest: p.KeepNewest = 0,
        max_files: p.MaxFiles = 1_000,
        to_root: p.ToRoot = "",
        to: p.To = "",
        if_exists: p.IfExists = "skip",
        remove_originals: p.RemoveOriginals = False,
        remove_empty_folders: p.RemoveEmptyFolders = False,
        dry_run: p.DryRun = False,
    ) -> dict[str, Any]:
        """Delete, move or archive files below a folder that the machine knows by name."""
        source = self._allowed(root, action, field="root")
        target = source
        places: tuple[str, ...] = ()
        if action == DELETE:
            if to or to_root:
                raise Fail("to: files that are deleted go nowhere; leave to and to_root out")
        else:
            target = self._allowed(to_root or root, RECEIVE, field="to_root")
            places = self._places(run, action, to, is_elsewhere=to_root not in ("", root))
        if remove_originals and action == ARCHIVE:
            self._allowed(root, DELETE, field="remove_originals")
        plan = HousekeepingPlan(
            action=action,
            root=source.path,
            selection=Selection(
                glob=Glob(glob),
                exclude=[exclusion(each) for each in exclude],
                older_than_seconds=age_seconds(older_than),
                larger_than_bytes=size_bytes(larger_than),
                keep_newest=keep_newest,
                max_files=max_files,
            ),
            target=target.path,
            to=places,
            if_exists=if_exists,
            remove_originals=remove_originals and action == ARCHIVE,
            remove_empty_folders=remove_empty_folders,
            dry_run=dry_run,
        )
        return await _until_done(Housekeeping(plan, run))

    def _allowed(self, name: str, action: str, *, field: str) -> FileRoot:
        root = self._roots.get(name)
        if root is None:
            names = ", ".join(sorted(self._roots))
            raise Fail(f"{field}: this machine has no {name!r}; it has: {names}")
        if action not in root.actions:
            raise Fail(
                f"{field}: the machine does not allow {action!r} in {name!r}; it allows: "
                f"{', '.join(root.actions)}"
            )
        return root

    @staticmethod
    def _places(run: Run, action: str, to: str, *, is_elsewhere: bool) -> tuple[str, ...]:
        """The names of `to`, with those of the run filled in."""
        if not to:
            if action == MOVE and is_elsewhere:
                return ()
            raise Fail("to: say where to; for archive the name of the archive")
        at = run.scheduled_at
        for key, value in (
            ("{date}", at.strftime("%Y-%m-%d")),
            ("{time}", at.strftime("%H%M%S")),
            ("{run}", str(run.id)),
        ):
            to = to.replace(key, value)
        parts = path_parts(to, field="to")
        if action == ARCHIVE:
            check_suffix(parts[-1])
        return parts


async def _until_done(work: Housekeeping) -> dict[str, Any]:
    """Carry it out in a thread, which ends soon after the run has to.

    Raises:
        asyncio.CancelledError: the run was cancelled.
    """
    future = in_thread(work.run, name=f"tickwheel file {work.of_run.id}")
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        work.stop()
        await asyncio.wait((future,), timeout=_STOP_SECONDS)
        if future.done():
            future.exception()  # known: it was stopped
        else:
            future.add_done_callback(lambda ended: ended.exception())
        raise
