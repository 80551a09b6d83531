"""Everything that the bench can measure, in the order in which it does."""

from __future__ import annotations

from typing import Any

from tests.bench.amounts import Amount, Measurement, Where
from tests.bench.arguments import Size
from tests.bench.peers.figures import peer_figures
from tests.bench.scenarios.agent import agent_figures
from tests.bench.scenarios.console import console_figures
from tests.bench.scenarios.crowd import crowd
from tests.bench.scenarios.flood import alarms_flood, flood
from tests.bench.scenarios.forecast.what_if import what_if
from tests.bench.scenarios.growth import (
    growth_of_nodes,
    growth_of_old_runs,
    growth_of_triggers,
    steady_on_nodes,
)
from tests.bench.scenarios.herd import herd, overdue
from tests.bench.scenarios.idle import idle
from tests.bench.scenarios.log_lines import log_lines
from tests.bench.scenarios.maintenance.retention import retention
from tests.bench.scenarios.maintenance.self_audit import self_audit
from tests.bench.scenarios.metrics.scrape import scrape
from tests.bench.scenarios.node import node_figures
from tests.bench.scenarios.one_by_one import one_by_one
from tests.bench.scenarios.schedules import schedules
from tests.bench.scenarios.several_admins import several_admins
from tests.bench.scenarios.start.first_fire import start
from tests.bench.scenarios.steady import steady
from tests.bench.scenarios.workflows import chain, workflows
from tests.bench.scenarios.xxl import xxl_flood, xxl_hang, xxl_steady
from tests.bench.testbed.bed import MYSQLCLIENT, Bed

MILLION = 1_000_000


def _flood(bed: Bed, *, runs: int) -> dict[str, Any]:
    told = flood(bed, job_id=bed.noop_job, runs=runs)
    return {
        "runs": told.runs,
        "runs_per_second": round(told.runs_per_second),
        "cpu_us_per_run": told.cpu_us_per_run,
    }


def _console(*, repeats: int, full: bool) -> dict[str, Any]:
    """By who reads and by page."""
    names = {"p50": "p50_ms", "p95": "p95_ms", "max": "max_ms", "together_p95": "together_p95_ms"}
    return {
        person: {page["page"]: {names[key]: page[key] for key in names} for page in pages}
        for person, pages in console_figures(repeats=repeats, full=full).items()
    }


def _peers(kind: str, *, runs: int, quick: bool) -> dict[str, Any]:
    """By peer and scenario."""
    found: dict[str, Any] = {}
    for each in peer_figures(kind, runs=runs, quick=quick):
        scenario = f"{each.scenario}_{each.schedules}"
        found.setdefault(each.peer, {})[scenario] = {
            "about": each.about,
            "not_measured": each.not_measured,
            "missed": each.missed,
            "duplicates": each.duplicates,
            "runs_per_second": each.runs_per_second,
            "late_p50_ms": each.late_p50,
            "late_p99_ms": each.late_p99,
            "late_max_ms": each.late_max,
            "cpu_us_per_run": each.cpu_us_per_run,
        }
    return found


_SCRAPED = {"executors": 300, "nodes": 1_000, "waiting": 20_000}

MEASUREMENTS = (
    Measurement(
        name="schedules",
        what="cron, beside croniter and cronsim",
        where=Where.MACHINE,
        measure=schedules,
        quick=Amount(10, {}),
        usual=Amount(10, {}),
        full=Amount(10, {}),
    ),
    Measurement(
        name="flood",
        what="queued runs due at one instant: runs per second, processor time per run",
        where=Where.BED,
        measure=_flood,
        quick=Amount(4, {"runs": 5_000}),
        usual=Amount(7, {"runs": 20_000}, repeats=5),
        full=Amount(15, {"runs": 50_000}, repeats=5),
    ),
    Measurement(
        name="alarms_flood",
        what="floods whose runs all fail, and floods beside rules about late and slow runs",
        where=Where.BED,
        measure=alarms_flood,
        quick=Amount(30, {"runs": 5_000}),
        usual=Amount(40, {"runs": 20_000}, repeats=3),
        full=Amount(80, {"runs": 50_000}, repeats=5),
        least=Size.USUAL,
    ),
    Measurement(
        name="workflows",
        what="graphs of 10 steps due at one instant: steps per second, processor time per step",
        where=Where.BED,
        measure=workflows,
        quick=Amount(10, {"runs": 300}),
        usual=Amount(15, {"runs": 2_000}, repeats=3),
        full=Amount(30, {"runs": 5_000}, repeats=5),
    ),
    Measurement(
        name="chain",
        what="a workflow of 20 steps, each after the one before: how long it takes",
        where=Where.BED,
        measure=chain,
        quick=Amount(15, {"steps": 20, "repeats": 5}),
        usual=Amount(20, {"steps": 20, "repeats": 20}),
        full=Amount(40, {"steps": 20, "repeats": 50}),
    ),
    Measurement(
        name="steady",
        what="500 fires a second: lateness",
        where=Where.BED,
        measure=steady,
        quick=Amount(10, {"fires_per_second": 500, "seconds": 5}),
        usual=Amount(26, {"fires_per_second": 500, "seconds": 20}),
        full=Amount(610, {"fires_per_second": 500, "seconds": 600}),
    ),
    Measurement(
        name="steady_2000",
        what="2,000 fires a second: lateness",
        where=Where.BED,
        measure=steady,
        quick=Amount(15, {"fires_per_second": 2_000, "seconds": 5}),
        usual=Amount(30, {"fires_per_second": 2_000, "seconds": 20}),
        full=Amount(130, {"fires_per_second": 2_000, "seconds": 120}),
    ),
    Measurement(
        name="steady_nodes",
        what="200 fires a second over 1,000 simulated nodes: lateness",
        where=Where.DATABASE,
        measure=steady_on_nodes,
        quick=Amount(15, {"nodes": 100, "slots": 4, "fires_per_second": 200, "seconds": 5}),
        usual=Amount(40, {"nodes": 1_000, "slots": 4, "fires_per_second": 200, "seconds": 20}),
        full=Amount(140, {"nodes": 1_000, "slots": 4, "fires_per_second": 200, "seconds": 120}),
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="herd",
        what="triggers due at one instant: from the fire to the stored result",
        where=Where.BED,
        measure=herd,
        quick=Amount(7, {"triggers": 1_000}),
        usual=Amount(10, {"triggers": 10_000}, repeats=3),
        full=Amount(10, {"triggers": 10_000}, repeats=5),
    ),
    Measurement(
        name="overdue",
        what="triggers an hour late, beside 50 fires a second on time",
        where=Where.BED,
        measure=overdue,
        quick=Amount(7, {"triggers": 5_000}),
        usual=Amount(45, {"triggers": 100_000}),
        full=Amount(45, {"triggers": 100_000}),
    ),
    Measurement(
        name="several_admins",
        what="floods over 20 executors of one, two and four admins, held to a share of a core each",
        where=Where.DATABASE,
        measure=several_admins,
        quick=Amount(120, {"runs": 4_000, "repeats": 1}),
        usual=Amount(300, {"runs": 10_000, "repeats": 3}),
        full=Amount(600, {"runs": 20_000, "repeats": 5}),
        not_on=("sqlite",),
    ),
    Measurement(
        name="one_by_one",
        what="the product beside an admin that does each run alone, by POSTs",
        where=Where.DATABASE,
        measure=one_by_one,
        quick=Amount(25, {"runs": 1_000, "repeats": 1}),
        usual=Amount(70, {"runs": 5_000, "repeats": 3}),
        full=Amount(110, {"runs": 5_000, "repeats": 5}),
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="log_lines",
        what="lines that handlers log as fast as they are let",
        where=Where.DATABASE,
        measure=log_lines,
        quick=Amount(12, {"lines": 100_000}),
        usual=Amount(20, {"lines": 400_000}, repeats=3),
        full=Amount(40, {"lines": 2_000_000}, repeats=3),
    ),
    Measurement(
        name="xxl_flood",
        what="queued runs of executors of XXL-JOB: runs per second, with and without their logs",
        where=Where.DATABASE,
        measure=xxl_flood,
        quick=Amount(25, {"runs": 2_000, "repeats": 1}),
        usual=Amount(60, {"runs": 10_000, "repeats": 3}),
        full=Amount(90, {"runs": 10_000, "repeats": 5}),
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="xxl_steady",
        what="200 fires a second for executors of XXL-JOB: lateness",
        where=Where.DATABASE,
        measure=xxl_steady,
        quick=Amount(25, {"fires_per_second": 200, "seconds": 5}),
        usual=Amount(40, {"fires_per_second": 200, "seconds": 20}),
        full=Amount(80, {"fires_per_second": 200, "seconds": 60}),
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="xxl_hang",
        what="the same, without and with another executor that hangs, and 10,000 runs for it",
        where=Where.DATABASE,
        measure=xxl_hang,
        quick=Amount(35, {"fires_per_second": 200, "seconds": 5, "waiting": 2_000}),
        usual=Amount(75, {"fires_per_second": 200, "seconds": 20, "waiting": 10_000}),
        full=Amount(155, {"fires_per_second": 200, "seconds": 60, "waiting": 10_000}),
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="idle",
        what="an admin with 100,000 idle triggers and 1,000 idle nodes",
        where=Where.DATABASE,
        measure=idle,
        quick=Amount(40, {"triggers": 10_000, "nodes": 100, "seconds": 10}),
        usual=Amount(60, {"triggers": 100_000, "nodes": 1_000, "seconds": 20}),
        full=Amount(110, {"triggers": 100_000, "nodes": 1_000, "seconds": 60}),
        least=Size.USUAL,
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="start",
        what="an admin with 100,000 jobs: seconds from its start to the first run",
        where=Where.DATABASE,
        measure=start,
        quick=Amount(30, {"jobs": 10_000}),
        usual=Amount(45, {"jobs": 100_000}, repeats=3),
        full=Amount(45, {"jobs": 100_000}, repeats=5),
        least=Size.USUAL,
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="self_audit",
        what="auditing one hour of the ledger, and how long other work waits beside it",
        where=Where.DATABASE,
        measure=self_audit,
        quick=Amount(20, {"triggers": 2_000, "fires": 6}),
        usual=Amount(60, {"triggers": 10_000, "fires": 6}),
        full=Amount(120, {"triggers": 100_000, "fires": 1}),
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="retention",
        what="deleting old runs, and how late 500 fires a second are beside it (not with --quick)",
        where=Where.DATABASE,
        measure=retention,
        quick=Amount(60, {"runs": 150_000, "fires_per_second": 500, "seconds": 5}),
        usual=Amount(150, {"runs": 400_000, "fires_per_second": 500, "seconds": 20}),
        full=Amount(1_500, {"runs": 10 * MILLION, "fires_per_second": 500, "seconds": 120}),
        least=Size.USUAL,
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="scrape",
        what="/metrics of 300 executors, 1,000 nodes and 20,000 waiting runs",
        where=Where.DATABASE,
        measure=scrape,
        quick=Amount(8, _SCRAPED | {"scrapes": 10}),
        usual=Amount(12, _SCRAPED | {"scrapes": 50}),
        full=Amount(20, _SCRAPED | {"scrapes": 200}),
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="crowd",
        what="10,000 simulated nodes at one admin, also when it is killed",
        where=Where.DATABASE,
        measure=crowd,
        quick=Amount(80, {"nodes": 500, "seconds": 10}),
        usual=Amount(160, {"nodes": 10_000, "seconds": 20}),
        full=Amount(200, {"nodes": 10_000, "seconds": 60}),
        least=Size.FULL,
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="what_if",
        what="a forecast of 2,000 jobs over 7 days: seconds, and what the admin feels of it",
        where=Where.MACHINE,
        measure=what_if,
        quick=Amount(5, {"jobs": 200, "hours": 168, "asked": 3}),
        usual=Amount(30, {"jobs": 2_000, "hours": 168, "asked": 5}),
        full=Amount(100, {"jobs": 2_000, "hours": 168, "asked": 20}),
    ),
    Measurement(
        name="growth_old_runs",
        what="floods beside ever more runs that have ended",
        where=Where.DATABASE,
        measure=growth_of_old_runs,
        quick=Amount(60, {"sizes": (0, 100_000), "runs": 5_000, "repeats": 1}),
        usual=Amount(200, {"sizes": (0, 100_000, MILLION), "runs": 20_000, "repeats": 3}),
        full=Amount(900, {"sizes": (0, MILLION, 10 * MILLION), "runs": 20_000, "repeats": 5}),
        least=Size.FULL,
    ),
    Measurement(
        name="growth_triggers",
        what="floods beside ever more idle triggers",
        where=Where.DATABASE,
        measure=growth_of_triggers,
        quick=Amount(40, {"sizes": (1_000, 10_000), "runs": 5_000, "repeats": 1}),
        usual=Amount(150, {"sizes": (1_000, 10_000, 100_000), "runs": 20_000, "repeats": 3}),
        full=Amount(230, {"sizes": (1_000, 10_000, 100_000), "runs": 20_000, "repeats": 5}),
        least=Size.FULL,
    ),
    Measurement(
        name="growth_nodes",
        what="floods spread over ever more simulated nodes",
        where=Where.DATABASE,
        measure=growth_of_nodes,
        quick=Amount(40, {"sizes": (1, 10), "runs": 5_000, "repeats": 1}),
        usual=Amount(220, {"sizes": (1, 10, 100, 1_000), "runs": 20_000, "repeats": 3}),
        full=Amount(330, {"sizes": (1, 10, 100, 1_000), "runs": 20_000, "repeats": 5}),
        least=Size.FULL,
    ),
    Measurement(
        name="peers",
        what="other schedulers beside Tickwheel, as far as their work is comparable",
        where=Where.DATABASE,
        measure=_peers,
        quick=Amount(160, {"runs": 500, "quick": True}),
        usual=Amount(400, {"runs": 10_000, "quick": False}),
        full=Amount(400, {"runs": 10_000, "quick": False}),
        least=Size.FULL,
        not_on=(MYSQLCLIENT,),
    ),
    Measurement(
        name="node",
        what="one node process against an admin that costs little",
        where=Where.MACHINE,
        measure=node_figures,
        quick=Amount(20, {"quick": True}),
        usual=Amount(50, {"quick": False}),
        full=Amount(50, {"quick": False}),
    ),
    Measurement(
        name="agent",
        what="tickwheel-agent against the same admin: commands a second, and one that writes a GB",
        where=Where.MACHINE,
        measure=agent_figures,
        quick=Amount(15, {"quick": True}),
        usual=Amount(40, {"quick": False}),
        full=Amount(40, {"quick": False}),
    ),
    Measurement(
        name="console",
        what="every page of the console: milliseconds; with --full over 10 million runs",
        where=Where.MACHINE,
        measure=_console,
        quick=Amount(40, {"repeats": 5, "full": False}),
        usual=Amount(60, {"repeats": 20, "full": False}),
        full=Amount(900, {"repeats": 20, "full": True}),
    ),
)


def by_name() -> dict[str, Measurement]:
    """All of them."""
    return {each.name: each for each in MEASUREMENTS}
