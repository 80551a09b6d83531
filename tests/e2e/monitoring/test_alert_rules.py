"""The alerting rules for Prometheus, with invented series: each fires when it should.

`promtool` runs them all at once; the real Prometheus is in `test_prometheus.py`.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.availability import unavailable
from tests.support.servers.base import find_program

PROMETHEUS = Path(__file__).parents[3] / "docker" / "prometheus"
RULES = PROMETHEUS / "tickwheel.rules.yml"

A, B = 'job="tickwheel", instance="a"', 'job="tickwheel", instance="b"'


@dataclass(frozen=True, kw_only=True)
class Case:
    """Series, a value each minute, and the labels with which an alert fires at a time."""

    alert: str
    series: dict[str, str]
    at: str
    fires: dict[str, str] | None = None  # None: it does not


def of(name: str, labels: str = "", where: str = A) -> str:
    return f"tickwheel_{name}{{{', '.join(filter(None, (where, labels)))}}}"


def both(name: str, labels: str, values: str) -> dict[str, str]:
    """The same on both admins, as figures of the installation are."""
    return {of("installation_" + name, labels, where): values for where in (A, B)}


def buckets(name: str, labels: str, fast: str, slow: str) -> dict[str, str]:
    """A histogram: `fast` are below its lowest bound, `slow` below its highest."""
    low, high = ("0.001", "5.0") if "transaction" in name else ("0.01", "60.0")
    both_bounds = {low: fast, high: slow, "+Inf": slow}
    return {of(f"{name}_bucket", f'{labels}, le="{le}"'): v for le, v in both_bounds.items()}


def up(where: str, values: str) -> dict[str, str]:
    return {f"up{{{where}}}": values}


UP = up(A, "1x30") | up(B, "1 1 1 0x30")
SHOP = 'executor="shop"'
WAIT = both("queued_runs", SHOP, "0 5x40")
CASES = [
    Case(alert="TickwheelAdminDown", series=UP, at="5m",
         fires={"instance": "b", "job": "tickwheel"}),
    Case(alert="TickwheelAdminDown", series=UP, at="3m"),
    Case(alert="TickwheelNoAdmin", series=UP, at="20m"),
    Case(alert="TickwheelNoAdmin", series=up(A, "1 0x30"), at="5m", fires={}),
    Case(alert="TickwheelAdminGone", series=both("admins", 'state="gone"', "0x5 1x30"), at="8m",
         fires={}),
    Case(alert="TickwheelAdminGone", series=both("admins", 'state="up"', "2x30"), at="8m"),
    Case(
        alert="TickwheelLoopStalled",
        series={
            of("loop_age_seconds", 'loop="planner"'): "0 20 80 140 200 260 320",
            of("loop_interval_seconds", 'loop="planner"'): "0.5x30",
            of("loop_age_seconds", 'loop="rollup"'): "0 60 120 180 240 300 0",
            of("loop_interval_seconds", 'loop="rollup"'): "300x30",
        },
        at="5m",
        fires={"instance": "a", "job": "tickwheel", "loop": "planner"},
    ),
    Case(
        alert="TickwheelLoopFailing",
        series={of("loop_failing", 'loop="sweeper"'): "0 1x30",
                of("loop_failing", 'loop="planner"'): "0 1 0 1 0 1 0 1 0"},
        at="6m",
        fires={"instance": "a", "job": "tickwheel", "loop": "sweeper"},
    ),
    Case(
        alert="TickwheelEventLoopBlocked",
        series={of("event_loop_stalled_seconds_total"): "0+6x30",
                of("event_loop_stalled_seconds_total", "", B): "0+1x30"},
        at="15m",
        fires={"instance": "a", "job": "tickwheel"},
    ),
    Case(
        alert="TickwheelClockOff",
        series={of("clock_offset_seconds"): "-2.5x30", of("clock_offset_seconds", "", B): "1x30"},
        at="12m",
        fires={"instance": "a", "job": "tickwheel"},
    ),
    *(
        Case(
            alert=alert,
            series={of("tls_certificate_expires_timestamp_seconds"): f"{days * 86_400}x30"},
            at="15m",
            fires={"instance": "a", "job": "tickwheel"} if fires else None,
        )
        for days, soon, now in ((15, False, False), (13, True, False), (2, False, True))
        for alert, fires in (
            ("TickwheelCertificateExpires", soon), ("TickwheelCertificateExpiresNow", now)
        )
    ),
    Case(alert="TickwheelPlanningLate", series=both("overdue_triggers", "", "0 7x30"), at="4m",
         fires={}),
    Case(alert="TickwheelPlanningLate", series=both("overdue_triggers", "", "0x30"), at="4m"),
    Case(
        alert="TickwheelStartsLate",
        series=buckets("start_delay_seconds", SHOP, "0+10x30", "0+100x30")
        | buckets("start_delay_seconds", 'executor="fast"', "0+99x30", "0+100x30"),
        at="20m",
        fires={"executor": "shop"},
    ),
    Case(alert="TickwheelQueueOld", series=both("queue_age_seconds", SHOP, "0+60x30"), at="13m",
         fires={"executor": "shop"}),
    Case(alert="TickwheelQueueOld", series=both("queue_age_seconds", SHOP, "280x30"), at="13m"),
    Case(alert="TickwheelQueueGrowing", series=both("queued_runs", SHOP, "0+20x40"), at="25m",
         fires={"executor": "shop"}),
    Case(alert="TickwheelQueueGrowing", series=both("queued_runs", SHOP, "1000x40"), at="25m",
         fires={"executor": "shop"}),
    Case(alert="TickwheelQueueGrowing", series=both("queued_runs", SHOP, "900-20x40"), at="25m"),
    Case(
        alert="TickwheelNoNodes",
        series=WAIT | both("nodes", f'{SHOP}, state="ready"', "1 0x40")
        | both("nodes", f'{SHOP}, state="draining"', "0x40"),
        at="5m",
        fires={"executor": "shop"},
    ),
    Case(
        alert="TickwheelNoNodes",
        series=WAIT | both("nodes", f'{SHOP}, state="ready"', "0x40")
        | both("nodes", f'{SHOP}, state="draining"', "1x40"),
        at="5m",
    ),
    Case(alert="TickwheelDatabaseDown", series={of("database_up"): "1 0x30"}, at="4m",
         fires={"instance": "a", "job": "tickwheel"}),
    Case(alert="TickwheelDatabaseDown", series={of("database_up"): "1x30"}, at="4m"),
    Case(
        alert="TickwheelDatabaseSlow",
        series=buckets("transaction_duration_seconds", 'kind="write"', "0+10x30", "0+100x30")
        | buckets("transaction_duration_seconds", 'kind="read"', "0+1x30", "0+900x30"),
        at="20m",
        fires={"instance": "a"},
    ),
    Case(
        alert="TickwheelDatabaseRepeats",
        series={
            of("transaction_repeats_total", 'cause="conflict"'): "0+20x30",
            of("transaction_repeats_total", 'cause="database"'): "0+10x30",
            of("transaction_duration_seconds_count", 'kind="write"'): "0+100x30",
            of("transaction_repeats_total", 'cause="conflict"', B): "0+20x30",
            of("transaction_duration_seconds_count", 'kind="write"', B): "0+500x30",
        },
        at="20m",
        fires={"instance": "a"},
    ),
    Case(
        alert="TickwheelTransactionsFail",
        series={of("transactions_failed_total", 'kind="write"'): "0+1x30",
                of("transactions_failed_total", 'kind="write"', B): "5x30"},
        at="12m",
        fires={"instance": "a"},
    ),
    Case(alert="TickwheelMessagesDead",
         series=both("undelivered_messages", 'state="dead"', "0 2x30"), at="2m", fires={}),
    Case(alert="TickwheelMessagesDead",
         series=both("undelivered_messages", 'state="waiting"', "9x30"), at="2m"),
    Case(alert="TickwheelMessagesLate", series=both("message_age_seconds", "", "0+60x40"),
         at="23m", fires={}),
    Case(alert="TickwheelMessagesLate", series=both("message_age_seconds", "", "600x40"), at="23m"),
    Case(
        alert="TickwheelAuditDifference",
        series=both("self_audit_differences", 'kind="missing"', "0 3x30")
        | both("self_audit_differences", 'kind="late"', "0x30"),
        at="2m",
        fires={"kind": "missing"},
    ),
    Case(
        alert="TickwheelSelfAuditBehind",
        series=both("self_audited_timestamp_seconds", "", "0x300"),
        at="200m",
        fires={},
    ),
    Case(
        alert="TickwheelSelfAuditBehind",
        series=both("self_audited_timestamp_seconds", "", "0+60x300"),
        at="200m",
    ),
]  # fmt: skip


def promtool(*arguments: str | Path) -> str:
    program = find_program("promtool")
    if program is None:
        unavailable("prometheus is not installed")
    done = subprocess.run(
        [program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def rules() -> list[dict[str, Any]]:
    """Every rule, as it stands in the file."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_configuration_and_the_rules_are_valid(tmp_path: Path) -> None:
    text = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
    token = tmp_path / "token"
    token.write_text("x")
    config = tmp_path / "prometheus.yml"
    config.write_text(
        text.replace("/run/secrets/metrics-token", str(token)).replace(RULES.name, str(RULES))
    )

    assert f"{len(rules())} rules found" in promtool("check", "config", config)


