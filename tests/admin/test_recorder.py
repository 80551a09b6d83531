"""What waits to be recorded is bounded, in messages and in text."""

from __future__ import annotations

from unittest.mock import patch

from tests.admin.engine_kit import Admin, add_job, ask
from tickwheel_admin.engine import recorder
from tickwheel_admin.store.database import Database
from tickwheel_shared.protocol import Level, LogChunk, LogLine, LogReceipt


async def test_sockets_are_not_read_while_too_much_text_waits(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    await ask(database, await add_job(database))
    [request] = await admin.dispatch_all(node)

    def chunk(seq: int) -> LogChunk:
        line = LogLine(at=1, level=Level.INFO, text="x" * 60)
        return LogChunk(
            run=request.run,
            attempt=request.attempt,
            token=request.token,
            first_seq=seq,
            lines=[line],
        )

    engine = admin.engine.recorder
    with (
        patch.object(recorder, "MAX_WAITING_TEXT", 300),
        patch.object(recorder, "TEXT_PER_BATCH", 50),
    ):
        engine.receive(node, [chunk(1)])
        assert engine.has_room
        engine.receive(node, [chunk(2)])
        assert not engine.has_room

        assert await engine.run_once()  # one of them: more than a batch shall take
        assert engine.has_room
        assert engine.backlog == 1
        assert not await engine.run_once()

    assert [m.first_seq for m in node.sent if isinstance(m, LogReceipt)] == [1, 2]
