"""What can be known of the container files without a container engine."""

from __future__ import annotations

import configparser
import copy
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import compose_spec
import pytest
import yaml

from tests.support.availability import impossible
from tests.support.nightly import IS_NIGHT
from tickwheel_executor.executor import REFUSED_EXIT_CODE

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("*.Dockerfile"))

COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Instruction and arguments, with continued lines joined."""
    text = re.sub(r"\\\n\s*", "", dockerfile.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def arguments(dockerfile: Path, instruction: str) -> list[str]:
    return [rest for word, rest in instructions(dockerfile) if word == instruction]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_everything_copied_exists_and_is_let_through(dockerfile: Path) -> None:
    let_through = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    for copied in arguments(dockerfile, "COPY"):
        if copied.startswith("--from=build "):
            continue  # of the stage before, not of this checkout
        source = copied.split()[0]
        assert (ROOT / source).exists(), source
        assert any(known == source or known.startswith(f"{source}/") for known in let_through), (
            f"{source} is kept out by .dockerignore"
        )


def test_dockerignore_names_only_what_exists() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    for line in lines:
        if line.startswith("!"):
            assert (ROOT / line[1:]).exists(), line
    assert "*" in lines, "everything not named stays out"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_images_run_as_an_ordinary_user(dockerfile: Path) -> None:
    words = [word for word, _ in instructions(dockerfile)]
    shipped = words[len(words) - words[::-1].index("FROM") :]  # of the last stage

    # A number, so that Kubernetes can see that it is not root.
    assert arguments(dockerfile, "USER") == ["10001"]
    assert shipped.index("USER") > shipped.index("COPY"), "the user owns nothing that is run"
    assert shipped[-1] == "CMD"
    assert shipped.count("RUN") == 1, "tools and sources of the build stay in its stage"
    assert arguments(dockerfile, "CMD")[0].startswith("["), "a shell would swallow SIGTERM"


def test_the_cluster_is_two_admins_and_two_nodes_over_one_database() -> None:
    assert set(SERVICES) == {
        *("database", "schema"),
        *("admin-1", "admin-2"),
        *("executor-1", "executor-2"),
        "agent",
        *("prometheus", "grafana"),
    }
    used = {
        mount.partition(":")[0]
        for service in SERVICES.values()
        for mount in service.get("volumes", [])
        if not mount.startswith("./")
    }
    assert used == set(COMPOSE["volumes"])
    for name in ("admin-1", "admin-2", "schema"):
        assert "@database:3306/tickwheel" in SERVICES[name]["environment"]["TICKWHEEL_DATABASE_URL"]
    for name in ("executor-1", "executor-2"):
        urls = SERVICES[name]["environment"]["TICKWHEEL_ADMINS"].split(",")
        assert urls == [
            SERVICES[f"admin-{n}"]["environment"]["TICKWHEEL_PUBLIC_URL"] for n in (1, 2)
        ]
        # A spool shared by two nodes would be delivered by both.
        assert SERVICES[name]["volumes"] == [f"{name}:/var/lib/tickwheel"]


@pytest.mark.parametrize("wrong", [None, "restart", "volume"])
def test_the_file_is_one_of_compose(wrong: str | None) -> None:
    """By the Compose specification as a library knows it, which has no merge keys of YAML."""
    compose = copy.deepcopy(COMPOSE)
    if wrong is not None:
        compose["services"]["admin-1"][wrong] = "sometimes"
    text = json.dumps(compose)  # JSON is YAML, without anchors
    if wrong is None:
        assert set(compose_spec.PyCompose.from_yaml(text).service_names()) == set(SERVICES)
    else:
        with pytest.raises(ValueError, match=wrong):
            compose_spec.PyCompose.from_yaml(text)


def test_admins_start_when_the_schema_is_there() -> None:
    assert SERVICES["schema"]["command"] == ["tickwheel", "db", "upgrade"]
    assert SERVICES["schema"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    for name in ("admin-1", "admin-2"):
        waits_for = SERVICES[name]["depends_on"]
        assert waits_for == {"schema": {"condition": "service_completed_successfully"}}


def test_every_long_running_service_is_checked_for_health_where_it_can_be() -> None:
    assert "healthcheck" in SERVICES["database"]
    assert "tickwheel_admin.healthz" in arguments(DOCKER / "admin.Dockerfile", "HEALTHCHECK")[0]


def test_there_is_no_password_in_the_files() -> None:
    secrets = {"MARIADB_PASSWORD", "TICKWHEEL_TOKEN", "TICKWHEEL_METRICS_TOKEN"}
    for line in (DOCKER / ".env.example").read_text().splitlines():
        if line and not line.startswith("#"):
            assert line.endswith("="), f".env.example must hold no value: {line}"
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if key in secrets:
                assert re.fullmatch(r"\$\{" + key + r"(:-|:\?.+)\}", value), f"{name}.{key}"
            elif key == "TICKWHEEL_DATABASE_URL":
                assert re.search(r":\$\{MARIADB_PASSWORD:\?[^}]+\}@", value)
    for dockerfile in DOCKERFILES:
        for setting in arguments(dockerfile, "ENV") + arguments(dockerfile, "ARG"):
            assert not re.search("PASSWORD|TOKEN|SECRET|KEY", setting), setting


def test_ports_are_published_on_this_machine_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_variables_are_documented_in_the_example() -> None:
    used = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text()))
    known = {line.partition("=")[0] for line in (DOCKER / ".env.example").read_text().splitlines()}

    assert used <= known


@pytest.mark.parametrize("image", [path.stem for path in DOCKERFILES])
def test_an_image_installs_packages_and_extras_that_exist(image: str) -> None:
    installed = []
    for command in pip_commands(DOCKER / f"{image}.Dockerfile"):
        for path, extras in re.findall(
            rf"({re.escape(str(ROOT))}/[\w/]+)(?:\[([\w,-]+)\])?", " ".join(command)
        ):
            project = tomllib.loads((Path(path) / "pyproject.toml").read_text())["project"]
            known = project.get("optional-dependencies", {})
            assert set(extras.split(",")) - {""} <= known.keys(), f"{path}[{extras}]"
            installed.append(project["name"])

    server = {"tickwheel-admin"} if image == "admin" else {"tickwheel-executor"}
    assert server <= set(installed) <= server | {"tickwheel-shared"}


at_night = pytest.mark.skipif(
    not IS_NIGHT, reason="not possible here: installs from an index, by night"
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Runs the install commands of an image in a bare virtual environment, once for each image."""

    @functools.cache
    def install(image: str) -> Path:
        environment = tmp_path_factory.mktemp(image)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        for command in pip_commands(DOCKER / f"{image}.Dockerfile"):
            pip(environment, *command[1:], "--no-compile")
        return environment

    return install


