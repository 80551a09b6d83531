"""How far a change of many things has come: each step's form carries it to the next step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from multidict import MultiMapping

from tickwheel_admin.console.frame.units import whole_number

MAX_CODES = 50  # reasons why things were left alone, carried from step to step


def progress_so_far(
    form: MultiMapping[str],
    *,
    key: str,
    done: int,
    skipped: Mapping[str, int],
    cursor: str | None,
) -> dict[str, Any]:
    """What pages tell after a step, and send along with the next one.

    Args:
        form: of this step, with what those before it did.
        key: of the request, the same for all steps.
        done, skipped: by this step.
        cursor: where the next step goes on; None: there is none.
    """
    all_done = done + (whole_number(form.get("done")) or 0)
    all_skipped = _skipped_before(form.get("skipped", "")) + Counter(skipped)
    return {
        "request_key": key,
        "done": all_done,
        "skipped": all_skipped,
        "seen": all_done + all_skipped.total(),
        "total": whole_number(form.get("total")),  # None: nobody counted so far
        "cursor": cursor,
    }


def _skipped_before(text: str) -> Counter[str]:
    """The numbers that the step before sent along; what is none counts nothing."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return Counter()
    pairs = list(found.items())[:MAX_CODES] if isinstance(found, dict) else []
    return Counter({str(code)[:60]: n for code, n in pairs if isinstance(n, int) and n > 0})
