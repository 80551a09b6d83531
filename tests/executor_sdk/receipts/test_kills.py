"""Handlers are killed at every statement, in processes of their own: `tests/drill/receipts.py`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.nightly import IS_NIGHT, often

KILLS = often(20, by_night=350)  # on each database: more than 1,000 in a night


@pytest.mark.slow
def test_an_effect_with_a_receipt_is_neither_doubled_nor_lost(database_url: str) -> None:
    program = [sys.executable, "-m", "tests.drill.receipts", database_url]
    flags = ["--kills", str(KILLS), *([] if IS_NIGHT else ["--short"])]
    done = subprocess.run([*program, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    for tally in (report[game] for game in report if game.startswith("receipts")):
        assert tally["kills"] >= KILLS // 2
        assert {tally[what] for what in ("doubled", "lost", "torn", "unreported")} == {0}, report
    # The same kills do harm without.
    assert report["no receipts, delivered again"]["doubled"] > 0, report
    if IS_NIGHT:
        assert report["no receipts, not delivered again"]["lost"] > 0, report
