"""A whole Tickwheel: real admins and nodes as processes of their own, over one database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.e2e.api import Api
from tests.support.forks import ForkedCommand, run_command
from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess, free_port

TICKWHEEL = (sys.executable, "-m", "tickwheel_admin.cli")
ROOT = Path(__file__).parents[2]
NODE_PROGRAM = Path(__file__).with_name("node_program.py")
EXECUTOR = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminProcess:
    """A running `tickwheel serve`."""

    name: str
    port: int
    process: ManagedProcess

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProcess:
    """A running node of the test's executor."""

    name: str
    journal: Path
    process: ManagedProcess


class Cluster:
    """Starts processes and ends them all with the `with` block."""

    def __init__(self, directory: Path, database_url: str, *, forks_admins: bool = True) -> None:
        """Admins are forked, which saves most of their start, unless they are to be measured."""
        self.directory = directory
        self.database_url = database_url
        self.admins: list[AdminProcess] = []
        self.nodes: list[NodeProcess] = []
        self.executor_id = 0
        self.executor_token = ""
        self._token = ""
        self._forks_admins = forks_admins
        self._stack = ExitStack()
        self._logs = 0
        if not database_url.startswith("sqlite"):
            self.command("db", "upgrade")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- processes -------------------------------------------------------------------------------

    def command(self, *arguments: str, code: Path | None = None) -> str:
        """What a `tickwheel` command prints; its failure fails the test."""
        environment = os.environ | self._environment()
        if code is None:
            done = run_command(arguments, environment)
        else:
            done = subprocess.run(
                [*TICKWHEEL, *arguments],
                env=environment | {"PYTHONPATH": str(code)},
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, f"tickwheel {arguments[0]}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def start_admin(
        self,
        name: str = "admin-1",
        *,
        port: int | None = None,
        public_url: str | None = None,
        environment: Mapping[str, str] | None = None,
        code: Path | None = None,
    ) -> AdminProcess:
        """Start an admin and wait until it answers; on `port` it takes a dead one's place.

        Args:
            code: where another version of the packages is (`tests.support.next_version`).
        """
        chosen = port or free_port()
        arguments = ["serve", "--name", name, "--port", str(chosen), "--log-format", "json"]
        if public_url is not None:
            arguments += ["--public-url", public_url]
        settings = self._environment() | dict(environment or {})
        process: ManagedProcess
        if code is not None:
            settings["PYTHONPATH"] = str(code)
        if self._forks_admins and code is None:
            process = self._enter(ForkedCommand(arguments, self._log(name), environment=settings))
        else:
            process = self._start([*TICKWHEEL, *arguments], name, settings)
        admin = AdminProcess(name=name, port=chosen, process=process)
        process.wait_for_http(f"{admin.url}/healthz", timeout_seconds=30)
        self.admins.append(admin)
        return admin

    def start_node(
        self,
        name: str,
        *,
        slots: int = 16,
        grace_seconds: float = 30,
        token: str | None = None,
        admins: str | None = None,
        wait: bool = True,
        program: Sequence[str] = (str(NODE_PROGRAM),),
        within: Sequence[str] = (),
        code: Path | None = None,
    ) -> NodeProcess:
        """Start a node that is told of the first admin only: it learns of the others from it.

        Args:
            within: a command that runs the one after it, such as `ip netns exec somewhere`.
            code: where another version of the packages is (`tests.support.next_version`).
        """
        journal = self.directory / f"{name}.journal"
        command = [
            *within, sys.executable, *program, "--name", name, "--journal", journal,
            "--spool", self.directory / "spool", "--slots", str(slots),
            "--grace", str(grace_seconds),
        ]  # fmt: skip
        environment = {
            "TICKWHEEL_EXECUTOR": EXECUTOR,
            "TICKWHEEL_ADMINS": admins or self.admins[0].url,
            "TICKWHEEL_TOKEN": self.executor_token if token is None else token,
            # For programs that are named as modules.
            "PYTHONPATH": os.pathsep.join(
                [*([str(code)] if code else []), str(ROOT), os.environ.get("PYTHONPATH", "")]
            ),
        }
        process = self._start([str(part) for part in command], name, environment)
        node = NodeProcess(name=name, journal=journal, process=process)
        self.nodes.append(node)
        if wait:
            process.wait_for_line("connected to admin", timeout_seconds=20)
        return node

    def start_agent(self, sections: str) -> None:
        """Start `tickwheel-agent` with these sections of its file behind [agent]."""
        config = self.directory / "agent.toml"
        config.write_text(
            f'[agent]\nadmins = ["{self.admins[0].url}"]\nexecutor = "{EXECUTOR}"\n'
            f'token = "{self.executor_token}"\nspool_dir = "{self.directory / "agent"}"\n{sections}'
        )
        command = [sys.executable, "-m", "tickwheel_executor.agent", "--config", str(config)]
        process = self._start(command, "agent", {})
        process.wait_for_line("connected to admin", timeout_seconds=20)

    def _start(self, command: list[str], name: str, environment: dict[str, str]) -> ManagedProcess:
        return self._enter(ManagedProcess(command, self._log(name), environment=environment))

    def _log(self, name: str) -> Path:
        self._logs += 1
        return self.directory / f"{self._logs:02}-{name}.log"

    def _enter(self, process: ManagedProcess) -> ManagedProcess:
        return self._stack.enter_context(process)

    def _environment(self) -> dict[str, str]:
        return {
            "TICKWHEEL_DATABASE_URL": self.database_url,
            "TICKWHEEL_DATA_DIR": str(self.directory / "data"),
        }

    # --- through the API -------------------------------------------------------------------------

    def api(self, admin: AdminProcess | None = None) -> Api:
        """The API of an admin (the first living one), as a person with the role admin."""
        if not self._token:
            self._token = self.command("token", "create", "admin", "tests")
        living = admin or next(each for each in self.admins if each.process.is_running)
        return Api(living.url, self._token)

    def add_executor(self) -> None:
        """Make the executor that `start_node` starts nodes of."""
        made = self.api().post("/executors", {"name": EXECUTOR})
        self.executor_id, self.executor_token = made["id"], made["token"]

    def add_job(self, name: str, handler: str, **fields: Any) -> int:
        """Add a job and return its id."""
        job = {"executor_id": self.executor_id, "name": name, "handler": handler} | fields
        return int(self.api().post("/jobs", job)["id"])

    def run_job(self, job_id: int, parameters: dict[str, Any] | None = None) -> int:
        """Ask for one run and return its id."""
        body = {} if parameters is None else {"parameters": parameters}
        return int(self.api().post(f"/jobs/{job_id}/run", body)["run_id"])

    def wait_for_run(self, run_id: int, *states: str, timeout_seconds: float = 15) -> Any:
        """The run, once it is in one of the states."""
        api = self.api()

        def arrived() -> Any:
            run = api.get(f"/runs/{run_id}")
            return run if run["state"] in states else None

        wanted = f"run {run_id} to be {' or '.join(states)}"
        return wait_until(arrived, timeout_seconds=timeout_seconds, what=wanted)