def test_each_rule_has_a_severity_and_says_what_to_do() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]
        # Figures of the installation are the same on all admins.
        assert "sum(tickwheel_installation" not in rule["expr"], rule["alert"]
        assert "sum by (executor) (tickwheel_installation" not in rule["expr"], rule["alert"]


def test_each_rule_is_among_the_cases_with_series_for_which_it_is_silent() -> None:
    for rule in rules():
        found = [case for case in CASES if case.alert == rule["alert"]]
        assert any(case.fires is not None for case in found), rule["alert"]
        # Silent altogether, or but for one of several series.
        silent = any(case.fires is None or len(case.series) > 1 for case in found)
        assert silent, rule["alert"]


def test_each_rule_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in rules()}
    bare = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in bare["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]  # promtool would want every text in every case
    (tmp_path / "rules.json").write_text(json.dumps(bare))
    tests = {
        "rule_files": ["rules.json"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "name": f"{case.alert} {number}",
                "input_series": [
                    {"series": series, "values": values} for series, values in case.series.items()
                ],
                "alert_rule_test": [
                    {
                        "alertname": case.alert,
                        "eval_time": case.at,
                        "exp_alerts": []
                        if case.fires is None
                        else [{"exp_labels": case.fires | {"severity": severities[case.alert]}}],
                    }
                ],
            }
            for number, case in enumerate(CASES)
        ],
    }
    file = tmp_path / "tests.json"
    file.write_text(json.dumps(tests))

    assert "SUCCESS" in promtool("test", "rules", file)


def test_the_files_for_containers_fit_each_other() -> None:
    docker = PROMETHEUS.parent
    compose = yaml.safe_load((docker / "compose.yaml").read_text(encoding="utf-8"))
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    (scrape,) = config["scrape_configs"]
    admins = {
        name: service["environment"]
        for name, service in compose["services"].items()
        if name.startswith("admin-")
    }
    assert sorted(scrape["static_configs"][0]["targets"]) == sorted(
        f"{name}:{settings['TICKWHEEL_METRICS_PORT']}" for name, settings in admins.items()
    )
    (secret,) = compose["services"]["prometheus"]["secrets"]
    assert scrape["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    assert {rule["expr"].count('job="tickwheel"') for rule in rules()} <= {0, 1}
    assert scrape["job_name"] == "tickwheel"

    provisioning = docker / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    board = json.loads((docker / "grafana/dashboards/tickwheel.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    (provider,) = yaml.safe_load((provisioning / "dashboards/tickwheel.yml").read_text())[
        "providers"
    ]
    mounts = compose["services"]["grafana"]["volumes"]
    assert any(f":{provider['options']['path']}:" in mount for mount in mounts)
    assert "sum(tickwheel_installation" not in json.dumps(board)
