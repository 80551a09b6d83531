"""The command line: real processes, one clear sentence for what can be put right, clean ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.forks import ForkedCommand, run_command
from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess, free_port
from tickwheel_admin.cli import main
from tickwheel_admin.cli.common import with_services
from tickwheel_admin.config import load_config
from tickwheel_admin.services.services import Services
from tickwheel_admin.services.users.administration import COMMAND_LINE

ROOT = Path(__file__).parents[3]
TICKWHEEL = (sys.executable, "-m", "tickwheel_admin.cli")
ONE_TIME = r"with password  ((?:[a-z0-9]{5}-){3}[a-z0-9]{5})"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No command may touch the data of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    before = os.umask(0o022)
    yield
    os.umask(before)


def run(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run_command(arguments, os.environ | dict(environment or {}))


class Serving:
    """`tickwheel serve` on a free port."""

    def __init__(
        self, directory: Path, *, port: int | None = None, starts_python: bool = False
    ) -> None:
        """`starts_python`: as people start it; otherwise it is forked, which takes less."""
        self.data = directory / "data"
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = ["serve", "--data-dir", str(self.data), "--port", str(self.port)]
        log = directory / f"serve-{time.monotonic_ns()}.log"
        self.process = (
            ManagedProcess([*TICKWHEEL, *command], log)
            if starts_python
            else ForkedCommand(command, log)
        )

    def __enter__(self) -> Serving:
        self.process.__enter__()
        self.process.wait_for_http(f"{self.url}/healthz", timeout_seconds=30)
        return self

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(None, None, None)

    def get(self, path: str, token: str = "") -> tuple[int, Any]:
        return self._request(urllib.request.Request(f"{self.url}{path}"), token)

    def post(self, path: str, token: str, body: object) -> Any:
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        return self._request(request, token)[1]

    def _request(self, request: urllib.request.Request, token: str) -> tuple[int, Any]:
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


# --- help and usage --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["serve"],
        ["demo"],
        ["db"],
        ["user"],
        ["user", "add"],
        ["user", "grant"],
        ["token"],
        ["token", "create"],
        ["token", "list"],
        ["token", "revoke"],
    ],
)
def test_every_command_explains_itself(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])

    assert ended.value.code == 0
    assert f"usage: tickwheel {' '.join(command)}".strip() in capsys.readouterr().out


def test_the_key_of_secrets_is_replaced(tmp_path: Path) -> None:
    old, new = (run("secret-key").stdout.strip() for _ in range(2))
    where = ("--data-dir", str(tmp_path / "data"))

    async def set_one(services: Services) -> None:
        made = await services.executors.create(COMMAND_LINE, name="billing", description="")
        await services.secrets.put(COMMAND_LINE, made.id, "KEY", "canary7c1f9e")

    config = load_config({"data_dir": where[1]}, environment={"TICKWHEEL_SECRET_KEY": old})
    with_services(config, set_one)

    lost = run("secret-key", "rotate", *where, environment={"TICKWHEEL_SECRET_KEY": new})
    done = run("secret-key", "rotate", *where, environment={"TICKWHEEL_SECRET_KEY": f"{new},{old}"})
    again = run("secret-key", "rotate", *where, environment={"TICKWHEEL_SECRET_KEY": new})

    assert (lost.returncode, "  billing: KEY\n" in lost.stdout) == (1, True)
    assert "1 encrypted anew" in done.stdout
    assert "can be removed" in done.stdout
    assert "0 encrypted anew" in again.stdout
    assert (done.returncode, again.returncode) == (0, 0)


def test_no_flag_takes_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("serve", "demo", "token create", "user add", "user reset-password"):
        with pytest.raises(SystemExit):
            main([*command.split(), "--help"])
        flags = re.findall(r"--[a-z-]+", capsys.readouterr().out)
        assert not [flag for flag in flags if re.search("url|password|token|secret", flag)
                    and flag != "--public-url"]  # fmt: skip


@pytest.mark.parametrize("arguments", [[], ["sevre"], ["serve", "--prot", "1"], ["user"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert re.fullmatch(r"tickwheel \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_every_problem_of_the_configuration_is_told_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tickwheel.toml"
    file.write_text("prot = 1\n")

    assert main(["serve", "--config", str(file), "--port", "x", "--log-level", "loud"]) == 2
    error = capsys.readouterr().err
    assert "did you mean port?" in error
    assert "--port:" in error
    assert "--log-level:" in error


# --- people and tokens -----------------------------------------------------------------------


def test_people_are_added_reset_shut_out_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--data-dir", str(tmp_path / "data")])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    code, first, _ = call("user", "add", "olga", "--role", "operator")
    assert code == 0
    assert re.search(r"olga.*: (\S{23})$", first)
    assert call("user", "add", "olga")[::2] == (
        1,
        "tickwheel: There is already a person called olga.\n",
    )
    _, second, _ = call("user", "reset-password", "olga")
    assert second.split()[-1] != first.split()[-1]
    assert call("user", "disable", "olga")[0] == 0
    assert "operator · disabled" in call("user", "list")[1]
    assert call("user", "enable", "olga")[0] == 0
    assert "disabled" not in call("user", "list")[1]
    code, _, error = call("user", "reset-password", "nobody")
    assert (code, error) == (1, "tickwheel: There is no person called nobody.\n")
    code, token, _ = call("token", "create", "olga", "ci", "--days", "30")
    assert re.fullmatch(r"twt_[A-Za-z0-9_-]{43}\n", token)
    assert call("token", "create", "olga", "ci")[0] == 1
    assert call("token", "create", "olga", "other", "--days", "0")[0] == 1


def test_the_name_of_a_token_is_no_setting_of_the_admin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("--data-dir", str(tmp_path / "data"))
    assert main(["user", "add", "olga", *own]) == 0
    assert main(["token", "create", "olga", "x" * 250, *own]) == 1
    assert capsys.readouterr().err == "tickwheel: name: Use 1 to 100 printable characters.\n"


def test_roles_and_tokens_are_given_per_executor_and_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*arguments: str) -> tuple[int, str]:
        code = main([*arguments, "--data-dir", str(tmp_path / "data")])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    async def add_executor(services: Services) -> None:
        await services.executors.create(COMMAND_LINE, name="billing", description="")

    with_services(load_config({"data_dir": tmp_path / "data"}, environment={}), add_executor)
    assert call("user", "add", "olga", "--role", "developer", "--executor", "billing")[0] == 0
    assert call("user", "grant", "olga", "--role", "viewer")[1] == (
        "olga: viewer, developer@billing\n"
    )
    assert call(
        "user", "grant", "olga", "--role", "admin", "--executor", "billing", "--scripts"
    ) == (0, "olga: viewer, admin+scripts@billing\n")
    assert call("user", "grant", "olga", "--role", "none")[1] == "olga: admin+scripts@billing\n"
    assert call("user", "grant", "olga", "--role", "admin", "--executor", "bilings") == (
        1,
        "tickwheel: there is no executor called bilings\n",
    )
    assert call("user", "grant", "olga", "--role", "viewer", "--scripts")[0] == 1
    assert (
        call("token", "create", "olga", "ci", "--role", "viewer", "--executor", "billing")[0] == 0
    )
    assert call("token", "list")[1] == (
        "1     olga             ci · viewer@billing · no end · never used\n"
    )
    assert call("token", "revoke", "1") == (0, "Token 1 is revoked.\n")
    assert call("token", "revoke", "1")[0] == 1
    assert call("user", "add", "root", "--role", "admin")[0] == 0
    assert call("user", "disable", "root")[0] == 1  # the last administrator

    files = tmp_path / "roles"
    files.mkdir()
    (files / "tickwheel.yaml").write_text("owner: platform\n")
    document = "type: user_roles\nname: {}\nroles:\n- role: {}\n"
    (files / "olga.yaml").write_text(document.format("olga", "operator"))
    code, told = call("user", "apply", "-f", str(files))
    assert (code, "~ user_roles olga" in told, "--yes applies it" in told) == (0, True, True)
    assert "operator" not in call("user", "list")[1]
    assert call("user", "apply", "-f", str(files), "--yes")[1].endswith("Applied.\n")
    assert "operator" in call("user", "list")[1]
    (files / "root.yaml").write_text(document.format("root", "viewer"))
    code, told = call("user", "apply", "-f", str(files), "--yes")
    assert (code, "root is the last administrator" in told) == (1, True)
    (files / "root.yaml").write_text("type: calendar\nname: c\n")
    assert call("user", "apply", "-f", str(files), "--yes")[0] == 2
    assert call("user", "delete", "olga")[0] == 0
    assert "olga" not in call("user", "list")[1]


# --- serve -----------------------------------------------------------------------------------


def test_an_admin_starts_answers_and_stops_cleanly(tmp_path: Path) -> None:
    with Serving(tmp_path, starts_python=True) as serving:
        assert serving.process.wait_for_line(ONE_TIME)
        assert serving.get("/healthz")[1]["status"] == "ok"
        assert serving.get("/api/v1/jobs")[0] == 401
        token = run("token", "create", "admin", "ci", "--data-dir", str(serving.data))
        assert serving.get("/api/v1/jobs", token.stdout.strip())[0] == 200

        assert serving.process.stop(signal.SIGTERM) == 0
        assert "Traceback" not in serving.process.output()
        events = re.findall(r'"event": "(admin\.\w+)"', serving.process.output())
        assert events == ["admin.started", "admin.stopping", "admin.stopped"]

    # Nothing of it is left as if it lived; the password is shown only the first time.
    with sqlite3.connect(serving.data / "tickwheel.db") as database:
        assert database.execute("SELECT count(*) FROM admin").fetchone() == (0,)
    database.close()
    with Serving(tmp_path) as again:
        assert not re.search(ONE_TIME, again.process.output())
        assert again.process.stop(signal.SIGINT) == 0


def test_data_is_for_its_owner_only_under_any_umask(tmp_path: Path) -> None:
    os.umask(0)
    with Serving(tmp_path, starts_python=True) as serving:
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in (serving.data, *serving.data.iterdir())
        }

    assert modes.pop("data") == 0o700
    assert "tickwheel.db" in modes
    assert set(modes.values()) == {0o600}


def test_a_taken_port_is_one_sentence_and_leaves_no_trace(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        data = ("--data-dir", str(tmp_path / "data"))
        done = run("serve", *data, "--port", port)
        scraped = run(
            "serve", *data, "--port", str(free_port()), environment={"TICKWHEEL_METRICS_PORT": port}
        )

    for failed, way in ((done, "--port"), (scraped, "TICKWHEEL_METRICS_PORT")):
        assert failed.returncode == 1
        assert failed.stderr == (
            f"tickwheel: port {port} is in use by another program; choose one with {way}\n"
        )
    assert (tmp_path / "data" / "tickwheel.db").stat().st_size == 0


def test_one_directory_is_one_admins(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        done = run("serve", "--data-dir", str(serving.data), "--port", str(free_port()))

    assert done.returncode == 1
    assert re.fullmatch(r"tickwheel: another admin already runs on .*\n", done.stderr)


@pytest.mark.parametrize("host", ["203.0.113.1", "no-such-host.invalid"])
def test_a_foreign_address_is_one_sentence(tmp_path: Path, host: str) -> None:
    done = run("serve", "--data-dir", str(tmp_path), "--host", host, "--port", str(free_port()))

    assert done.returncode == 1
    assert re.fullmatch(r"tickwheel: .*\n", done.stderr)


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = run("serve", "--data-dir", str(tmp_path / "file" / "data"))

    assert done.returncode == 1
    assert re.fullmatch(r"tickwheel: cannot write to .*--data-dir\n", done.stderr)


def test_a_database_that_is_away_at_the_start_is_one_sentence(tmp_path: Path) -> None:
    url = f"postgresql+psycopg://u:hunter2@127.0.0.1:{free_port()}/tickwheel"
    done = run("serve", "--port", str(free_port()), environment={"TICKWHEEL_DATABASE_URL": url})

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
    assert "tickwheel: " in done.stderr


def test_a_servers_schema_is_not_upgraded_by_starting(postgresql_url: str) -> None:
    settings = {"TICKWHEEL_DATABASE_URL": postgresql_url}
    done = run("serve", "--port", str(free_port()), environment=settings)

    assert done.returncode == 1
    assert "tickwheel db upgrade" in done.stderr


@pytest.mark.slow
def test_an_admin_with_nodes_stops_soon_and_they_come_back(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        data = str(serving.data)
        token = run("token", "create", "admin", "ci", "--data-dir", data).stdout.strip()
        executor = serving.post("/api/v1/executors", token, {"name": "demo"})
        job = {"executor_id": executor["id"], "name": "quick", "handler": "quick"}
        trigger = {"kind": "fixed_rate", "every_seconds": 0.5}
        serving.post("/api/v1/jobs", token, job | {"triggers": [trigger]})
        node = ManagedProcess(
            [sys.executable, ROOT / "executor_sdk/examples/demo_executor.py", "--name", "n"],
            tmp_path / "node.log",
            environment={
                "TICKWHEEL_ADMINS": serving.url,
                "TICKWHEEL_TOKEN": executor["token"],
                "XDG_STATE_HOME": str(tmp_path / "state"),
            },
        )
        with node:
            node.wait_for_line("connected to admin")

            def succeeded() -> int:
                return len(serving.get("/api/v1/runs?state=succeeded", token)[1]["items"])

            wait_until(lambda: succeeded() >= 2, what="runs that succeeded")
            started = time.monotonic()
            assert serving.process.stop() == 0
            assert time.monotonic() - started < 5
            assert '"level": "error"' not in serving.process.output()
            before = len(re.findall("connected to admin", node.output()))

            with Serving(tmp_path, port=serving.port) as again:
                wait_until(
                    lambda: len(re.findall("connected to admin", node.output())) > before,
                    timeout_seconds=30,
                    what="the node to be back",
                )
                at_return = succeeded()
                wait_until(lambda: succeeded() > at_return + 2, what="further runs")
                assert again.process.stop() == 0
            assert node.stop() == 0
