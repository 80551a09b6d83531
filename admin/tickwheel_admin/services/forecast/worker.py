"""The process that forecasts; see `process`. It answers one request, and ends."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tickwheel_admin.domain.forecast.comparison import answer
from tickwheel_admin.domain.forecast.night_plan import answer_plan
from tickwheel_admin.domain.forecast.windows import answer_placements

MAX_MEMORY_BYTES = 1024**3  # of addresses; what is in use is far less
MAX_CPU_SECONDS = 60  # should nobody be there to end it
NICE = 10  # the admin comes first


def side_by_side(works: Sequence[Callable[[], Any]]) -> Sequence[Any]:
    """Half of the forecasts in a child: a machine with two cores needs half the time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as there:
            pickle.dump([work() for work in works[1::2]], there)
        os._exit(0)
    os.close(writing)
    ours = [work() for work in works[::2]]
    with os.fdopen(reading, "rb") as here:
        theirs = pickle.load(here)  # noqa: S301 - written by our own child
    os.waitpid(child, 0)
    theirs.append(None)  # there may be one less
    return [each for pair in zip(ours, theirs, strict=False) for each in pair][: len(works)]


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    os.nice(NICE)
    asked = sys.stdin.buffer.read()
    if sys.argv[1:] == ["plan"]:
        made = answer_plan(asked, do=side_by_side)
    elif sys.argv[1:] == ["place"]:
        made = answer_placements(asked)
    else:
        gc.disable()  # it ends before that would pay
        made = answer(asked, do=side_by_side)
    sys.stdout.buffer.write(made)


if __name__ == "__main__":
    main()
