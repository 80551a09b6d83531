"""An admin under pressure: a person, a long log, many jobs, and steady fires."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.drill.pressure import Target
from tests.e2e.cluster import EXECUTOR, AdminProcess, Cluster
from tests.e2e.ledger import read_journals
from tests.support.servers import DatabaseServer, MariaDB, PostgreSQL

SERVERS: dict[str, type[DatabaseServer]] = {"mariadb": MariaDB, "postgresql": PostgreSQL}
PERSON = "presser"
PASSWORD = "correct horse battery staple"
FIRES_PER_SECOND = 5
JOBS = 300  # for heat maps and lists
LOG_LINES = 20_000
LISTED_AT_ONCE = 100


class Pressed:
    """One admin, one node, five fires a second."""

    def __init__(self, cluster: Cluster, admin: AdminProcess, url: str) -> None:
        self.cluster = cluster
        self.admin = admin
        self.database_url = url
        cluster.add_executor()
        self.node = cluster.start_node("node-1", slots=50)
        noisy = cluster.api().post("/executors", {"name": "noisy"})
        self.target = Target(
            url=admin.url,
            api_token=cluster.api().token,
            cookie=self._log_in(),
            executor="noisy",
            executor_token=noisy["token"],
            run_id=self._long_log(),
        )
        self._add_jobs(int(noisy["id"]))
        self.fired = set(self._fire())

    def press(self, kinds: Sequence[str], seconds: float) -> subprocess.Popen[str]:
        """Begin to press; ends by itself."""
        pressing = subprocess.Popen(
            [
                "nice", "-n", "5", sys.executable, "-m", "tests.drill.pressure",
                "--seconds", str(seconds), *kinds,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        assert pressing.stdin is not None
        pressing.stdin.write(self.target.to_json())
        pressing.stdin.close()
        pressing.stdin = None  # so that `communicate` does not look at it
        return pressing

    def lateness(self, since: float, until: float) -> list[float]:
        """Milliseconds from the due instant to the start in the node, of fires due in between."""
        from tests.e2e.ledger import LedgerReader

        rows = LedgerReader(self.database_url).query(
            "SELECT id, scheduled_at FROM run WHERE job_id IN"
            f" ({', '.join(map(str, sorted(self.fired)))})"
            f" AND scheduled_at >= {round(since * 1000)} AND scheduled_at < {round(until * 1000)}"
        )
        journals = read_journals([self.node.journal])
        started = {run: at for (run, _), at in journals.started_at.items()}
        missing = time.time()  # one that did not start at all is as late as it can be
        return [(started.get(row.id, missing) - row.scheduled_at / 1000) * 1000 for row in rows]

    def memory_mib(self) -> float:
        """Resident memory of the admin."""
        status = Path(f"/proc/{self._serving_pid()}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def _serving_pid(self) -> int:
        return self.admin.process.pid

    def _log_in(self) -> str:
        printed = self.cluster.command("user", "add", PERSON, "--role", "operator")
        once = next(word for word in reversed(printed.split()) if len(word) >= 12)
        session, page = self._form("/login", {"name": PERSON, "password": once}, "")
        page = self._get("/password", session)
        token = re.search(r'name="csrf_token" value="([^"]+)"', page)
        assert token is not None, page[:2000]
        form = {"old": once, "new": PASSWORD, "again": PASSWORD, "csrf_token": token[1]}
        session, _page = self._form("/password", form, session)
        return session

    def _form(self, path: str, form: dict[str, str], cookie: str) -> tuple[str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin.port, timeout=30)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookie}
        connection.request("POST", path, urllib.parse.urlencode(form), headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        assert answer.status == 303, f"{path}: {answer.status} {body[:2000]}"
        cookies = answer.headers.get_all("Set-Cookie") or []
        connection.close()
        return next(c for c in cookies if "session" in c).partition(";")[0], body

    def _get(self, path: str, cookie: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin.port, timeout=30)
        connection.request("GET", path, headers={"Cookie": cookie})
        body = connection.getresponse().read().decode()
        connection.close()
        return body

    def _long_log(self) -> int:
        job = self.cluster.add_job("talks", "report")
        run = self.cluster.run_job(job, {"count": LOG_LINES})
        self.cluster.wait_for_run(run, "succeeded", timeout_seconds=120)
        return run

    def _add_jobs(self, executor_id: int) -> None:
        for number in range(JOBS):
            job = {
                "executor_id": executor_id,
                "name": f"listed-{number:04}",
                "handler": "nothing",
                # From tomorrow on: heat maps count them, and nothing fires.
                "triggers": [
                    {
                        "kind": "cron",
                        "expression": f"{number % 60} */5 * * * ?",
                        "dialect": "quartz",
                        "start_at": round(time.time() * 1000) + 86_400_000,
                    }
                ]
                if number % 3 == 0
                else [],
            }
            self.cluster.api().post("/jobs", job)

    def _fire(self) -> Iterator[int]:
        first = round(time.time() * 1000) + 2_000
        for number in range(FIRES_PER_SECOND):
            yield self.cluster.add_job(
                f"fires-{number}",
                "work",
                parameters={"seconds": 0},
                triggers=[
                    {
                        "kind": "fixed_rate",
                        "every_seconds": 1,
                        "anchor_at": first + 1_000 // FIRES_PER_SECOND * number,
                        "misfire": "fire_all",
                    }
                ],
            )


@contextmanager
def pressed(kind: str) -> Iterator[Pressed]:
    """A cluster with the durable settings of production, ended afterwards."""
    with ExitStack() as stack:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-pressed-"))
        )
        url = f"sqlite:///{directory / 'tickwheel.db'}"
        if kind in SERVERS:
            server = stack.enter_context(SERVERS[kind](durable=True))
            server.create_database("tickwheel_pressed")
            url = server.url("tickwheel_pressed")
        cluster = stack.enter_context(Cluster(directory, url))
        yield Pressed(cluster, cluster.start_admin(), url)


__all__ = ["EXECUTOR", "Pressed", "pressed"]
