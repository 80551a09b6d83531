"""The same done to many runs: one by one, each in its own transaction, in bounded steps."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.errors import InvalidInput, UserError
from tickwheel_admin.services.requests import MAX_KEY_CHARS

MAX_IDS = 1_000
STEP = 100  # runs of one step through all that match a filter


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """What became of many runs."""

    runs: list[int]  # those that were cancelled, or the new ones that retry others
    skipped: Mapping[str, int]  # how many were left alone, by the code of the reason
    next: str | None = None  # cursor of the next step; None: this was the last one

    @property
    def done(self) -> int:
        """How many were not skipped."""
        return len(self.runs)


def check_ids(run_ids: Iterable[int]) -> list[int]:
    """The ids, each once.

    Raises:
        InvalidInput: none, or more than 1,000.
    """
    ids = list(dict.fromkeys(run_ids))
    if not 1 <= len(ids) <= MAX_IDS:
        raise InvalidInput.one(
            "runs", "out_of_range", "Name 1 to %(limit)s runs at once.", limit=f"{MAX_IDS:,}"
        )
    return ids


def key_for(request_key: str, run_id: int) -> str:
    """The key of one retry among many: the same request gives each run the same one again."""
    key = f"{request_key}:{run_id}"
    if len(key) <= MAX_KEY_CHARS:
        return key
    return f"{hashlib.sha256(request_key.encode()).hexdigest()}:{run_id}"


async def one_by_one(
    run_ids: Sequence[int], work: Callable[[int], Awaitable[int]], *, behind: str | None = None
) -> Bulk:
    """Do the work for every run; what refuses one does not stop the others.

    Args:
        work: returns the id of the run that it changed or made.
        behind: cursor of the step after this one.
    """
    done: list[int] = []
    skipped: Counter[str] = Counter()
    for run_id in run_ids:
        try:
            done.append(await work(run_id))
        except UserError as error:
            codes = [p.code for p in error.problems] if isinstance(error, InvalidInput) else []
            skipped[codes[0] if codes else error.code] += 1
    return Bulk(runs=done, skipped=dict(skipped), next=behind)
