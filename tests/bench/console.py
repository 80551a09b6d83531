"""How long the console takes to answer, page by page, on the database of a large installation.

    python -m tests.bench.console [--full | --url URL] [--repeats N] [--json FILE]

Without a URL it fills a private database first: small, or with --full 100,000 jobs, 10 million runs
and 1,000 nodes, which takes some ten minutes. A real admin process without its loops answers;
times are of whole requests over HTTP on this machine, page by page and one after the other, then
of all pages in turn by several readers at once. Prints a table; asserts nothing about time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from html import unescape
from pathlib import Path

from tests.bench.measure import percentile
from tests.bench.seed.__main__ import seed
from tests.bench.seed.people import PASSWORD, SCOPED
from tests.support.processes import ManagedProcess, free_port
from tests.support.servers import MariaDB

SMALL = {"jobs": 2_000, "runs": 60_000, "nodes": 50, "executors": 20, "audit": 6_000}
FULL = {"jobs": 100_000, "runs": 10_000_000, "nodes": 1_000, "executors": 200, "audit": 1_000_000}
READERS = 4
DEEP = 40  # pages from the beginning of a list
HOUR = 3_600_000


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


class Reader:
    """Somebody who is logged in, on a connection of their own."""

    def __init__(self, port: int, person: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._cookie = ""
        form = urllib.parse.urlencode({"name": person, "password": PASSWORD})
        self._connection.request(
            "POST", "/login", form, {"Content-Type": "application/x-www-form-urlencoded"}
        )
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 303, f"{person} could not log in: {answer.status}"
        cookies = answer.headers.get_all("Set-Cookie") or []
        self._cookie = next(c for c in cookies if "session" in c).partition(";")[0]

    def get(self, path: str) -> tuple[float, str]:
        """Milliseconds, and the body."""
        begun = time.perf_counter()
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        answer = self._connection.getresponse()
        body = answer.read().decode()
        took = (time.perf_counter() - begun) * 1_000
        if answer.status == 303:  # an older address of a list
            return self.get(answer.headers["Location"])
        assert answer.status == 200, f"{path}: {answer.status}"
        return took, body


def main() -> int:
    asked = _parse()
    with _seeded(asked) as url, ExitStack() as stack:
        port = free_port()
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench")))
        command = [sys.executable, "-m", "tests.bench.console_admin", "--url", url]
        admin = ManagedProcess([*command, "--port", str(port)], directory / "admin.log")
        stack.enter_context(admin).wait_for_line("listens on", timeout_seconds=120)
        timings = measure(port, "admin", repeats=asked.repeats)
        scoped = measure(port, SCOPED, repeats=asked.repeats)
    _print("Somebody who sees everything", timings)
    _print("Somebody who sees three executors", scoped)
    if asked.json:
        told = {"all": [asdict(t) for t in timings], "scoped": [asdict(t) for t in scoped]}
        Path(asked.json).write_text(json.dumps(told, indent=2) + "\n")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.console", description=__doc__)
    parser.add_argument("--url", help="a database that tests.bench.seed filled")
    parser.add_argument("--full", action="store_true", help="fill one of full size")
    parser.add_argument("--repeats", type=int, default=20, help="requests for each page")
    parser.add_argument("--json", help="file to write")
    return parser.parse_args()


@contextmanager
def _seeded(asked: argparse.Namespace) -> Iterator[str]:
    """The URL of a filled database; MariaDB where it is installed."""
    if asked.url:
        yield asked.url
        return
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench"))
        url = f"sqlite:///{directory}/tickwheel.db"
        if MariaDB.is_installed():
            options = ("--innodb-buffer-pool-size=6G",) if asked.full else ()
            server = stack.enter_context(MariaDB(durable=False, options=options))
            server.create_database("tickwheel")
            url = server.url("tickwheel")
        problem = seed(url, **(FULL if asked.full else SMALL))
        assert problem is None, problem
        yield url


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


def pages_for(reader: Reader, *, everything: bool) -> dict[str, str]:
    """What to ask for, by a name for people."""
    job = _first(reader, "/runs?q=state:succeeded", r'href="/jobs/(\d+)"')
    run = _first(reader, "/runs?q=state:succeeded", r'href="/runs/(\d+)"')
    executor = _first(reader, "/executors", r'href="/executors/(\d+)"')
    node = _first(reader, f"/executors/{executor}", r'href="/nodes/(\d+)"')
    name = _first(reader, "/executors", r'href="/executors/\d+"[^>]*>([^<]+)<')
    now = int(time.time() * 1_000)
    span = urllib.parse.urlencode({"from": now - 24 * 30 * HOUR, "to": now - 24 * 29 * HOUR})
    filters = {
        "jobs": (
            f"executor:{name}", "owner:person-010", "tag:critical", "handler:invoices.sync",
            "state:paused", "sync-invoices", "no-such-job", f"executor:{name} tag:gpu",
        ),
        "runs": (
            "state:failed", "state:active", "state:queued", "state:skipped", f"executor:{name}",
            f"executor:{name} state:failed", f"job:{job}", f"job:{job} state:failed",
            f"node:{node}", "origin:manual", "origin:misfire", "by:person-020", "by:nobody",
        ),
    }  # fmt: skip
    pages = {f"overview {p}": f"/?p={p}" for p in ("1h", "6h", "24h", "7d", "30d")}
    pages |= {"jobs": "/jobs"}
    pages |= {f"jobs, {view}": f"/jobs?view={view}" for view in ("failing", "running", "paused")}
    pages |= {f"jobs, sort {s}": f"/jobs?sort={s}" for s in ("-name", "-changed")}
    pages |= {f"jobs, {q}": f"/jobs?{urllib.parse.urlencode({'q': q})}" for q in filters["jobs"]}
    pages |= {"jobs, deep": _deep(reader, "/jobs"), "jobs, back": _deep(reader, "/jobs", back=True)}
    pages |= {
        "job": f"/jobs/{job}", "job, runs": f"/jobs/{job}/runs",
        "job, configuration": f"/jobs/{job}/config", "job, history": f"/jobs/{job}/history",
        "runs": "/runs",
    }  # fmt: skip
    pages |= {f"runs, {q}": f"/runs?{urllib.parse.urlencode({'q': q})}" for q in filters["runs"]}
    pages |= {
        "runs, a day of last month": f"/runs?{span}",
        "runs, deep": _deep(reader, "/runs"), "runs, back": _deep(reader, "/runs", back=True),
        "run": f"/runs/{run}", "executors": "/executors", "executor": f"/executors/{executor}",
        "node": f"/nodes/{node}", "calendar": "/calendar", "calendar, a day": "/calendar?view=day",
        "tokens": "/tokens", "palette": "/palette.json?q=sync-inv",
        "suggestions, job": "/filter-values.json?key=job&text=sync",
        "suggestions, tag": "/filter-values.json?key=tag&text=c",
        "suggestions, owner": "/filter-values.json?key=owner&text=person",
    }  # fmt: skip
    if everything:
        pages |= {
            "job form": "/jobs/new", "audit": "/audit", "audit, person": "/audit?person=person-010",
            "audit, action": "/audit?action=job.", "audit, rare": "/audit?action=nothing",
            "audit, executor": f"/audit?executor={executor}", "audit, deep": _deep(reader, "/audit"),
            "users": "/users", "tokens of all": "/tokens?of=all", "settings": "/settings",
        }  # fmt: skip
    return pages


def _first(reader: Reader, path: str, pattern: str) -> str:
    _, body = reader.get(path)
    found = re.search(pattern, body)
    assert found is not None, f"nothing like {pattern} on {path}"
    return found[1]


def _deep(reader: Reader, path: str, *, back: bool = False) -> str:
    """A page far from the list's beginning, and from there the one before it."""
    here = path
    for _ in range(DEEP):
        _, body = reader.get(here)
        links = _cursors(body, path)
        if not links:
            break
        here = links[-1]
    if back:
        _, body = reader.get(here)
        here = _cursors(body, path)[0]
    return here


def _cursors(body: str, path: str) -> list[str]:
    """Links to the pages around, the one before first."""
    return [unescape(link) for link in re.findall(rf'href="({path}\?[^"]*cursor=[^"]+)"', body)]


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
