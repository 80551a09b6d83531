"""A real Prometheus scrapes two real admins: the rules, the board, and alerts when things die."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import EXECUTOR, AdminProcess, Cluster, NodeProcess
from tests.e2e.monitoring.test_alert_rules import RULES
from tests.support.availability import unavailable
from tests.support.databases import fresh_database
from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess, free_port
from tests.support.servers import DatabaseServer
from tests.support.servers.base import find_program

BOARD = Path(__file__).parents[3] / "docker" / "grafana" / "dashboards" / "tickwheel.json"
TOKEN = "scrapers-have-this-token-alone"
JOB = 'hourly/with "quotes" and \\'

# Queries of the board that have nothing to show yet, an hour after the start at the earliest.
EMPTY = {"The newest audited hour"}


@dataclass(frozen=True, kw_only=True)
class Monitored:
    """A cluster with a Prometheus."""

    cluster: Cluster
    admins: tuple[AdminProcess, AdminProcess]
    targets: tuple[str, str]  # addresses of their metrics
    node: NodeProcess
    url: str  # of Prometheus

    def ask(self, path: str, **parameters: str) -> Any:
        """What its API answers; an error fails the test."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=20) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def values(self, expression: str) -> list[float]:
        """The value of each series that an expression finds now."""
        return [float(each["value"][1]) for each in self.ask("query", query=expression)["result"]]

    def firing(self) -> set[tuple[str, str]]:
        """Alerts that fire, with the instance or executor that they name."""
        return {
            (labels["alertname"], labels.get("instance") or labels.get("executor", ""))
            for each in self.ask("alerts")["alerts"]
            if each["state"] == "firing"
            for labels in (each["labels"],)
        }

    def wait_for(self, what: str, expression: str) -> None:
        """Wait until an expression finds something that is not 0."""
        wait_until(lambda: any(self.values(expression)), timeout_seconds=30, what=what)


@pytest.fixture(scope="module")
def monitored(
    postgresql_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Monitored]:
    program = find_program("prometheus")
    if program is None:
        unavailable("prometheus is not installed")
    directory = tmp_path_factory.mktemp("monitored")
    with (
        fresh_database(postgresql_server) as url,
        Cluster(directory, url) as cluster,
    ):
        ports = free_port(), free_port()
        first, second = (
            cluster.start_admin(name, environment=_metrics_on(port))
            for name, port in zip(("admin-1", "admin-2"), ports, strict=True)
        )
        targets = f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"
        web_port = free_port()
        command = [
            program, f"--config.file={_config(directory, targets)}",
            f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{web_port}", "--log.level=warn",
        ]  # fmt: skip
        with ManagedProcess(command, directory / "prometheus.log") as prometheus:
            cluster.add_executor()
            node = cluster.start_node("node-1")
            every_second = [{"kind": "fixed_rate", "every_seconds": 1}]
            cluster.add_job(JOB, "work", triggers=every_second)
            cluster.add_job("fails", "fail", triggers=every_second)
            address = f"http://127.0.0.1:{web_port}"
            prometheus.wait_for_http(f"{address}/-/ready", timeout_seconds=30)
            yield Monitored(
                cluster=cluster,
                admins=(first, second),
                targets=targets,
                node=node,
                url=address,
            )


def _metrics_on(port: int) -> dict[str, str]:
    return {
        "TICKWHEEL_METRICS_PORT": str(port),
        "TICKWHEEL_METRICS_HOST": "127.0.0.1",
        "TICKWHEEL_METRICS_TOKEN": TOKEN,
        "TICKWHEEL_METRICS_JOBS": f"{EXECUTOR}/{JOB}",
    }


def _config(directory: Path, targets: tuple[str, str]) -> Path:
    """Scrapes and evaluates each second, and alerts at once; all else is as in docker/."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    (directory / "rules.json").write_text(json.dumps(rules))
    (directory / "token").write_text(TOKEN)
    config = yaml.safe_load((RULES.parent / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(directory / "rules.json")]
    (scrape,) = config["scrape_configs"]
    scrape["authorization"]["credentials_file"] = str(directory / "token")
    scrape["static_configs"] = [{"targets": list(targets)}]
    file = directory / "prometheus.json"
    file.write_text(json.dumps(config))
    return file


def queries_of_the_board() -> list[tuple[str, str]]:
    """(title of the panel, its query as Grafana would send it)."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    return [
        (panel["title"], _filled(target["expr"]))
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]


def _filled(expression: str) -> str:
    return expression.replace("$executor", ".*").replace("$__rate_interval", "10s")


def test_a_real_prometheus(monitored: Monitored) -> None:
    """One way through: scrape, board and rules, then a node and an admin die."""
    up = 'sum(up{job="tickwheel"}) == 2'
    monitored.wait_for("both admins to be scraped", up)
    for outcome in ("succeeded", "failed"):
        monitored.wait_for(
            f"runs that {outcome}",
            f'sum(rate(tickwheel_runs_ended_total{{executor="{EXECUTOR}",'
            f' outcome="{outcome}"}}[10s])) > 0',
        )

    # The rules: none has an error, and what is well is told by none.
    groups = monitored.ask("rules")["groups"]
    ill = [rule for group in groups for rule in group["rules"] if rule["health"] != "ok"]
    assert ill == []
    assert not {alert for alert, _ in monitored.firing()} & {
        "TickwheelAdminDown", "TickwheelNoAdmin", "TickwheelNoNodes", "TickwheelLoopStalled",
        "TickwheelDatabaseDown", "TickwheelAuditDifference", "TickwheelMessagesDead",
    }  # fmt: skip

    # Figures of the installation are the same on both admins; job labels are as they were given.
    nodes = f'tickwheel_installation_nodes{{executor="{EXECUTOR}", state="ready"}}'
    assert monitored.values(nodes) == [1, 1]
    jobs = monitored.ask("query", query="tickwheel_job_runs_ended_total")["result"]
    assert {each["metric"]["job_name"] for each in jobs} == {JOB}

    # No label of ours is one of Prometheus's own.
    names = monitored.ask("labels")
    assert not [name for name in names if name.startswith("exported_")]

    # The board: each query is understood and finds something. While runs start and end: rates are
    # of ten seconds, in which a busy machine may scrape once.
    for title, query in queries_of_the_board():
        found = partial(monitored.values, query)
        if title in EMPTY:
            found()
        else:
            wait_until(found, timeout_seconds=30, what=f"figures of {title}")

    # A node dies: its runs wait, and nobody is there.
    monitored.node.process.kill()
    wait_until(
        lambda: ("TickwheelNoNodes", EXECUTOR) in monitored.firing(),
        timeout_seconds=60,
        what="the alert that the executor has no node",
    )
    # An admin dies: the other one is still there to be asked.
    monitored.admins[1].process.kill()
    wait_until(
        lambda: ("TickwheelAdminDown", monitored.targets[1]) in monitored.firing(),
        timeout_seconds=60,
        what="the alert that an admin is down",
    )
    assert ("TickwheelAdminDown", monitored.targets[0]) not in monitored.firing()
