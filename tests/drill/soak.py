"""Press an admin with everything for long, and see whether its memory comes back.

    python -m tests.drill.soak --minutes 60

It warms up first, with the same load, because caches, threads and templates are to be kept. Exits
with 1 when the admin ends with more than 1.3 times the memory it had then, answered with a 500, or
logged an error that nobody thought of.
"""

from __future__ import annotations

import argparse
import ast
import sys
import time

from tests.drill.pressed import Pressed, pressed
from tests.drill.pressure import ALL

GROWTH = 1.3
WARM_UP_SECONDS = 120.0
SPELL_SECONDS = 60.0
REST_SECONDS = 15.0  # until sockets are closed and what was sent is recorded
LAST_REST_SECONDS = 75.0  # idle processes and connections have ended by then


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drill.soak")
    parser.add_argument("--minutes", type=float, default=60, help="of load (default 60)")
    parser.add_argument("--database", default="sqlite", choices=("sqlite", "mariadb", "postgresql"))
    parser.add_argument("kinds", nargs="*", default=list(ALL), help="default: everything")
    asked = parser.parse_args()
    with pressed(asked.database) as bed:
        return _soak(bed, asked.kinds or list(ALL), seconds=asked.minutes * 60)


def _soak(bed: Pressed, kinds: list[str], *, seconds: float) -> int:
    problems: list[str] = []
    cold = bed.memory_mib()
    _spell(bed, kinds, WARM_UP_SECONDS, problems)
    time.sleep(LAST_REST_SECONDS)
    begun, first = time.monotonic(), bed.memory_mib()
    print(f"cold {cold:.0f} MiB, warm {first:.0f} MiB", flush=True)
    while (left := begun + seconds - time.monotonic()) > 0:
        _spell(bed, kinds, min(SPELL_SECONDS, left), problems)
        time.sleep(REST_SECONDS)
        minutes = (time.monotonic() - begun) / 60
        print(f"{minutes:5.1f} min  {bed.memory_mib():4.0f} MiB", flush=True)
    time.sleep(LAST_REST_SECONDS)
    last = bed.memory_mib()
    print(f"ends with {last:.0f} MiB, {last / first:.2f} times what it had warm", flush=True)
    if last > first * GROWTH:
        problems.append(f"grew from {first:.0f} to {last:.0f} MiB")
    if "Traceback" in bed.admin.process.output():
        problems.append(f"a Traceback in {bed.admin.process.log}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _spell(bed: Pressed, kinds: list[str], seconds: float, problems: list[str]) -> None:
    pressing = bed.press(kinds, seconds)
    most = 0.0
    while pressing.poll() is None:
        time.sleep(1)
        most = max(most, bed.memory_mib())
    said = pressing.communicate()[0].strip()
    print(f"           {most:4.0f} MiB at most  {said[-300:]}", flush=True)
    answers = ast.literal_eval(said.splitlines()[-1]) if said.startswith("{") else {}
    if failed := {status: n for status, n in answers.items() if status == "500"}:
        problems.append(f"answers of {failed}")


if __name__ == "__main__":
    sys.exit(main())
