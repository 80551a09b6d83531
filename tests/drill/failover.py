"""The primary of a replicated database dies under load, and another server takes over."""

from __future__ import annotations

import time

from tests.drill.bed import Bed
from tests.drill.measure import late, takeover
from tests.drill.report import Outcome
from tests.drill.stories import all_running

DETECTED_SECONDS = 3.0  # what a watchdog such as Patroni takes at its shortest settings


def killed_primary(bed: Bed) -> Outcome:
    """`kill -9` of the primary under 200 fires a second.

    Every commit that anybody was told of is on the server that takes over, so no fire may be lost
    and no attempt started twice, whatever the admins were doing at that instant.
    """
    outcome = Outcome(database=bed.kind, drill="killed primary")
    all_running(bed)
    fires = bed.fires(
        f"killed primary {time.monotonic_ns()}", jobs=20, per_second=10, longest_seconds=0.2
    )
    time.sleep(6)
    at = time.time()
    bed.kill_primary()
    time.sleep(DETECTED_SECONDS)
    bed.fail_over()
    outcome.figures["database_away"] = time.time() - at
    time.sleep(8)
    settled = bed.settle(fires)
    outcome.problems += settled.problems
    outcome.runs = len(settled.ledger.runs)
    outcome.figures["late"] = late(settled, since=at)
    outcome.figures["without_fires"] = takeover(settled, since=at)
    return outcome
