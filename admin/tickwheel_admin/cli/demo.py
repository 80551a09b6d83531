"""`tickwheel demo`: one admin, a few nodes and example jobs in a directory of their own."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tickwheel_admin.cli.common import Failure, held, listen, make_data_directory, with_services
from tickwheel_admin.cli.demo_agent import AGENT_EXECUTOR, write_agent_config
from tickwheel_admin.cli.demo_jobs import EXECUTOR, DemoData, environment_of_node, fill
from tickwheel_admin.cli.demo_processes import Children
from tickwheel_admin.cli.demo_xxl_job import PROGRAM, XXL_EXECUTOR, XxlDemoData, choose_port
from tickwheel_admin.config import Config, load_config
from tickwheel_admin.services.users.administration import FIRST_ADMIN

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MARK = ".tickwheel-demo"  # only a directory with this file is ever deleted
_EXAMPLE = "demo_executor.py"
_TOKEN_FILE = "executor-token"  # noqa: S105 - a file name

_DESCRIPTION = """\
Run Tickwheel here, to look around: one admin on an embedded database, an example executor with its
nodes as processes of their own, one whose process speaks XXL-JOB's protocol, an agent for scripts,
and some jobs. Stop it with Ctrl-C; started again, it goes on with the same data.
"""

_EXAMPLES = """\
examples:
  tickwheel demo
  tickwheel demo --port 8700 --reset
  kill -9 $(pgrep -f 'demo_executor.py --name node-1')    watch what happens to its runs
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "demo",
        help="run an admin, example nodes and example jobs",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--directory", type=Path, help="where data and logs go (~/.local/share/tickwheel-demo)"
    )
    parser.add_argument(
        "--executor",
        type=Path,
        help="program of the nodes (the SDK's example, demo_executor.py)",
    )
    parser.add_argument("--port", help="port of the admin (8500)")
    parser.add_argument("--nodes", type=int, default=2, choices=range(10), help="how many (2)")
    parser.add_argument("--reset", action="store_true", help="delete the demo's data first")
    parser.set_defaults(run=_demo)


def _demo(args: argparse.Namespace) -> int:
    executor = _program_of_nodes(args.executor)
    directory = _prepare((args.directory or _default_directory()).absolute(), reset=args.reset)
    config = load_config({"data_dir": directory, "port": args.port, "name": "demo"}, environment={})
    taken = f"a demo already runs in {_from_here(directory)}; stop it first"
    with held(directory, name="demo.lock", taken=taken):
        if args.reset:
            _empty(directory)
        for sock in listen(config):
            sock.close()  # only to know before anything is made whether the port is taken
        return _run(config, directory, executor, nodes=args.nodes)


def _run(config: Config, directory: Path, executor: Path, *, nodes: int) -> int:
    make_data_directory(config)
    known_token = _read_token(directory)
    console = config.public_url
    data = with_services(config, lambda services: fill(services, known_token, console=console))
    _write_token(directory, data.token)

    metrics_port = choose_port(directory / "metrics-port", first=config.port + 1)
    with Children(directory) as children:
        for caught in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(caught, lambda *_: children.stop())
        children.start(
            "admin",
            [sys.executable, "-m", "tickwheel_admin.cli", "serve"],
            _admin_environment(config, metrics_port),
        )
        children.wait_for_http("admin", f"{config.public_url}/healthz")
        for number in range(1, nodes + 1):
            name = f"node-{number}"
            children.start(
                name,
                [sys.executable, str(executor), "--name", name],
                {
                    "TICKWHEEL_ADMINS": config.public_url,
                    "TICKWHEEL_EXECUTOR": EXECUTOR,
                    "TICKWHEEL_TOKEN": data.token,
                    "XDG_STATE_HOME": str(directory / "nodes"),  # spools of results
                    **environment_of_node(number),
                },
            )
        if data.xxl_job is not None:
            _start_xxl_job(children, config, data.xxl_job, directory)
        if data.agent_token is not None:
            _start_agent(children, config, data.agent_token, directory)
        _announce(config, data, directory, metrics_port)
        return children.supervise()


def _start_xxl_job(children: Children, config: Config, data: XxlDemoData, directory: Path) -> None:
    port = choose_port(directory / f"{XXL_EXECUTOR}-port")
    children.start(
        XXL_EXECUTOR,
        [sys.executable, str(PROGRAM), "--name", data.app_name, "--port", str(port)],
        {"XXL_JOB_ADMIN_ADDRESS": config.public_url, "XXL_JOB_ACCESS_TOKEN": data.token},
    )


