"""The bench's own arithmetic and files: medians, comparison, tables, what survives a failure."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.bench.amounts import Amount, Measurement, Where
from tests.bench.arguments import Asked, Size, read
from tests.bench.measurements import MEASUREMENTS
from tests.bench.progress import Progress, in_words, time_left
from tests.bench.results.comparison import Direction, changes, differences
from tests.bench.results.goals import FIGURES, Figure
from tests.bench.results.repeats import as_figures, flattened, medians
from tests.bench.results.report import Report, read_result
from tests.bench.results.tables import aligned, compared, markdown, summary, told
from tests.bench.session import measure, planned
from tests.bench.testbed.machine import Machine, busy_share, fsync_ms
from tests.bench.testbed.measure import cpu_us_per_run, percentile

MACHINE = Machine(
    processor="some",
    cores=2,
    memory_mebibytes=8_000,
    python="3.11.7",
    system="Linux",
    fsync_ms=0.2,
    busy_before=0.01,
    at="2026-11-22T06:00:00Z",
    commit="abc",
)
ASKED = Asked(size=Size.USUAL, kinds=("sqlite",), only=(), lists=False, compare=None, show=None)
NAMES = [each.name for each in MEASUREMENTS]


def made_report(directory: Path) -> Report:
    return Report(
        MACHINE, ASKED, result=directory / "bench.json", previous=directory / "bench.previous.json"
    )


def measurement(name: str, found: Any, **fields: Any) -> Measurement:
    """One that gives the next of some figures each time, or raises it."""
    rest = iter(found)

    def give(*_: Any, **arguments: Any) -> Any:
        figures = next(rest)
        if isinstance(figures, BaseException):
            raise figures
        return figures | arguments

    amount = Amount(1, {}, repeats=len(found))
    given: dict[str, Any] = {"where": Where.MACHINE} | fields
    return Measurement(
        name=name, what="it", measure=give, quick=amount, usual=amount, full=amount, **given
    )


def _step(cost: int, ratio: float) -> dict[str, Any]:
    """One size of growth."""
    cpu = {"admin": cost, "nodes": 1_000, "database": 10}
    return {"cpu_us_per_run": cpu, "cost_ratio": ratio}


# --- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50), (0.95, 95), (0.99, 99), (0.999, 100), (1.0, 100), (0, 1)]
)
def test_a_percentile_is_a_value_that_occurred(share: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == expected


def test_percentiles_of_few_values() -> None:
    assert percentile([7], 0.5) == percentile([7], 0.99) == 7
    assert percentile([1, 9], 0.5) == 1
    assert percentile([1, 9], 0.51) == 9


def test_the_machine_is_looked_at(tmp_path: Path) -> None:
    assert 0 <= busy_share(0.05) <= 1
    assert fsync_ms(tmp_path) > 0


def test_processor_time_is_told_per_run() -> None:
    assert cpu_us_per_run({"admin": 1.0}, {"admin": 1.5}, 5_000) == {"admin": 100}


def test_medians_keep_every_repeat_and_whole_numbers() -> None:
    repeats = [
        {"rate": 10, "share": 0.5, "cpu": {"admin": 3}, "text": "a", "is_it": True},
        {"rate": 30, "share": 0.1, "cpu": {"admin": 1}, "text": "b", "is_it": True},
        {"rate": 20, "share": 0.2, "cpu": {"admin": 2}, "text": "c", "is_it": False},
    ]
    assert medians(repeats) == {
        "rate": 20,
        "share": 0.2,
        "cpu": {"admin": 2},
        "text": "c",
        "is_it": False,
        "all": repeats,
    }
    assert medians(repeats[:1]) == repeats[0]
    assert medians([{"rate": 1}, {"rate": 4}])["rate"] == 2


def test_every_number_has_a_path_and_repeats_have_none() -> None:
    figures = as_figures(
        {"a": {"b": 1, "text": "no", "c_all": [1, 2]}, "all": [{"a": 2}], "d": 2.5}
    )
    assert flattened(figures) == {"a.b": 1, "d": 2.5}
    assert as_figures(MACHINE)["cores"] == 2


# --- comparison ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "before", "now", "direction"),
    [
        ("databases.mariadb.flood.runs_per_second", 1_000, 1_200, Direction.BETTER),
        ("databases.mariadb.flood.runs_per_second", 1_200, 1_000, Direction.WORSE),
        ("databases.mariadb.flood.runs_per_second", 1_000, 1_090, Direction.SAME),
        ("databases.mariadb.flood.cpu_us_per_run.admin", 100, 120, Direction.WORSE),
        ("databases.mariadb.steady.started_p99_ms", 100, 50, Direction.BETTER),
        ("databases.mariadb.steady.cpu_share.database", 0.1, 0.2, Direction.WORSE),
        ("databases.mariadb.growth_nodes.100.cost_ratio", 1.0, 1.5, Direction.WORSE),
        ("databases.mariadb.growth_nodes.100.rate_ratio", 1.0, 1.5, Direction.BETTER),
        ("databases.mariadb.idle.asked_per_second.statements", 10, 20, Direction.WORSE),
        ("databases.mariadb.crowd.deaths", 0, 0, Direction.SAME),
        ("databases.mariadb.crowd.deaths", 0, 3, Direction.WORSE),
        ("databases.mariadb.log_lines.lines_per_second", 1, 2, Direction.BETTER),
        ("console.admin.jobs; a page.far on.p95_ms", 10, 5, Direction.BETTER),
        ("node.imports.milliseconds", 10, 5, Direction.BETTER),
        ("schedules.next_ratio.croniter", 60, 30, Direction.WORSE),
    ],
)
def test_a_figure_goes_one_way_or_is_noise(
    name: str, before: float, now: float, direction: Direction
) -> None:
    def result(value: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        within = found
        *folders, last = name.split(".")
        for folder in folders:
            within = within.setdefault(folder, {})
        within[last] = value
        return found

    (change,) = changes(result(before), result(now))
    assert (change.name, change.direction) == (name, direction)


def test_what_was_given_or_is_new_or_of_the_machine_is_not_compared() -> None:
    before = {"machine": {"fsync_ms": 1}, "databases": {"sqlite": {"steady": {"fires": 10}}}}
    now = {
        "machine": {"fsync_ms": 9},
        "databases": {
            "sqlite": {"steady": {"fires": 20, "fires_per_second": 500, "started_p50_ms": 1}}
        },
    }
    assert changes(before, now) == []


def test_another_machine_size_or_disk_and_other_work_are_named() -> None:
    before = {
        "machine": {"cores": 2, "fsync_ms": 0.2, "busy_before": 0.01},
        "settings": {"size": "usual"},
    }
    now = {
        "machine": {"cores": 4, "fsync_ms": 8.0, "busy_before": 0.6},
        "settings": {"size": "quick"},
    }
    assert list(differences(before, now)) == [
        "machine.cores was 2, is 4",
        "settings.size was usual, is quick",
        "an fsync took 0.2 ms, takes 8.0 ms",
        "other work used 60% of the cores just before this one began",
    ]
    assert list(differences(before, before)) == []


def test_results_with_nothing_in_common() -> None:
    assert "none of these figures" in compared(changes({"a_ms": 1}, {"b_ms": 1}), ["other"])


def test_worse_figures_come_first_and_noise_is_only_counted() -> None:
    before = {"flood": {"runs_per_second": 100, "a_ms": 10, "b_ms": 10}}
    now = {"flood": {"runs_per_second": 200, "a_ms": 20, "b_ms": 10}}
    lines = compared(changes(before, now), ["machine.cores was 2, is 4"]).splitlines()
    assert lines == [
        "Beside the earlier result: 3 figures are in both.",
        "They say little about each other:",
        "  machine.cores was 2, is 4",
        "                       before  now  ratio",
        "flood.a_ms                 10   20   2.00   worse",
        "flood.runs_per_second     100  200   2.00  better",
        "1 are the same but for noise (10 %).",
    ]


# --- tables --------------------------------------------------------------------------------------


def test_columns_are_aligned() -> None:
    assert aligned([["", "a", "bb"], ["long", "1"], ["x", "22", "3"]]) == (
        "       a  bb\nlong   1\nx     22   3"
    )


def test_goals_are_met_aimed_for_or_missed() -> None:
    figures: dict[str, dict[str, Any]] = {
        kind: {
            "flood": {"runs_per_second": rate},
            "growth_old_runs": {"0": _step(90, 1.0), "100": _step(99, 1.1)},
        }
        for kind, rate in (("sqlite", 4_999), ("mariadb", 5_000), ("postgresql", 12_000))
    }
    table = summary({"databases": figures}, judged=True).splitlines()
    assert table[0].split() == ["must", "aim", "sqlite", "mariadb", "postgresql"]
    assert table[1].startswith("no-op runs a second, end to end")
    assert table[1].endswith("4,999 ✗  5,000 ✓   12,000 ✓✓")
    assert "15,000 / 10,000 / 12,000" in table[1]
    assert table[2].split()[-8:] == ["1.2", "1.05", *["1.1", "✓"] * 3]
    in_markdown = summary({"databases": figures}, judged=True, form=markdown).splitlines()
    assert in_markdown[1] == "|---|---|---|---|---|---|"
    assert in_markdown[2].endswith("| 4,999 ✗ | 5,000 ✓ | 12,000 ✓✓ |")
    assert "✓" not in summary({"databases": figures}, judged=False)
    assert summary({}, judged=True) == ""


def test_the_slowest_page_of_the_console_counts() -> None:
    console = {"admin": {"jobs": {"p95_ms": 70.0}, "runs": {"p95_ms": 151.0, "p50_ms": 999}}}
    assert summary({"console": console}, judged=True).splitlines()[0] == (
        "console, slowest page's p95, ms: 151 ✗ (must 150, aim 60)"
    )
    assert summary({"console": console}, judged=False) == "console, slowest page's p95, ms: 151"


def test_all_figures_of_a_measurement_are_told() -> None:
    figures = {"rate": 12_345, "cpu": {"admin": 0.1234}, "a": {"b": {"c": 1}}, "all": [1]}
    assert told("mariadb", "flood", figures) == (
        "mariadb         flood           rate 12,345, cpu: admin 0.1234, a b: c 1"
    )


def test_sizes_of_growth_have_a_line_each() -> None:
    step = {"rate": 1, "cpu": {"admin": 2}}
    assert told("mariadb", "growth_nodes", {"1": step, "10": step}) == (
        "mariadb         growth_nodes    1: rate 1, cpu: admin 2\n"
        "                                10: rate 1, cpu: admin 2"
    )


def test_growth_is_told_by_what_grew_and_its_size() -> None:
    databases = {
        "sqlite": {"growth_old_runs": {"0": _step(90, 1.0), "1000000": _step(100, 1.1)}},
        "mariadb": {"growth_old_runs": {"0": _step(50, 1.0)}},
    }
    table = summary({"databases": databases}, judged=True).splitlines()
    assert [line.split() for line in table[-4:-1]] == [
        ["a", "run", "costs,", "beside", "sqlite", "mariadb"],
        ["0", "old", "runs", "100", "µs,", "1.00", "×", "60", "µs,", "1.00", "×"],
        ["1,000,000", "old", "runs", "110", "µs,", "1.10", "×"],
    ]


def test_goals_name_figures_that_there_are() -> None:
    """A renamed figure would silently fall out of the table."""
    names = {figure.path.partition(".")[0] for figure in FIGURES}
    assert names <= set(NAMES)


def test_a_goal_of_one_database_is_not_that_of_another() -> None:
    figure = Figure(label="", path="", aim={"sqlite": 1.0})
    assert (figure.aim_on("sqlite"), figure.aim_on("mariadb")) == (1.0, None)


# --- the course of a bench -----------------------------------------------------------------------


def test_one_failure_loses_no_other_figure(tmp_path: Path, capsys: Any) -> None:
    report = made_report(tmp_path)
    found = [
        measurement("good", [{"a_ms": 1}, {"a_ms": 3}, {"a_ms": 2}]),
        measurement("bad", [ValueError("it broke\nin two")]),
        measurement("late", [{"b_ms": 1}]),
    ]
    measure(planned(found, (), Size.USUAL, ()), Size.USUAL, report)
    report.finish()

    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["problems"] == {"bad": "ValueError: it broke"}
    assert (written["good"]["a_ms"], written["late"]["b_ms"]) == (2, 1)
    assert not written["complete"]
    assert "it broke" in capsys.readouterr().err


def test_an_interrupted_bench_keeps_what_it_has(tmp_path: Path) -> None:
    report = made_report(tmp_path)
    found = [measurement("good", [{"a_ms": 1}]), measurement("stopped", [KeyboardInterrupt()])]
    with pytest.raises(KeyboardInterrupt):
        measure(planned(found, (), Size.USUAL, ()), Size.USUAL, report)

    written = read_result(tmp_path / "bench.json")
    assert written is not None
    assert written["good"] == {"a_ms": 1}
    assert not written["complete"]


def test_the_result_before_is_kept_once_there_is_another(tmp_path: Path) -> None:
    first = made_report(tmp_path)
    first.add(None, "flood", {"rate": 1})
    empty = made_report(tmp_path)
    empty.problem("flood", "it broke")
    empty.finish()
    assert not (tmp_path / "bench.previous.json").exists()

    second = made_report(tmp_path)
    second.add("sqlite", "flood", {"rate": 2})
    second.add("sqlite", "herd", {"rate": 3})
    second.finish()
    previous, now = (read_result(tmp_path / f"bench{kind}.json") for kind in (".previous", ""))
    assert previous is not None
    assert now is not None
    assert previous["flood"] == {"rate": 1}
    assert now["databases"] == {"sqlite": {"flood": {"rate": 2}, "herd": {"rate": 3}}}
    assert now["complete"]


def test_a_broken_result_is_none(tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text("{")
    assert read_result(tmp_path / "bench.json") is None
    assert read_result(tmp_path / "none.json") is None


def test_databases_come_one_after_the_other_and_each_gets_what_fits_it() -> None:
    found = [
        measurement("alone", [{}]),
        measurement("flood", [{}], where=Where.BED),
        measurement("pair", [{}], where=Where.DATABASE, not_on=("sqlite",), least=Size.FULL),
    ]

    def names(size: Size, only: tuple[str, ...] = ()) -> list[str]:
        return [step.name for step in planned(found, ("sqlite", "mariadb"), size, only)]

    assert names(Size.USUAL) == ["sqlite.flood", "mariadb.flood", "alone"]
    assert names(Size.FULL) == ["sqlite.flood", "mariadb.flood", "mariadb.pair", "alone"]
    assert names(Size.QUICK, ("pair",)) == ["mariadb.pair"]


def test_the_command_line() -> None:
    asked = read(["--only", "flood, herd", "--database", "mariadb", "--quick"], names=NAMES)
    assert (asked.only, asked.kinds, asked.size) == (("flood", "herd"), ("mariadb",), Size.QUICK)
    assert read([], names=NAMES).kinds == ("sqlite", "mariadb", "postgresql")
    assert read(["--full"], names=NAMES).size is Size.FULL


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--only", "floot"], "no floot; there are schedules, flood"),
        (["--compare", "none.json"], "there is no file none.json"),
        (["--quick", "--full"], "not allowed with"),
        (["--database", "oracle"], "invalid choice"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    argv: list[str], complaint: str, capsys: Any
) -> None:
    with pytest.raises(SystemExit):
        read(argv, names=NAMES)
    assert complaint in capsys.readouterr().err


def test_time_left_follows_the_pace_so_far() -> None:
    assert time_left([10, 20, 30], 0, 0) == 60
    assert time_left([10, 20, 30], 1, 20) == 100
    assert time_left([10, 20, 30], 3, 20) == 0
    assert [in_words(s) for s in (10, 60, 125, 7_200)] == [
        "less than a minute", "about 1 min", "about 2 min", "about 2.0 hours"
    ]  # fmt: skip


def test_progress_shows_only_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        progress = Progress([60, 60], stream)
        progress.step("mariadb.flood")
        progress.done()
    assert "[1/2] mariadb.flood, about 2 min left" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[K")
    assert file.getvalue() == ""


def test_the_readme_names_every_measurement_and_what_it_reports() -> None:
    readme = Path(__file__).with_name("README.md").read_text()
    assert [name for name in NAMES if not re.search(rf"`{name}\b", readme)] == []
