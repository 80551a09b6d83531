"""Child jobs: which end of a run asks for which other job, and with what parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from tickwheel_admin.domain.runs.run import FAILURES, RunState

MAX_CHILDREN = 20  # links of one job
MAX_DEPTH = 20  # jobs in a row, from the first parent to the last child


class ChildOn(StrEnum):
    """After which end of its parent a child runs."""

    SUCCESS = "success"
    FAILURE = "failure"  # failed, timed out or lost, after the last try
    ALWAYS = "always"  # these two; never after a cancel or a skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLink:
    """One job that runs after another one."""

    job_id: int
    on: ChildOn = ChildOn.SUCCESS


def follows(link: ChildLink, state: RunState) -> bool:
    """Whether the child runs after a run that ended so."""
    succeeded, failed = state is RunState.SUCCEEDED, state in FAILURES
    match link.on:
        case ChildOn.SUCCESS:
            return succeeded
        case ChildOn.FAILURE:
            return failed
        case ChildOn.ALWAYS:
            return succeeded or failed


def request_key_of(parent_run_id: int) -> str:
    """The key that makes a child of a run exist once."""
    return f"child-of:{parent_run_id}"


def parameters_of_child(own: str, result: str | None) -> str:
    """The child's own parameters, overlaid with its parent's result.

    The keys of a result that is an object replace those of the child; any other result stands
    under the key `result`. Both texts are JSON.
    """
    if result is None or result == "null":
        return own
    merged = msgspec.json.decode(own, type=dict[str, msgspec.Raw])
    # Values are passed on as they were written: a number may be larger than any that we can hold.
    if result.lstrip().startswith("{"):
        merged.update(msgspec.json.decode(result, type=dict[str, msgspec.Raw]))
    else:
        merged["result"] = msgspec.Raw(result.encode())
    return msgspec.json.encode(merged).decode()
