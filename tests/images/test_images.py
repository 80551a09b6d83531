"""The images, really built and run, on a base made of Debian's packages: without a registry.

Only by night, and as root: it takes minutes and a gigabyte. The base stands in for
`python:3.11-slim`, so a Dockerfile is built as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.availability import impossible
from tests.support.nightly import IS_NIGHT
from tests.support.polling import wait_until
from tests.support.processes import free_port

ROOT = Path(__file__).parents[2]
BASE = "docker.io/library/python:3.11-slim"
INCLUDED = "python3,python3-venv,python-is-python3,ca-certificates,tzdata"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
MAX_ADDED_MB = {"admin": 200, "executor": 50, "agent": 110}
# As compose.yaml runs them. Without CAP_SYS_RESOURCE no limit can be raised, so they are named.
CLOSED = (
    *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges", "--network", "host"),
    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"),
)

pytestmark = pytest.mark.skipif(not IS_NIGHT, reason="not possible here: only by night")

Podman = Callable[..., str]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """podman with a storage of its own, which has the base and the three images."""
    for program in ("podman", "buildah", "mmdebstrap", "runc"):
        if shutil.which(program) is None:
            impossible(f"{program} is not installed")
    if os.geteuid() != 0:
        impossible("containers are built and run as root")
    directory = tmp_path_factory.mktemp("containers")
    storage = ["--root", str(directory / "root"), "--runroot", str(directory / "run")]

    def call(*arguments: str, program: str = "podman") -> str:
        runtime = ["--runtime", "runc"] if program == "podman" else []
        done = subprocess.run(
            [program, *storage, *runtime, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program} {arguments[0]}: {done.stdout}{done.stderr}"[-3000:]
        return done.stdout.strip()

    base = directory / "base.tar"
    made = ["mmdebstrap", "--variant=minbase", f"--include={INCLUDED}", "bookworm", str(base)]
    subprocess.run(made, check=True, capture_output=True)
    call("import", str(base), BASE)
    base.unlink()
    for image in MAX_ADDED_MB:
        call(
            *("bud", "--isolation", "chroot", "--network", "host", "--pull-never"),
            *("--format", "docker", "--layers=false"),
            # What pip trusts here, also where the way out is a proxy of one's own.
            *("--volume", f"{AUTHORITIES}:{AUTHORITIES}:ro"),
            *("--file", f"docker/{image}.Dockerfile", "--tag", f"localhost/tickwheel-{image}", "."),
            program="buildah",
        )
    yield call
    call("rm", "--all", "--force")
    call("rmi", "--all", "--force")


def test_images_are_small_and_have_no_tools_of_the_build(podman: Podman) -> None:
    sizes = {
        name: int(podman("image", "inspect", name, "--format", "{{.Size}}"))
        for name in (BASE, *(f"localhost/tickwheel-{image}" for image in MAX_ADDED_MB))
    }
    for image, most in MAX_ADDED_MB.items():
        name = f"localhost/tickwheel-{image}"
        assert (sizes[name] - sizes[BASE]) / 1e6 < most, sizes
        found = podman("run", "--rm", *CLOSED, name, "sh", "-c", "ls / /opt/tickwheel/bin; id -u")
        assert "src" not in found.split()
        assert "pip" not in found.split()
        assert found.split()[-1] == "10001"


def test_an_admin_and_a_node_work_read_only_and_without_rights(podman: Podman) -> None:
    name, port = f"tickwheel-{uuid.uuid4().hex[:8]}", free_port()
    here = f"http://127.0.0.1:{port}"
    podman(
        *("run", "--detach", "--name", name, *CLOSED),
        *("--env", f"TICKWHEEL_PORT={port}", "--env", "TICKWHEEL_HOST=127.0.0.1"),
        "localhost/tickwheel-admin",
    )
    check = ("exec", name, "python", "-c")
    alive = "from tickwheel_admin.healthz import main; print(main())"
    wait_until(lambda: podman(*check, alive) == "0", what="health", timeout_seconds=60)
    tested = json.loads(podman("image", "inspect", "localhost/tickwheel-admin"))[0]
    assert "tickwheel_admin.healthz" in str(tested["Healthcheck"])

    token = podman("exec", name, "tickwheel", "token", "create", "admin", "tests").split()[-1]
    make = (
        "import json, sys, urllib.request as u;"
        f"r = u.Request('{here}/api/v1/executors', b'{{\"name\": \"demo\"}}',"
        " {'Authorization': 'Bearer ' + sys.argv[1], 'Content-Type': 'application/json'});"
        "print(json.load(u.urlopen(r))['token'])"
    )
    node = f"{name}-node"
    podman(
        *("run", "--detach", "--name", node, *CLOSED, "--env", f"TICKWHEEL_ADMINS={here}"),
        *("--env", "TICKWHEEL_EXECUTOR=demo"),
        *("--env", f"TICKWHEEL_TOKEN={podman(*check, make, token)}"),
        "localhost/tickwheel-executor",
    )

    def logged() -> str:
        return subprocess.run(
            ["cat", podman("inspect", node, "--format", "{{.HostConfig.LogConfig.Path}}")],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    wait_until(lambda: "connected to admin" in logged(), what="the node", timeout_seconds=60)
    for each in (node, name):
        podman("stop", "--time", "60", each)
        assert podman("inspect", each, "--format", "{{.State.ExitCode}}") == "0"
