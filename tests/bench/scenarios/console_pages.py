"""The pages that the console's bench asks for, and somebody who asks."""

from __future__ import annotations

import http.client
import re
import time
import urllib.parse
from html import unescape

from tests.bench.seed.people import PASSWORD

DEEP = 40  # pages from the beginning of a list
HOUR = 3_600_000


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
    for told, hours in (("an hour", 1), ("three days", 72), ("a week", 166)):
        at = now - hours * HOUR
        pages |= {
            f"{told} ago, of an executor": f"/as-of?executor={executor}&at={at}",
            f"{told} ago, of a job": f"/as-of?job={job}&at={at}",
        }
        if everything:
            pages[f"{told} ago"] = f"/as-of?at={at}"
    pages |= {
        "trends, executor": f"/trends?executor={executor}", "trends, job": f"/trends?job={job}",
        "trends, tag of an executor": f"/trends?executor={executor}&tag=gpu",
    }  # fmt: skip
    if everything:
        pages["trends"] = "/trends"
        pages |= {
            "job form": "/jobs/new", "audit": "/audit", "audit, person": "/audit?person=person-010",
            "audit, action": "/audit?action=job.", "audit, rare": "/audit?action=nothing",
            "audit, executor": f"/audit?executor={executor}",
            "audit, deep": _deep(reader, "/audit"), "users": "/users",
            "tokens of all": "/tokens?of=all", "settings": "/settings",
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