@at_night
@pytest.mark.slow
def test_the_admin_image_has_the_command_and_the_migrations(
    installed: Callable[[str], Path], tmp_path: Path
) -> None:
    environment = installed("admin")
    settings = {"TICKWHEEL_DATABASE_URL": f"sqlite:///{tmp_path / 'tickwheel.db'}"}

    assert files_in(installed_package(environment, "tickwheel_admin")) == files_in(
        ROOT / "admin" / "tickwheel_admin"
    ), "the wheel leaves something out"
    assert "serve" in run(environment, "tickwheel", "--help")
    assert "is now at" in run(environment, "tickwheel", "db", "upgrade", settings=settings)
    run(environment, "tickwheel", "db", "check", settings=settings)


@at_night
@pytest.mark.slow
def test_the_executor_image_has_the_sdk_and_nothing_of_the_server(
    installed: Callable[[str], Path],
) -> None:
    environment = installed("executor")

    run(environment, "python", "-c", "import tickwheel_executor")
    found = pip(environment, "list", "--format=freeze").lower()
    assert "tickwheel-executor" in found
    assert "tickwheel-admin" not in found
    assert "sqlalchemy" not in found


@at_night
@pytest.mark.slow
@pytest.mark.parametrize("image", ["executor", "agent"])
def test_the_agent_of_an_image_starts_children(
    installed: Callable[[str], Path], tmp_path: Path, image: str
) -> None:
    environment = installed(image)
    config = tmp_path / "agent.toml"
    config.write_text(
        '[agent]\nadmins = ["http://admin-1:8500"]\nexecutor = "crm"\n'
        f'token = "{"t" * 40}"\n[script]\nlanguages = ["shell"]\n'
    )

    found = run(environment, "tickwheel-agent", "--config", str(config), "--check")
    assert "a child was started, and ended" in found, "the keeper's files are in the wheel"


