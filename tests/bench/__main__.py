"""Measure Tickwheel on this machine, as real processes over real databases.

    python -m tests.bench [--quick | --full] [--database KIND] [--only NAME[,NAME]] [--list]

Writes bench.json, compares it with the result before, and asserts nothing about speed. Exit code 1:
something could not be measured; 130: it was interrupted, and bench.json has what there was.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

from tests.bench.amounts import Measurement
from tests.bench.arguments import Size, read
from tests.bench.measurements import MEASUREMENTS
from tests.bench.results.comparison import changes, differences
from tests.bench.results.report import RESULT, Report, read_result
from tests.bench.results.tables import compared, markdown, summary
from tests.bench.session import measure, planned
from tests.bench.testbed.machine import machine

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    asked = read(sys.argv[1:] if argv is None else argv, names=[each.name for each in MEASUREMENTS])
    if asked.lists:
        print(_list())
        return 0
    if asked.show is not None:
        result = read_result(asked.show) or {}
        judged = result.get("settings", {}).get("size") != Size.QUICK
        print(summary(result, judged=judged, form=markdown))
        return 0
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        del os.environ[name]  # a developer's own settings are not to be measured
    signal.signal(signal.SIGTERM, _interrupt)  # servers and admins must not be left behind
    earlier = read_result(asked.compare or RESULT)
    report = Report(machine(), asked)
    interrupted = False
    try:
        measure(planned(MEASUREMENTS, asked.kinds, asked.size, asked.only), asked.size, report)
    except KeyboardInterrupt:
        interrupted = True
        print("\nInterrupted; what was measured until then is in bench.json.", file=sys.stderr)
    else:
        report.finish()
    _print_tables(report, earlier, judged=asked.size is not Size.QUICK)
    if interrupted:
        return INTERRUPTED
    return 1 if report.problems or report.is_empty else 0


def _list() -> str:
    lines = [f"{each.name:<18}{each.what}{_condition(each)}" for each in MEASUREMENTS]
    return "\n".join(lines)


def _condition(measurement: Measurement) -> str:
    if measurement.least is Size.QUICK:
        return ""
    return " (with --full)" if measurement.least is Size.FULL else " (not with --quick)"


def _print_tables(report: Report, earlier: Mapping[str, Any] | None, *, judged: bool) -> None:
    print()
    now = report.as_json()
    if table := summary(now, judged=judged):
        print(f"{table}\n")
    if earlier is not None:
        print(compared(changes(earlier, now), list(differences(earlier, now))))
    for name, problem in report.problems.items():
        print(f"Not measured: {name}: {problem}")


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(f"signal {number}")


if __name__ == "__main__":
    sys.exit(main())
