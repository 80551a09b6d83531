"""The attempts in flight on a node: each from the start of its handler until its result is safe.

`begin` starts the handler of an attempt that `RunAdmission` let in. `stop`, a timeout or the lease
guard ends it early. `_ended` builds the result and submits it to ResultDelivery, which calls
`release` when the result is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET, structs

from tickwheel_executor.attempt_key import Key
from tickwheel_executor.errors import Fail
from tickwheel_executor.handlers.decoding import decode
from tickwheel_executor.handlers.handlers import Handler, Handlers
from tickwheel_executor.link.link import Link
from tickwheel_executor.link.links import AdminLinks
from tickwheel_executor.logs.shipper import LogShipper
from tickwheel_executor.run.context import Run, RunInput, Stop
from tickwheel_executor.run.log import RunLog
from tickwheel_executor.run.outcome import AttemptOutcome, Completion, outcome_of
from tickwheel_executor.runner import Execution
from tickwheel_executor.runner.async_runner import AsyncRunner
from tickwheel_executor.runner.thread_runner import ThreadRunner
from tickwheel_executor.spool.delivery import ResultDelivery
from tickwheel_shared.protocol import Outcome, Progress, RunKey, RunRequest
from tickwheel_shared.secret_mask import mask_of

from .attempt import InFlightAttempt
from .checkpoints import Checkpoints
from .counts import AttemptCounts
from .lease_guard import LeaseGuard
from .progress import ProgressReporter
from .slots import Slots

if TYPE_CHECKING:
    from tickwheel_executor.runner.process_runner import ProcessRunner
    from tickwheel_executor.tracing.spans import AttemptTracer

CUT_OFF_GRACE_SECONDS = 2.0  # well within the rest of the lease


class InFlightAttempts:
    """Starts attempts, ends them and gives their slots back. Made on the running loop."""

    def __init__(
        self,
        *,
        links: AdminLinks,
        delivery: ResultDelivery,
        shipper: LogShipper,
        slots: Slots,
        context: Context,
        clock: Callable[[], int],
        on_change: Callable[[], None],
        on_progress: Callable[[Progress], None] | None = None,
        tracer: AttemptTracer | None = None,
        counts: AttemptCounts,
    ) -> None:
        self._tracer = tracer
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._delivery = delivery
        self._shipper = shipper
        self._slots = slots
        self._clock = clock
        self._on_change = on_change  # an attempt has left
        self._listener = on_progress  # of the test kit: gets every report, from any thread
        self._progress = ProgressReporter(links, context=context)
        self._checkpoints = Checkpoints(links, context=context, is_running=self._is_running)
        self._async_runner = AsyncRunner(shipper)
        self._thread_runner = ThreadRunner(self._loop)
        self._process_runner: ProcessRunner | None = None
        self._lease_guard = LeaseGuard(links, self._stop_cut_off)
        self._links = links
        self._by_key: dict[Key, InFlightAttempt] = {}

    def __iter__(self) -> Iterator[InFlightAttempt]:
        return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, key: Key) -> InFlightAttempt | None:
        """The attempt with this key, of any claim."""
        return self._by_key.get(key)

    def names(self) -> list[RunKey]:
        """The attempts in flight, for an admin."""
        return [
            RunKey(run=run, attempt=number, token=attempt.request.token)
            for (run, number), attempt in self._by_key.items()
        ]

    def welcomed(self) -> None:
        """An admin has sent the length of the lease."""
        self._lease_guard.aim()
        self.acknowledged()

    def acknowledged(self) -> None:
        """The lease was renewed; handlers in processes watch the time themselves."""
        if self._process_runner is not None:
            self._process_runner.renew_lease(self._links.cut_off_at)

    def opened(self, link: Link) -> None:
        """A socket has opened: checkpoints may be sent."""
        self._checkpoints.opened()

    def closed(self, link: Link) -> None:
        """What was sent on this socket last may not have arrived."""
        self._checkpoints.closed(link)

    # --- beginning --------------------------------------------------------------------------------

    def warm_up(
        self, handlers: Handlers, *, title: str, traces_as: tuple[str, str] | None = None
    ) -> None:
        """Start a process in advance if there are handlers with isolation.

        Args:
            traces_as: names of service and instance in traces; None: this node does not trace.
        """
        if handlers.pickled is not None:
            from tickwheel_executor.runner.process_runner import ProcessRunner

            self._process_runner = ProcessRunner(
                handlers, self._loop, title=title, traces_as=traces_as
            )
            self._process_runner.warm_up()

    def begin(self, link: Link, request: RunRequest, handler: Handler) -> None:
        """Start the handler of an attempt that has a slot and came on this link."""
        log = RunLog(
            self._shipper,
            link,
            run=request.run,
            attempt=request.attempt,
            token=request.token,
            mask=mask_of(request),
        )
        report = partial(self._on_progress, link, request)
        problem = None
        try:
            run_input = decode(request, handler.signature)
        except (Fail, ValueError) as error:
            run_input, problem = RunInput(), error
        if request.timeout_ms is not None:
            run_input.deadline_at = self._clock() + request.timeout_ms
        save = partial(self._checkpoints.save, request, link)
        span = None if self._tracer is None else self._tracer.begin(request)
        trace = None if span is None else span.context
        run = Run(request, run_input, log=log, report=report, save=save, trace=trace)
        attempt = InFlightAttempt(request, link, run, handler, span=span)
        self._by_key[attempt.key] = attempt
        self._counts.started += 1
        if problem is not None:
            outcome = outcome_of(run, Completion(error=problem))
            self._loop.call_soon(self._ended, attempt, outcome)  # after "accepted"
            return
        if span is None:
            attempt.execution = self._execute(attempt, handler)
        else:
            with span.active():
                attempt.execution = self._execute(attempt, handler)
        if request.timeout_ms is not None:
            attempt.timer = self._loop.call_later(
                request.timeout_ms / 1000, self._timed_out, attempt
            )

    def _execute(self, attempt: InFlightAttempt, handler: Handler) -> Execution:
        on_end = partial(self._ended, attempt)
        if handler.in_process and self._process_runner is not None:
            return self._execute_in_process(attempt, handler, self._process_runner)
        if not handler.is_async:
            return self._thread_runner.start(handler, attempt.run, on_end)
        if not attempt.request.stop_when_cut_off:
            return self._async_runner.start(handler, attempt.run, on_end)
        self._lease_guard.watch(attempt)
        must_stop = partial(self._lease_guard.must_stop, attempt)
        return self._async_runner.start(handler, attempt.run, on_end, must_stop=must_stop)

    def _execute_in_process(
        self, attempt: InFlightAttempt, handler: Handler, runner: ProcessRunner
    ) -> Execution:
        cut_off_at = None
        if attempt.request.stop_when_cut_off:
            self._lease_guard.watch(attempt)
            cut_off_at = self._links.cut_off_at
        request = attempt.request
        if attempt.span is not None and (trace := attempt.span.context) is not None:
            request = structs.replace(
                request, traceparent=trace.traceparent, tracestate=trace.state or UNSET
            )
        return runner.start(
            handler, attempt.run, request, partial(self._ended, attempt), cut_off_at=cut_off_at
        )

    def _on_progress(self, link: Link, request: RunRequest, fraction: float, text: str) -> None:
        progress = Progress(
            run=request.run,
            attempt=request.attempt,
            token=request.token,
            fraction=fraction,
            text=text,
        )
        if self._listener is not None:
            self._listener(progress)
        self._progress.report(progress, link)

    # --- ending -----------------------------------------------------------------------------------

    def stop(self, attempt: InFlightAttempt, stop: Stop) -> None:
        """Make the handler end, unless it was told to before."""
        attempt.request_stop(stop)
        self._shipper.hurry(attempt.run.log)

    def _timed_out(self, attempt: InFlightAttempt) -> None:
        seconds = (attempt.request.timeout_ms or 0) / 1000
        self.stop(
            attempt, Stop(outcome=Outcome.TIMED_OUT, message=f"timed out after {seconds:g} s")
        )

    def _stop_cut_off(self, attempt: InFlightAttempt) -> None:
        attempt.mark_lost()
        if attempt.stop is not None:
            attempt.stop_again()  # it is still cleaning up, and the time for that is over
            return
        text = (
            f"cut off: no admin has answered for {self._links.cut_off_seconds:g} s, and nothing "
            "may run beside this run, so it was stopped before it can be started elsewhere"
        )
        stop = Stop(outcome=Outcome.CUT_OFF, message=text, grace_seconds=CUT_OFF_GRACE_SECONDS)
        self.stop(attempt, stop)

    def _ended(self, attempt: InFlightAttempt, outcome: AttemptOutcome) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._lease_guard.forget(attempt)
        attempt.finished = True
        checkpoint = self._checkpoints.end(attempt.key)
        self._progress.close(attempt.key)
        log_lines = self._shipper.close(attempt.run.log)
        result = attempt.make_result(outcome, checkpoint=checkpoint, log_lines=log_lines)
        self._counts.ended[result.outcome] += 1
        self._counts.seconds += result.duration_ms / 1000
        if attempt.span is not None:
            attempt.span.end(result)
        self._delivery.submit(result, attempt.link)

    def _is_running(self, key: Key) -> bool:
        attempt = self._by_key.get(key)
        return attempt is not None and not attempt.finished

    def release(self, key: Key) -> None:
        """The result is safe: give the slot back."""
        if self._by_key.pop(key, None) is not None:
            self._slots.give_back()
            self._on_change()

    def abandon(self) -> None:
        """The node has ended: cancel what can be cancelled, report nothing."""
        self._lease_guard.close()
        for attempt in self._by_key.values():
            if attempt.timer is not None:
                attempt.timer.cancel()
            if attempt.execution is not None:
                attempt.execution.abandon()
        if self._process_runner is not None:
            self._process_runner.close()
