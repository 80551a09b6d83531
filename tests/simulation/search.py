"""Many seeds at once, on all cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import NoReturn

from tests.simulation.database import SimDatabase
from tests.simulation.mutations import MUTATIONS
from tests.simulation.world import Options, Outcome, simulate
from tests.support.garbage import look_rarely

PATIENCE_SECONDS = 120  # of processor time for one seed; they take one or two

_database: SimDatabase | None = None  # of this worker process


def forks() -> BaseContext:
    """How workers start: forked from a process that has everything imported, and begin at once.

    They are not forked from the caller: they must not inherit the locks of its threads.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "pytest",
            "tests.simulation.world",
            "tests.simulation.mutations",
            "tests.conftest",
            "tests.admin.conftest",
        ]
    )
    return context


def simulate_all(
    seeds: Iterable[int],
    options: Options,
    *,
    processes: int | None = None,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Outcome]:
    """Outcomes as they come.

    Args:
        prepare: called once in each worker; a mutation that must be found, for example.
    """
    with (
        tempfile.TemporaryDirectory(prefix="tickwheel-simulation-") as directory,
        ProcessPoolExecutor(
            processes or len(os.sched_getaffinity(0)),
            mp_context=forks(),
            initializer=_begin,
            initargs=(directory, prepare),
        ) as pool,
    ):
        try:
            for future in as_completed([pool.submit(_simulate, seed, options) for seed in seeds]):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # the caller may have seen enough


def first_failing(
    seeds: Mapping[str, Sequence[int]], options: Options, *, processes: int | None = None
) -> Iterator[tuple[str, Outcome | None, int]]:
    """(mutation, the first outcome with a violation if there is one, seeds tried) as they come.

    `seeds` are those to try of each mutation, in their order.

    Each mutation has a process of its own, for it cannot be undone.
    """
    with ProcessPoolExecutor(
        processes or len(os.sched_getaffinity(0)), mp_context=forks(), max_tasks_per_child=1
    ) as pool:
        try:
            for future in as_completed(
                [pool.submit(_first_failing, name, each, options) for name, each in seeds.items()]
            ):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def simulate_one(seed: int, options: Options) -> Outcome:
    """One seed, in this process."""
    with tempfile.TemporaryDirectory(prefix="tickwheel-simulation-") as directory:
        database = SimDatabase(Path(directory))
        try:
            return simulate(seed, database, options)
        finally:
            database.close()


def _begin(directory: str, prepare: Callable[[], None] | None) -> None:
    global _database
    look_rarely()
    own = Path(directory, str(os.getpid()))
    own.mkdir()
    _database = SimDatabase(own)
    if prepare is not None:
        prepare()


def _simulate(seed: int, options: Options) -> Outcome:
    assert _database is not None
    with _patience(seed):
        outcome = simulate(seed, _database, options)
    # Its history is megabytes, and only that of a failure is ever read.
    return outcome if outcome.violations else replace(outcome, history=[], involved=[])


@contextmanager
def _patience(seed: int) -> Iterator[None]:
    """A seed that never ends must not take the whole search with it."""

    def give_up(_signal: int, _frame: object) -> NoReturn:
        raise SystemExit  # nothing that is simulated takes this for an error of its own

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_SECONDS)
    try:
        yield
    except SystemExit:
        told = f"seed {seed} takes more than {PATIENCE_SECONDS} s of processor time"
        raise AssertionError(told) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _first_failing(
    name: str, seeds: Sequence[int], options: Options
) -> tuple[str, Outcome | None, int]:
    look_rarely()
    MUTATIONS[name]()
    with tempfile.TemporaryDirectory(prefix="tickwheel-simulation-") as directory:
        database = SimDatabase(Path(directory))
        try:
            for tried, seed in enumerate(seeds, 1):
                with _patience(seed):
                    outcome = simulate(seed, database, options)
                if outcome.violations:
                    return name, outcome, tried
        finally:
            database.close()
    return name, None, len(seeds)