def test_the_agent_is_what_its_image_runs() -> None:
    assert "tickwheel-agent" in arguments(DOCKER / "agent.Dockerfile", "CMD")[0]


def test_systemd_leaves_the_runs_of_an_agent_to_the_agent() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DOCKER / "tickwheel-agent.service")
    service = unit["Service"]
    assert service["ExecStart"].endswith("/tickwheel-agent")
    assert (service["Delegate"], service["KillMode"]) == ("yes", "mixed")
    assert service["OOMPolicy"] == "continue"
    assert service["RestartPreventExitStatus"] == str(REFUSED_EXIT_CODE)


UNITS = sorted(DOCKER.glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_units_are_valid_and_as_closed_as_they_can_be(unit: Path, tmp_path: Path) -> None:
    """An agent starts what others wrote, as another user, so little can be forbidden to it."""
    if shutil.which("systemd-analyze") is None:
        impossible("systemd is not installed")
    text = unit.read_text()
    for started in re.findall(r"(?m)^ExecStart=(\S+)", text):
        text = text.replace(started, "/bin/true")  # where it is installed, it is there
    copy = tmp_path / unit.name
    copy.write_text(text)
    told = analyze("verify", str(copy))
    # Of systemd 254; the comment beside it says what older ones do.
    told = [line for line in told if "'DelegateSubgroup'" not in line]
    assert [line for line in told if unit.name in line] == []

    [verdict] = [
        line
        for line in analyze("security", "--offline=true", "--no-pager", str(copy))
        if "Overall exposure" in line
    ]
    exposure = float(verdict.split(":")[1].split()[0])
    assert exposure <= (9.5 if unit.stem == "tickwheel-agent" else 2.0), verdict


def analyze(command: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["systemd-analyze", command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | {"SYSTEMD_COLORS": "0", "SYSTEMD_UTF8": "0"},
    )
    return done.stdout.splitlines()


def installed_package(environment: Path, name: str) -> Path:
    [package] = environment.glob(f"lib/python*/site-packages/{name}")
    return package


def files_in(package: Path) -> set[Path]:
    found = (path for path in package.rglob("*") if path.is_file())
    return {path.relative_to(package) for path in found if "__pycache__" not in path.parts}


def pip_commands(dockerfile: Path) -> list[list[str]]:
    """The pip part of the RUN instructions, with the paths of this checkout."""
    parts = [part for line in arguments(dockerfile, "RUN") for part in line.split("&&")]
    commands = [shlex.split(part) for part in parts if part.split()[:2] == ["pip", "install"]]
    assert commands
    return [[part.replace("/src/", f"{ROOT}/") for part in command] for command in commands]


def pip(environment: Path, *rest: str, settings: Mapping[str, str] | None = None) -> str:
    """With the pip of the tests: to give each environment one of its own takes longer than it."""
    there = ["--python", str(environment / "bin" / "python")]
    return run(Path(sys.prefix), "python", "-m", "pip", *there, *rest, settings=settings)


def run(
    environment: Path, program: str, *rest: str, settings: Mapping[str, str] | None = None
) -> str:
    done = subprocess.run(
        [str(environment / "bin" / program), *rest],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=environment,  # not the checkout, whose packages Python would find first
        env=os.environ | dict(settings or {}),
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout
