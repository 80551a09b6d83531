"""Measure schedules, and lateness and runs per second on each database: python -m tests.bench."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench.bed import KINDS, NODES, SERVERS, SLOTS, Bed, made
from tests.bench.console import console_figures
from tests.bench.flood import Flood, flood
from tests.bench.herd import Herd, Overdue, herd, overdue
from tests.bench.node import NodeFigures, node_figures
from tests.bench.schedules import Schedules, schedules
from tests.bench.steady import Steady, steady

ROOT = Path(__file__).parents[2]
REPEATS = 3
FIRES_PER_SECOND = 500


def main() -> int:
    arguments = _parse()
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        del os.environ[name]  # a developer's own settings are not to be measured
    results: dict[str, Any] = {}
    if arguments.node:
        return _only_node(quick=arguments.quick)
    if arguments.console:
        return _only_console(quick=arguments.quick)
    cron = schedules()
    _print_schedules(cron)
    for kind in () if arguments.schedules else arguments.database or KINDS:
        if kind in SERVERS and not SERVERS[kind].is_installed():
            print(f"{kind}: not installed, not measured", flush=True)
            continue
        load = os.getloadavg()[0]
        with made(kind) as bed:
            results[kind] = {
                "load_before": round(load, 2),
                **_measure(bed, runs=arguments.runs, quick=arguments.quick),
            }
    report = {
        "machine": _machine(),
        "settings": _settings(arguments),
        "schedules": asdict(cron),
        "databases": results,
    }
    if not arguments.schedules:
        one = node_figures(quick=arguments.quick)
        _print_node(one)
        report["node"] = asdict(one)
        report["console"] = console_figures(repeats=5 if arguments.quick else 20)
    (ROOT / "bench.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0 if results or arguments.schedules else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--database", action="append", choices=KINDS, help="default: all three")
    parser.add_argument("--runs", type=int, help="queued runs in a flood (default 20,000)")
    parser.add_argument("--schedules", action="store_true", help="only schedules, no database")
    parser.add_argument("--node", action="store_true", help="only one node, no database")
    parser.add_argument("--console", action="store_true", help="only the console's pages")
    parser.add_argument("--quick", action="store_true", help="a rough look in a minute")
    arguments = parser.parse_args()
    arguments.runs = arguments.runs or (5_000 if arguments.quick else 20_000)
    return arguments


def _only_node(*, quick: bool) -> int:
    one = node_figures(quick=quick)
    _print_node(one)
    report = {"machine": _machine(), "node": asdict(one)}
    (ROOT / "bench.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _only_console(*, quick: bool) -> int:
    report = {"machine": _machine(), "console": console_figures(repeats=5 if quick else 20)}
    (ROOT / "bench.json").write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _measure(bed: Bed, *, runs: int, quick: bool) -> dict[str, Any]:
    job_id = bed.cluster.add_job("noop", "noop")
    flood(bed, job_id=job_id, runs=1_000)  # warms caches and connections
    floods = [flood(bed, job_id=job_id, runs=runs) for _ in range(1 if quick else REPEATS)]
    for each in floods:
        _print_flood(bed.kind, each)
    even = steady(bed, fires_per_second=FIRES_PER_SECOND, seconds=5 if quick else 20)
    _print_steady(bed.kind, even)
    many = herd(bed, triggers=1_000 if quick else 10_000)
    _print_herd(bed.kind, many)
    late = overdue(bed, triggers=5_000 if quick else 100_000)
    _print_overdue(bed.kind, late)
    return {
        "flood_runs_per_second": round(statistics.median(f.runs_per_second for f in floods)),
        "flood_runs_per_second_all": [round(f.runs_per_second) for f in floods],
        "flood_cpu_us_per_run": {
            name: round(statistics.median(f.cpu_seconds[name] / f.runs for f in floods) * 1e6)
            for name in floods[0].cpu_seconds
        },
        "steady": asdict(even),
        "herd": asdict(many),
        "overdue": asdict(late),
    }


def _print_schedules(result: Schedules) -> None:
    ratios = "; ".join(
        f"{name} takes {result.first_ratio[name]} times as long for a first fire,"
        f" {result.next_ratio[name]} times for a next one"
        for name in result.next_ratio
    )
    print(
        f"schedules   parse and first fire {result.first_us} µs"
        f" ({result.first_new_fields_us} with new fields), next {result.next_us} µs"
        f" (slowest {result.slowest_next_us}), last {result.last_us} µs,"
        f" {result.nexts_per_second:,} nexts/s mixed\n"
        f"            {ratios}\n"
        f"            slowest of the broken texts {result.worst_text_ms} ms: {result.worst_text!r}",
        flush=True,
    )


def _print_flood(kind: str, result: Flood) -> None:
    cpu = ", ".join(
        f"{name} {seconds / result.runs * 1e6:.0f}" for name, seconds in result.cpu_seconds.items()
    )
    print(
        f"{kind:<11} flood   {result.runs_per_second:>7,.0f} runs/s"
        f"   {result.runs:,} runs in {result.seconds:.1f} s; processor µs per run: {cpu}",
        flush=True,
    )


def _print_steady(kind: str, result: Steady) -> None:
    cpu = ", ".join(f"{name} {share:.0%}" for name, share in result.cpu_share.items())
    print(
        f"{kind:<11} steady  {result.fires_per_second:>7,} fires/s  started p50"
        f" {result.started_p50} p99 {result.started_p99} max {result.started_max} ms late,"
        f" dispatched p50 {result.dispatched_p50} p99 {result.dispatched_p99};"
        f" of a core: {cpu}",
        flush=True,
    )


def _print_herd(kind: str, result: Herd) -> None:
    print(
        f"{kind:<11} herd    {result.triggers:>7,} at once  started p50 {result.started_p50},"
        f" the last {result.last_started} ms late; admin {result.peak_mebibytes} MiB at most",
        flush=True,
    )


def _print_overdue(kind: str, result: Overdue) -> None:
    print(
        f"{kind:<11} overdue {result.triggers:>7,} triggers  planned in {result.planned_seconds} s,"
        f" run in {result.ran_seconds} s; those on time started p99 {result.on_time_started_p99}"
        f" max {result.on_time_started_max} ms late; admin {result.peak_mebibytes} MiB at most",
        flush=True,
    )


def _print_node(result: NodeFigures) -> None:
    rates = ", ".join(f"{kind} {rate:,}" for kind, rate in result.runs_per_second.items())
    cpu = ", ".join(f"{kind} {micros}" for kind, micros in result.cpu_us_per_run.items())
    print(
        f"node        runs/s of handlers: {rates}; processor µs per run: {cpu}\n"
        f"            frame to handler p50 {result.frame_to_handler_p50_us} p99"
        f" {result.frame_to_handler_p99_us} µs; from the admin's process p50"
        f" {result.request_to_handler_p50_us}, to the result {result.request_to_result_p50_us} µs;"
        f" {result.idle_mebibytes} MiB, afterwards {result.busy_mebibytes}\n"
        f"            import {result.imports.milliseconds} ms and {result.imports.mebibytes} MiB"
        f" on top of aiohttp's {result.imports.bare_mebibytes}",
        flush=True,
    )


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        ).stdout.strip(),
    }  # fmt: skip


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "nodes": NODES,
        "slots_per_node": SLOTS,
        "runs": arguments.runs,
        "quick": arguments.quick,
    }


if __name__ == "__main__":
    sys.exit(main())
