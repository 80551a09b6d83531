"""Test kit: run one handler (`run_handler`), or a whole executor against a fake admin.

async def test_invoices_are_sent() -> None:
    end = await run_handler(send_invoices, parameters={"month": "2026-03"})
    assert (end.outcome, end.result) == ("succeeded", {"sent": 100})
"""

from .dispatcher import ConnectedNode
from .fake_admin import FakeAdmin, FakeRun
from .handler_end import HandlerEnd, LoggedLine, ReportedProgress, RunRefusedError
from .one_run import run_handler
from .pending import Pending

__all__ = [
    "ConnectedNode",
    "FakeAdmin",
    "FakeRun",
    "HandlerEnd",
    "LoggedLine",
    "Pending",
    "ReportedProgress",
    "RunRefusedError",
    "run_handler",
]
