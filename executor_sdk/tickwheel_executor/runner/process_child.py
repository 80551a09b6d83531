"""The main program of a pool process: loads the handlers and runs them one after another.

Handlers run in the main thread, so that a signal can interrupt them. A second thread listens to the
node. It stops the running handler when the node says so, or when the node has been cut off from its
admins. When the node has ended, it kills the process with everything that it started.
"""

from __future__ import annotations

import math
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import nullcontext
from typing import Any

from tickwheel_executor.logs.capture import capture, set_up_logging
from tickwheel_executor.process import pool
from tickwheel_executor.run.context import Stop
from tickwheel_executor.run.outcome import AttemptOutcome
from tickwheel_shared.protocol import Outcome

from .loaded_code import LoadedCode
from .node_connection import Interrupt, NodeConnection
from .process_run import ProcessRun
from .process_wire import (
    LeaseRenewal,
    MessageReader,
    ReadySignal,
    RunAssignment,
    RunEnd,
    Setup,
    StopRun,
    ToProcess,
)

_CUT_OFF = Stop(
    outcome=Outcome.CUT_OFF,
    message="cut off: this process has not heard for too long that an admin answers its node, and "
    "nothing may run beside this run",
    grace_seconds=2.0,
)
_LEAVE_SECONDS = 1.0  # to exit when it is not needed any more
_CHUNK_BYTES = 64 * 1024


class ChildProcess:
    """A process of a node's pool."""

    def __init__(self, connection: socket.socket) -> None:
        pool.enter()
        self._connection = connection
        self._interrupt = Interrupt()
        self._node = NodeConnection(connection, self._interrupt)
        self._reader = MessageReader(ToProcess)
        self._work: queue.SimpleQueue[RunAssignment | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards the following, which both threads use
        self._run: ProcessRun | None = None
        self._stop: Stop | None = None  # received before the run had begun
        self._busy = False
        self._cut_off_at: float | None = None
        self._die_at: float | None = None

    def serve(self) -> None:
        """Run assignments until the node needs this process no more."""
        setup = self._first_message()
        code = LoadedCode(setup)
        traces = None
        if setup.traces_as is not None:
            from tickwheel_executor.tracing.pool_process import PoolProcessTraces

            service, instance = setup.traces_as
            traces = PoolProcessTraces(service=service, instance=instance)
        set_up_logging(setup.log_level)
        capture.begin()
        threading.Thread(target=self._listen, name="tickwheel-listen", daemon=True).start()
        self._node.send(ReadySignal())
        while (work := self._work.get()) is not None:
            run = ProcessRun(work, code, self._node, self._interrupt)
            place = nullcontext() if traces is None else traces.active(work.request)
            with self._lock:
                self._run = run
                if self._stop is not None:
                    run.stop(self._stop)
            with place:
                ended = run.execute()
            with self._lock:
                self._run = self._stop = self._cut_off_at = self._die_at = None
                self._busy = False
            self._node.send(ended)

    def _first_message(self) -> Setup:
        while True:
            data = self._connection.recv(_CHUNK_BYTES)
            if not data:
                sys.exit()  # the node has ended
            for message in self._reader.feed(data):
                assert isinstance(message, Setup)  # noqa: S101 (both ends are this package)
                return message

    # --- the listening thread ---------------------------------------------------------------------

    def _listen(self) -> None:
        try:
            self._receive()
        except BaseException:  # noqa: BLE001 (without this thread the run could never be stopped)
            traceback.print_exc()
            os.killpg(0, signal.SIGKILL)

    def _receive(self) -> None:
        poll = select.poll()  # `select` only takes file numbers below 1,024
        poll.register(self._connection, select.POLLIN)
        while True:
            readable = poll.poll(self._wait_ms())
            with self._lock:
                self._check_deadlines()
            if not readable:
                continue
            data = self._connection.recv(_CHUNK_BYTES)
            if not data:
                self._leave()
            for message in self._reader.feed(data):
                with self._lock:
                    self._take(message)

    def _wait_ms(self) -> int | None:
        with self._lock:
            instants = [at for at in (self._cut_off_at, self._die_at) if at is not None]
        return max(0, math.ceil((min(instants) - time.monotonic()) * 1000)) if instants else None

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if self._die_at is not None and now >= self._die_at:
            text = f"{_CUT_OFF.message}; it was killed {_CUT_OFF.grace_seconds:g} s later"
            outcome = AttemptOutcome(kind=_CUT_OFF.outcome, message=text)
            self._node.send_last(RunEnd(outcome, spent=True))
            os.killpg(0, signal.SIGKILL)
        if self._cut_off_at is not None and now >= self._cut_off_at:
            self._cut_off_at = None
            self._die_at = now + _CUT_OFF.grace_seconds
            self._stop_run(_CUT_OFF)

    def _take(self, message: Any) -> None:
        match message:
            case RunAssignment():
                self._busy, self._cut_off_at = True, message.cut_off_at
                self._work.put(message)
            case LeaseRenewal() if self._cut_off_at is not None:
                self._cut_off_at = message.cut_off_at
            case StopRun() if self._busy:
                self._stop_run(Stop(outcome=message.outcome, message=message.message))

    def _stop_run(self, stop: Stop) -> None:
        if self._run is not None:
            self._run.stop(stop)
        elif self._busy:
            self._stop = stop

    def _leave(self) -> None:
        """The node has ended, or needs this process no more."""
        if not self._busy:
            self._work.put(None)
            time.sleep(_LEAVE_SECONDS)  # by then the process has exited, unless something keeps it
        os.killpg(0, signal.SIGKILL)