def _start_agent(children: Children, config: Config, token: str, directory: Path) -> None:
    file = write_agent_config(directory, console=config.public_url)
    children.start(
        "agent",
        [sys.executable, "-m", "tickwheel_executor.agent", "--config", str(file)],
        {"TICKWHEEL_TOKEN": token},
    )


def _program_of_nodes(named: Path | None) -> Path:
    """What was named, or the SDK's example: in its wheel, or beside it in a checkout."""
    sdk = importlib.util.find_spec("tickwheel_executor")
    if sdk is None or sdk.origin is None:
        raise Failure(
            "the nodes need the SDK in the same environment: install tickwheel-admin with its extra"
            " `demo`; in a checkout of Tickwheel: pip install ./shared ./executor_sdk"
        )
    package = Path(sdk.origin).parent
    places = (package / _EXAMPLE, package.parent / "examples" / _EXAMPLE)
    for place in places if named is None else (named,):
        if place.is_file():
            return place.absolute()
    missing = named or places[0]
    raise Failure(f"there is no {missing}; name the nodes' program with --executor")


def _default_directory() -> Path:
    # Not the working directory: with uvx or pipx it is started from anywhere, and goes on there.
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "tickwheel-demo"


def _prepare(directory: Path, *, reset: bool) -> Path:
    """The directory, made and marked; never one that holds anything else."""
    try:
        if directory.exists() and not (directory / _MARK).exists() and any(directory.iterdir()):
            verb = "delete" if reset else "use"
            raise Failure(f"will not {verb} {directory}: it holds other things than a demo's data")
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (directory / _MARK).touch()
    except OSError as error:
        raise Failure(
            f"cannot write to {error.filename or directory}: {error.strerror};"
            " choose another directory with --directory"
        ) from None
    return directory


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.name in (_MARK, "demo.lock"):
            continue  # the lock is ours just now
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _read_token(directory: Path) -> str | None:
    try:
        return (directory / _TOKEN_FILE).read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def _write_token(directory: Path, token: str) -> None:
    with open(
        directory / _TOKEN_FILE,
        "w",
        encoding="ascii",
        opener=lambda path, flags: os.open(path, flags, 0o600),
    ) as file:
        file.write(token)


def _admin_environment(config: Config, metrics_port: int) -> dict[str, str]:
    return {
        "TICKWHEEL_DATA_DIR": str(config.data_dir),
        "TICKWHEEL_PORT": str(config.port),
        "TICKWHEEL_NAME": config.name,
        "TICKWHEEL_LOG_FORMAT": "json",
        "TICKWHEEL_METRICS_PORT": str(metrics_port),
        "TICKWHEEL_ALARM_NETWORKS": "127.0.0.0/8",  # so that a webhook on this machine can be tried
    }


def _command() -> str:
    """How this command is called again: in a fresh clone it is not on the path."""
    called = Path(sys.argv[0])
    return "tickwheel" if shutil.which("tickwheel") else str(_from_here(called.absolute()))


def _from_here(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _announce(config: Config, data: DemoData, directory: Path, metrics_port: int) -> None:
    shown = _from_here(directory)
    lines = ["Tickwheel is running. Open it in your browser:", "", f"    {config.public_url}", ""]
    if data.password is not None:
        lines += [
            f"Log in as      {FIRST_ADMIN}",
            f"with password  {data.password}",
            "",
            "It is shown only now and must be changed at the first login.",
        ]
    else:
        lines += [
            f"Log in as {FIRST_ADMIN}, with the password you chose. A lost one is replaced by",
            f"    {_command()} user reset-password {FIRST_ADMIN} --data-dir {shown}",
        ]
    if data.xxl_job is not None:
        lines += [
            "",
            f"The executor {XXL_EXECUTOR} speaks XXL-JOB's protocol, as your services may.",
        ]
    if data.agent_token is not None:
        lines += [
            "",
            f"The executor {AGENT_EXECUTOR} is an agent, which runs scripts, commands, HTTP calls",
            f"and SQL here; {shown / 'agent.toml'} says what it may.",
        ]
    lines += ["", f"Metrics for Prometheus: http://127.0.0.1:{metrics_port}/metrics"]
    lines += ["", f"Logs of all processes are in {shown}. Stop with Ctrl-C."]
    width = max(len(line) for line in lines)
    print("┌" + "─" * (width + 4) + "┐")
    for line in lines:
        print(f"│  {line:<{width}}  │")
    print("└" + "─" * (width + 4) + "┘", flush=True)
