"""What executors report: of which attempt it is, and when it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.xxl_job.bridge import ClientKind, ExpectedLog, RunFacts
from tickwheel_admin.engine.ports import StoredFirst
from tickwheel_admin.xxl_job.attempts import RemoteAttempt, RemoteAttempts, Stage
from tickwheel_admin.xxl_job.callbacks import Callbacks, Taken
from tickwheel_admin.xxl_job.dialects import Callback, log_id
from tickwheel_shared.protocol import ReceiptCode, Result, ResultReceipt
from tickwheel_shared.secret_mask import HIDDEN, SecretMask


class Ledger:
    """One run, whose second attempt runs; and the recorder, which takes its time."""

    def __init__(self) -> None:
        self.taken: list[Result] = []
        self.logs: list[ExpectedLog] = []
        self.asked = 0  # for facts
        self.recorded = asyncio.Event()

    async def facts(self, run_ids: Sequence[int]) -> dict[int, RunFacts]:
        self.asked += 1
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

    async def room(self, _session: object) -> None:
        pass

    def receive(self, session: Any, messages: Sequence[Result | StoredFirst]) -> None:
        results = [each for each in messages if isinstance(each, Result)]
        self.taken += results
        for each in messages:
            if isinstance(each, StoredFirst):
                assert each is messages[0]
                self.logs += each.rows

        async def record() -> None:
            await self.recorded.wait()
            session.send(
                [
                    ResultReceipt(
                        run=each.run,
                        attempt=each.attempt,
                        token=each.token,
                        receipt=ReceiptCode.RECORDED,
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
    nodes: Sequence[Any] = (),
) -> asyncio.Task[Taken]:
    callback = Callback(log_id=log_id(3, attempt, 0), time_ms=time_ms, code=200, message="done")
    callbacks = Callbacks(ledger, ledger, nodes)  # type: ignore[arg-type]
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


def node_with(**other: Any) -> Any:
    """A node of this admin, to which attempt 2 of run 3 was sent."""
    facts = {"handler": "nightly", "stage": Stage.RUNNING, "began_at": 0.0, "known_at": 0.0}
    attempt = RemoteAttempt(
        **{
            "run": 3,
            "attempt": 2,
            "token": "mine",
            "job_id": 5,
            "copy": 0,
            "time_ms": 2_000,
            **facts,
            **other,
        }
    )
    attempts = RemoteAttempts()
    attempts.adopt(attempt)
    return SimpleNamespace(node_id=9, executor_id=1, attempts=attempts)


async def test_of_a_run_that_was_started_here_the_ledger_is_not_asked() -> None:
    ledger = Ledger()
    ledger.recorded.set()
    now = asyncio.get_running_loop().time()
    node = node_with(began_at=now - 0.5, running_at=now - 0.4)
    assert (await report(ledger, 2, nodes=[node])).recorded == 1
    assert (ledger.asked, ledger.taken[0].token) == (0, "mine")
    assert 400 <= ledger.taken[0].duration_ms < 5_000
    assert [(each.run, each.node_id, each.time_ms) for each in ledger.logs] == [(3, 9, 2_000)]
    assert len(node.attempts) == 0
    node = node_with()
    assert (await report(ledger, 2, time_ms=1_999, nodes=[node])).unknown == 1
    assert ledger.asked == 0


async def test_its_secrets_are_hidden_as_in_what_the_ledger_knows() -> None:
    ledger = Ledger()
    ledger.recorded.set()
    node = node_with(mask=SecretMask(["done"]))
    assert (await report(ledger, 2, nodes=[node])).recorded == 1
    [taken] = ledger.taken
    assert b"done" not in msgspec.json.encode(taken)
    assert HIDDEN in msgspec.json.encode(taken).decode()


@pytest.mark.parametrize(
    "node",
    [
        node_with(kill_wanted_at=1.0),  # why is in the ledger
        node_with(handler=""),  # adopted: another admin may have told it to end
        node_with(attempt=1),
        node_with(run=4),
        SimpleNamespace(node_id=9, executor_id=2, attempts=node_with().attempts),
    ],
)
async def test_of_every_other_run_it_is_asked(node: Any) -> None:
    ledger = Ledger()
    ledger.recorded.set()
    await report(ledger, 2, nodes=[node])
    assert (ledger.asked, ledger.taken[0].token) == (1, "second")
