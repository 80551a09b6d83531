"""What executors report: of which attempt it is, and when it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.xxl_job.bridge import ClientKind, RunFacts
from tickwheel_admin.xxl_job.callbacks import Callbacks, Taken
from tickwheel_admin.xxl_job.dialects import Callback, log_id
from tickwheel_shared.protocol import Receipt, Result, ResultReceipt


class Ledger:
    """One run, whose second attempt runs; and the recorder, which takes its time."""

    def __init__(self) -> None:
        self.taken: list[Result] = []
        self.recorded = asyncio.Event()

    async def facts(self, run_ids: Sequence[int]) -> dict[int, RunFacts]:
        return {
            each: RunFacts(
                run=each,
                executor_id=1,
                job_id=5,
                node_id=7,
                attempt=2,
                token="second",
                state=RunState.RUNNING,
                dispatched_at=2_000,
                started_at=2_001,
                cancel_requested=False,
                cancel_reason=None,
                now=3_000,
            )
            for each in run_ids
        }

    async def older_tokens(self, attempts: Sequence[tuple[int, int]]) -> dict[Any, str]:
        return {(3, 1): "first"}

    async def expect_logs(self, _ended: object) -> None:
        pass

    async def room(self, _session: object) -> None:
        pass

    def receive(self, session: Any, results: Sequence[Result]) -> None:
        self.taken += results

        async def record() -> None:
            await self.recorded.wait()
            session.send(
                [
                    ResultReceipt(
                        run=each.run,
                        attempt=each.attempt,
                        token=each.token,
                        receipt=Receipt.RECORDED,
                    )
                    for each in results
                ]
            )

        self._recording = asyncio.create_task(record())


def report(
    ledger: Any,
    attempt: int,
    *,
    time_ms: int | None = 2_000,
    client: ClientKind = ClientKind.JAVA,
) -> asyncio.Task[Taken]:
    callback = Callback(log_id=log_id(3, attempt, 0), time_ms=time_ms, code=200, message="done")
    callbacks = Callbacks(ledger, ledger, [])  # type: ignore[arg-type]
    return asyncio.create_task(callbacks.take([callback], executors={1}, client=client))


async def test_a_report_is_answered_when_it_is_recorded() -> None:
    ledger = Ledger()
    answered = report(ledger, 2)
    done, _ = await asyncio.wait([answered], timeout=0.05)
    assert not done
    ledger.recorded.set()
    assert (await answered).recorded == 1


@pytest.mark.parametrize(("attempt", "token"), [(2, "second"), (1, "first")])
async def test_a_report_counts_for_the_attempt_that_its_log_id_names(
    attempt: int, token: str
) -> None:
    ledger = Ledger()
    ledger.recorded.set()
    await report(ledger, attempt)
    assert [(each.attempt, each.token) for each in ledger.taken] == [(attempt, token)]


@pytest.mark.parametrize(
    ("client", "time_ms", "recorded"),
    [
        (ClientKind.JAVA, 2_000, 1),
        (ClientKind.JAVA, 1_999, 0),
        (ClientKind.JAVA, None, 1),
        (ClientKind.GO, 1_999, 1),
    ],
)
async def test_a_report_of_another_claim_of_the_same_number_does_not_count(
    client: ClientKind, time_ms: int | None, recorded: int
) -> None:
    ledger = Ledger()
    ledger.recorded.set()
    taken = await report(ledger, 2, time_ms=time_ms, client=client)
    assert (taken.recorded, taken.unknown) == (recorded, 1 - recorded)
