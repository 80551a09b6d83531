"""How long the console takes to answer, page by page, on the database of a large installation.

    python -m tests.bench.scenarios.console [--full | --url URL] [--repeats N] [--json FILE]

Without a URL it fills a private database first: small, or with --full 100,000 jobs, 10 million runs
and 1,000 nodes, which takes some ten minutes. A real admin process without its loops answers;
times are of whole requests over HTTP on this machine, page by page and one after the other, then
of all pages in turn by several readers at once. Prints a table; asserts nothing about time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench.scenarios.console_pages import Reader, pages_for
from tests.bench.seed.__main__ import seed
from tests.bench.seed.people import SCOPED
from tests.bench.testbed.measure import percentile
from tests.support.processes import ManagedProcess, free_port
from tests.support.servers import MariaDB

SMALL = {"jobs": 2_000, "runs": 60_000, "nodes": 50, "executors": 20, "audit": 6_000}
FULL = {"jobs": 100_000, "runs": 10_000_000, "nodes": 1_000, "executors": 200, "audit": 1_000_000}
READERS = 4
READERS_SEE = {"admin": "all executors", SCOPED: "three executors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Milliseconds of whole requests for one page."""

    page: str
    path: str
    p50: float
    p95: float
    max: float
    kibibytes: int
    together_p95: float = 0  # with several readers at once


def main() -> int:
    asked = _parse()
    told = console_figures(url=asked.url, full=asked.full, repeats=asked.repeats)
    if asked.json:
        Path(asked.json).write_text(json.dumps(told, indent=2) + "\n")
    return 0


def console_figures(
    *, url: str | None = None, full: bool = False, repeats: int = 20
) -> dict[str, list[dict[str, Any]]]:
    """Measure and print; returns the timings by who reads."""
    with ExitStack() as stack:
        filled = stack.enter_context(_filled(url, full=full))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench")))
        port = free_port()
        command = [sys.executable, "-m", "tests.bench.scenarios.console_admin", "--url", filled]
        admin = ManagedProcess([*command, "--port", str(port)], directory / "admin.log")
        stack.enter_context(admin).wait_for_line("listens on", timeout_seconds=120)
        found = {person: measure(port, person, repeats=repeats) for person in ("admin", SCOPED)}
    for person, timings in found.items():
        _print(f"console, {READERS_SEE[person]}", timings)
    return {person: [asdict(each) for each in timings] for person, timings in found.items()}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.console", description=__doc__
    )
    parser.add_argument("--url", help="a database that tests.bench.seed filled")
    parser.add_argument("--full", action="store_true", help="fill one of full size")
    parser.add_argument("--repeats", type=int, default=20, help="requests for each page")
    parser.add_argument("--json", help="file to write")
    return parser.parse_args()


@contextmanager
def _filled(url: str | None, *, full: bool) -> Iterator[str]:
    """The URL of a filled database; of MariaDB where it is installed."""
    if url is not None:
        yield url
        return
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench"))
        private = f"sqlite:///{directory}/tickwheel.db"
        if MariaDB.is_installed():
            options = ("--innodb-buffer-pool-size=6G",) if full else ()
            server = stack.enter_context(MariaDB(durable=False, options=options))
            server.create_database("tickwheel")
            private = server.url("tickwheel")
        problem = seed(private, **(FULL if full else SMALL))
        assert problem is None, problem
        yield private


def measure(port: int, person: str, *, repeats: int) -> list[Timing]:
    """Every page alone, then all of them with several readers at once."""
    reader = Reader(port, person)
    pages = pages_for(reader, everything=person == "admin")
    timings = [_alone(reader, name, path, repeats) for name, path in pages.items()]
    together = _together(port, person, [timing.path for timing in timings], rounds=repeats // 2)
    return [
        replace(timing, together_p95=_percentile(together[timing.path], 0.95)) for timing in timings
    ]


def _alone(reader: Reader, name: str, path: str, repeats: int) -> Timing:
    _, body = reader.get(path)
    took = [reader.get(path)[0] for _ in range(repeats)]
    return Timing(
        page=name,
        path=path,
        p50=_percentile(took, 0.5),
        p95=_percentile(took, 0.95),
        max=round(max(took), 1),
        kibibytes=len(body.encode()) // 1024,
    )


def _together(
    port: int, person: str, paths: Sequence[str], *, rounds: int
) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {path: [] for path in paths}

    def read(first: int) -> None:
        reader = Reader(port, person)
        for path in (*paths[first:], *paths[:first]) * max(1, rounds // READERS):
            took[path].append(reader.get(path)[0])

    threads = [
        threading.Thread(target=read, args=(len(paths) * n // READERS,)) for n in range(READERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def _percentile(values: Sequence[float], share: float) -> float:
    return percentile([round(value * 10) for value in values], share) / 10


def _print(title: str, timings: Sequence[Timing]) -> None:
    print(f"\n{title}: ms\n{'page':<34}{'p50':>8}{'p95':>8}{'max':>8}{'KiB':>6}{'4 at once':>11}")
    for each in timings:
        print(
            f"{each.page[:33]:<34}{each.p50:>8.0f}{each.p95:>8.0f}{each.max:>8.0f}"
            f"{each.kibibytes:>6}{each.together_p95:>11.0f}"
        )


if __name__ == "__main__":
    sys.exit(main())
