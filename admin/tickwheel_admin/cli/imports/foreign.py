"""Plans an import of foreign jobs, and does it: the same for every scheduler that is read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tickwheel_admin.cli.common import Failure, config_of, with_services
from tickwheel_admin.cli.imports.arguments import chosen_executor
from tickwheel_admin.cli.imports.plan_text import PlanWriter
from tickwheel_admin.cli.imports.progress import ProgressLine
from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.foreign import ForeignCalendar, ForeignJob
from tickwheel_admin.domain.imports.notes import ImportNote
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.services.imports.calendars import CalendarImport
from tickwheel_admin.services.imports.plan import ImportPlanner, PlannedImport
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.imports.source import SourceError

DONE = 0  # exit codes
REFUSED = 1
COULD_NOT = 2


class ForeignScheduler(Protocol):
    """What is read."""

    @property
    def title(self) -> str:
        """What it is, and how it is read."""
        ...

    @property
    def name(self) -> str:
        """Names it, for its calendars and what was imported from it before."""
        ...

    @property
    def sources(self) -> Sequence[str]:
        """What its jobs name as their source."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether all of it is one transaction; else each page is."""
        ...

    @property
    def remarks(self) -> Sequence[ImportNote]:
        """What there is to say about all of it."""
        ...

    def count(self) -> int:
        """About how many jobs it has."""
        ...

    def calendars(self) -> Sequence[ForeignCalendar]:
        """Its calendars."""
        ...

    def pages(self) -> Iterator[Sequence[ForeignJob]]:
        """Its jobs, at most 500 at once; read anew at each call."""
        ...


def run_import(
    args: argparse.Namespace, opened: Callable[[], AbstractContextManager[ForeignScheduler]]
) -> int:
    """Print the plan, and do it when the flags say so; returns the exit code.

    Args:
        opened: opens what is read.
    """
    try:
        with opened() as theirs:

            async def imported(services: Services) -> int:
                work = _Import(services, args, theirs)
                try:
                    return await work.run()
                finally:
                    work.progress.clear()

            return with_services(config_of(args), imported)
    except (Failure, ScheduleError, SourceError) as error:
        print(f"tickwheel: {error}", file=sys.stderr)
        return COULD_NOT


class _Import:
    def __init__(
        self, services: Services, args: argparse.Namespace, theirs: ForeignScheduler
    ) -> None:
        self._use = services.foreign_imports
        self._services = services
        self._args = args
        self._theirs = theirs
        self._out = PlanWriter(theirs.title, as_json=args.format == "json")
        self._planned: list[PlannedImport] = []  # when all of it is one transaction
        self.progress = ProgressLine(theirs.count())

    async def run(self) -> int:
        executor = await chosen_executor(self._services, self._args.executor)
        calendars = await self._plan_calendars()
        _print(self._out.begin(self._theirs.remarks, calendars))
        planner = ImportPlanner(executor.id)
        planner.sources(self._theirs.sources)
        done = 0
        self.progress.show("Read", done)
        for page in self._theirs.pages():
            jobs = await self._use.plan(COMMAND_LINE, planner, page)
            done += len(page)
            self.progress.clear()
            _print(self._out.page(jobs))
            self.progress.show("Read", done)
            if self._theirs.is_whole:
                self._planned += jobs
        gone = await self._use.gone(COMMAND_LINE, planner)
        failure = await self._applied(executor.id, calendars) if self._args.apply else None
        done = self._args.apply and failure is None
        self.progress.clear()
        _print(self._out.end(gone, failure=failure, applied=done))
        if self._args.format == "text":
            print(self._last_words(executor.name, failure))
        return REFUSED if self._out.cannot or failure else DONE

    async def _plan_calendars(self) -> list[CalendarImport]:
        calendars = self._theirs.calendars()
        return await self._use.plan_calendars(COMMAND_LINE, self._theirs.name, calendars)

    async def _applied(self, executor_id: int, calendars: Sequence[CalendarImport]) -> str | None:
        """Do it; why not, when nothing was done, or not all of it."""
        if self._out.cannot and not self._args.leave_out:
            return "Something cannot be imported, so nothing was; --leave-out imports the rest."
        planner = ImportPlanner(executor_id)
        paused = not self._args.active
        step = await self._use.begin(COMMAND_LINE, planner, jobs=self._out.jobs[Fate.CREATED])
        try:
            for calendar in calendars:
                await self._use.write_calendar(step.actor, self._theirs.name, calendar)
            if self._theirs.is_whole:
                await self._use.write(step, planner, self._planned, paused=paused)
                return None
            done = 0
            for page in self._theirs.pages():
                jobs = await self._use.plan(step.actor, planner, page)
                await self._use.write(step, planner, jobs, paused=paused)
                done += len(jobs)
                self.progress.show("Imported", done)
        except UserError as error:
            return str(error)
        finally:
            await self._use.end(step)
        return None

    def _last_words(self, executor: str, failure: str | None) -> str:
        if failure is not None:
            return f"\n{failure}"
        if not self._out.wanted:
            return "\nThere is nothing to do."
        if not self._args.apply:
            return f"\nNothing was changed. --apply imports it into {executor}."
        if self._args.active:
            return f"\nImported into {executor}."
        return (
            f"\nImported into {executor}. New jobs are paused: resume them when they no longer run"
            " there."
        )


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
