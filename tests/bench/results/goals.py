"""The figures that matter most, and what they have to be: the rows of the bench's last table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.bench.results.repeats import flattened


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figure:
    """A row. Its path is within a database's figures; `*` takes the largest of several."""

    label: str
    path: str
    instead: str | None = None  # the path that counts where there is nothing at the other
    why_instead: str | None = None  # the path of a text that says why there is nothing
    must: float | None = None
    aim: float | Mapping[str, float] | None = None  # by kind of database where it differs
    more_is_better: bool = False
    percent: bool = False

    def found(self, figures: Mapping[str, Any]) -> float | None:
        """Its value, or None where it was not measured."""
        before, star, after = self.path.partition("*")
        numbers = flattened(dict(figures))
        if not star:
            other = None if self.instead is None else numbers.get(self.instead)
            return numbers.get(self.path, other)
        fitting = [
            value
            for path, value in numbers.items()
            if path.startswith(before) and path.endswith(after)
        ]
        return max(fitting, default=None)

    def reason(self, figures: Mapping[str, Any]) -> str | None:
        """Why there is nothing at its path, where the figures say so."""
        if self.why_instead is None:
            return None
        found: Any = figures
        for name in self.why_instead.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else None

    def aim_on(self, kind: str) -> float | None:
        """The aim, on a kind of database."""
        return self.aim.get(kind) if isinstance(self.aim, Mapping) else self.aim

    def meets(self, value: float, goal: float) -> bool:
        """Whether a value is as good as a goal."""
        return value >= goal if self.more_is_better else value <= goal


FIGURES = (
    Figure(
        label="no-op runs a second, end to end",
        path="flood.runs_per_second",
        must=5_000,
        aim={"sqlite": 15_000, "mariadb": 10_000, "mariadb+mysqldb": 10_000, "postgresql": 12_000},
        more_is_better=True,
    ),
    Figure(label="  processor µs per run: admin", path="flood.cpu_us_per_run.admin"),
    Figure(label="  both nodes", path="flood.cpu_us_per_run.nodes"),
    Figure(label="  database", path="flood.cpu_us_per_run.database"),
    Figure(
        label="steps of workflows a second",
        path="workflows.steps_per_second",
        must=2_000,
        more_is_better=True,
    ),
    Figure(label="  processor µs per step: admin", path="workflows.cpu_us_per_step.admin"),
    Figure(label="  both nodes", path="workflows.cpu_us_per_step.nodes"),
    Figure(label="  database", path="workflows.cpu_us_per_step.database"),
    Figure(label="chain of 20 steps, ms: p50", path="chain.median_ms", must=600),
    Figure(
        label="times as many as one by one",
        path="one_by_one.ratio",
        must=5,
        aim=10,
        more_is_better=True,
    ),
    Figure(
        label="two admins, times one",
        path="several_admins.held.two.ratio",
        instead="several_admins.free.two.ratio",
        why_instead="several_admins.not_held_because",
        must=1.8,
        more_is_better=True,
    ),
    Figure(
        label="four admins, times one",
        path="several_admins.held.four.ratio",
        must=3.2,
        more_is_better=True,
    ),
    Figure(
        label="  two, until the machine's processors are the limit",
        path="several_admins.free.two.ratio",
    ),
    Figure(label="500 fires/s, ms late: p50", path="steady.started_p50_ms", must=20, aim=10),
    Figure(label="  p99", path="steady.started_p99_ms", must=100, aim=40),
    Figure(label="  max", path="steady.started_max_ms", must=1_000, aim=300),
    Figure(label="  of a core: admin", path="steady.cpu_share.admin", percent=True),
    Figure(label="  database", path="steady.cpu_share.database", percent=True),
    Figure(label="2,000 fires/s, ms late: p50", path="steady_2000.started_p50_ms"),
    Figure(label="  p99", path="steady_2000.started_p99_ms", must=150, aim=50),
    Figure(label="  max", path="steady_2000.started_max_ms"),
    Figure(label="herd, ms until started: p50", path="herd.started_p50_ms"),
    Figure(label="  the last", path="herd.last_started_ms", must=4_000, aim=1_500),
    Figure(
        label="  runs a second, fire to result", path="herd.runs_per_second", more_is_better=True
    ),
    Figure(label="overdue: s until planned", path="overdue.planned_seconds"),
    Figure(label="  s until run", path="overdue.ran_seconds"),
    Figure(label="  ms late meanwhile: p99", path="overdue.on_time_started_p99_ms"),
    Figure(label="  MiB of the admin", path="overdue.peak_mebibytes"),
    Figure(
        label="log lines a second",
        path="log_lines.lines_per_second",
        must=50_000,
        aim=150_000,
        more_is_better=True,
    ),
    Figure(label="XXL-JOB executors, no-op runs a second", path="xxl_flood.runs_per_second",
           must=1_500, more_is_better=True),
    Figure(label="  with their logs", path="xxl_flood.with_logs_runs_per_second",
           more_is_better=True),
    Figure(label="  processor µs per run: admin", path="xxl_flood.cpu_us_per_run.admin"),
    Figure(label="  database", path="xxl_flood.cpu_us_per_run.database"),
    Figure(label="  200 fires/s, ms late: p99", path="xxl_steady.started_p99_ms", must=150),
    Figure(label="  … alone: p99", path="xxl_hang.alone_p99_ms"),
    Figure(label="  … beside one that hangs: p99", path="xxl_hang.beside_p99_ms", must=150),
    Figure(label="idle, of a core: admin", path="idle.cpu_share.admin", must=0.05, aim=0.02,
           percent=True),
    Figure(label="  MiB of the admin", path="idle.mebibytes", must=250, aim=150),
    Figure(label="start with 100,000 jobs, s to the first run", path="start.first_fire_seconds",
           aim=5),
    Figure(label="  until it answers", path="start.answers_seconds"),
    Figure(label="/metrics, ms of the event loop: p50", path="scrape.blocked_p50_ms", must=50,
           aim=20),
    Figure(label="  ms of a processor for a scrape", path="scrape.cpu_ms", must=50),
    Figure(label="  µs to count a run", path="scrape.counted_us_per_run", must=5),
    Figure(label="crowd, of a core: admin", path="crowd.cpu_share.admin", must=0.7, percent=True),
    Figure(label="  nodes declared dead", path="crowd.deaths", must=0),
    Figure(label="what-if, 2,000 jobs for 7 days, s: p50", path="what_if.p50_seconds", aim=5),
    Figure(label="  p95", path="what_if.p95_seconds"),
    Figure(label="  processor s", path="what_if.cpu_seconds"),
    Figure(label="  ms that the admin's loop waits: p99", path="what_if.waits_p99_ms"),
    Figure(label="run cost beside most old runs", path="growth_old_runs.*.cost_ratio",
           must=1.2, aim=1.05),
    Figure(label="  most idle triggers", path="growth_triggers.*.cost_ratio"),
    Figure(label="  over most nodes", path="growth_nodes.*.cost_ratio"),
)  # fmt: skip

CONSOLE = Figure(label="console, slowest page's p95, ms", path="*.p95_ms", must=150, aim=60)
