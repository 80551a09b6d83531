"""The process that computes a matrix of delays; see `process`. It answers one request, and ends."""

from __future__ import annotations

import gc
import os
import resource
import sys

from tickwheel_admin.domain.delays.matrix import answer

MAX_MEMORY_BYTES = 1024**3  # of addresses; what is in use is less
MAX_CPU_SECONDS = 60  # should nobody be there to end it
NICE = 10  # the admin comes first


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    os.nice(NICE)
    gc.disable()  # it ends before that would pay
    sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
