"""What an operator wants of a node while it works: other slots, no new runs."""

from __future__ import annotations

import asyncio

import pytest

from tests.executor_sdk.scripted_admin import ScriptedAdmin, Session, connect, make_node, request
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Run
from tickwheel_shared.protocol import (
    Accepted,
    Drain,
    Draining,
    Goodbye,
    Heartbeat,
    Hello,
    Level,
    Notice,
    Refusal,
    Refused,
    Result,
    SetSlots,
)


class Bench:
    def __init__(self) -> None:
        self.gates: dict[int, asyncio.Event] = {}

    async def work(self, run: Run) -> int:
        await self.gates.setdefault(run.id, asyncio.Event()).wait()
        return run.id

    def let(self, *runs: int) -> None:
        for run in runs:
            self.gates.setdefault(run, asyncio.Event()).set()


async def answers(session: Session, *runs: int) -> list[str]:
    """Send runs; whether each was accepted, else why not."""
    session.send(*(request(run) for run in runs))
    words: list[str] = []
    for run in runs:
        answer = await session.expect(Accepted | Refused)  # type: ignore[arg-type]
        assert answer.run == run
        words.append("accepted" if isinstance(answer, Accepted) else answer.reason.value)
    return words


@virtual_time
async def test_more_slots_count_at_once_and_fewer_let_what_runs_go_on() -> None:
    bench = Bench()
    _, node, session = await connect({"work": bench.work}, slots=2)
    assert await answers(session, 1, 2, 3) == ["accepted", "accepted", "full"]
    session.send(SetSlots(slots=4))
    assert await answers(session, 4, 5, 6) == ["accepted", "accepted", "full"]
    session.send(SetSlots(slots=1))
    await asyncio.sleep(3.5)
    assert session.all(Heartbeat)[-1].in_use == 4  # above the ceiling, until they end
    bench.let(1, 2, 4)
    for _ in range(3):
        await session.expect(Result)
    assert await answers(session, 7) == ["full"]
    bench.let(5)
    await session.expect(Result)
    assert await answers(session, 8, 9) == ["accepted", "full"]
    bench.let(8)
    assert await node.drain(1)


@virtual_time
async def test_the_welcome_says_how_many_slots_an_operator_wants() -> None:
    admin, bench = ScriptedAdmin(), Bench()
    admin.slots = 1
    _, node, session = await connect({"work": bench.work}, slots=2, admin=admin)
    assert session.all(Hello)[0].slots == 2  # always its own configuration
    assert await answers(session, 1, 2) == ["accepted", "full"]
    session.close()
    second = await admin.session(1)
    assert second.all(Hello)[0].slots == 2
    admin.slots = None  # as configured, again
    second.close()
    third = await admin.session(2)
    assert await answers(third, 3, 4) == ["accepted", "full"]
    bench.let(1, 3)
    assert await node.drain(1)


@virtual_time
async def test_slots_out_of_bounds_break_the_protocol() -> None:
    bench = Bench()
    admin, node, session = await connect({"work": bench.work})
    session.send_raw(b'[{"type":"slots","slots":0}]')
    second = await admin.session(1)
    assert (session.channel.closed or (0, ""))[0] == 1008
    assert await answers(second, 1) == ["accepted"]
    bench.let(1)
    await node.drain(1)


@virtual_time
async def test_an_operator_lets_a_node_drain_and_work_again() -> None:
    admins = [ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")]
    bench = Bench()
    node = make_node(*admins, handlers={"work": bench.work})
    await node.start()
    first, second = [await admin.session() for admin in admins]
    assert await answers(first, 1, 2) == ["accepted", "accepted"]
    first.send(Drain(), Drain())
    await asyncio.sleep(0.1)
    assert await answers(second, 3) == ["draining"]  # whichever admin sends it
    bench.let(1)
    assert (await first.expect(Result)).run == 1  # what runs goes on
    first.close()
    again = await admins[0].session(1)
    assert await answers(again, 4) == ["draining"]  # it keeps what it was told
    assert not [m for admin in admins for m in admin.journal if isinstance(m, Draining | Goodbye)]
    second.send(Drain(on=False))
    await asyncio.sleep(0.1)
    assert await answers(again, 5) == ["accepted"]
    again.send(request(4))  # refused once: the admin claims it anew
    assert (await again.expect(Refused)).reason is Refusal.DRAINING
    again.send(request(4, 2))
    assert (await again.expect(Accepted)).attempt == 2
    bench.let(2, 4, 5)
    assert await node.drain(1)


@virtual_time
async def test_a_node_that_goes_away_stays_draining() -> None:
    bench = Bench()
    _, node, session = await connect({"work": bench.work})
    assert await answers(session, 1) == ["accepted"]
    drained = asyncio.create_task(node.drain(30))
    await session.expect(Draining)
    session.send(Drain(on=False), SetSlots(slots=100))
    assert await answers(session, 2) == ["draining"]
    bench.let(1)
    assert await drained


@pytest.mark.parametrize("wanted", [1, 10_000])
def test_the_bounds_of_slots_are_allowed(wanted: int) -> None:
    assert SetSlots(slots=wanted).slots == wanted


@virtual_time
async def test_what_an_admin_has_to_say_goes_to_the_log_of_the_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    _, node, session = await connect({"work": bench.work})
    text = "this machine's clock is 3,600 s ahead"
    session.send(Notice(level=Level.WARNING, text=text))
    assert await answers(session, 1) == ["accepted"]
    told = [record for record in caplog.records if text in record.getMessage()]
    assert [(record.name, record.levelname) for record in told] == [("tickwheel.node", "WARNING")]
    bench.let(1)
    assert await node.drain(1)
