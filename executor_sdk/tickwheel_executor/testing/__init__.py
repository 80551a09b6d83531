"""Test kit: run one handler, one workflow, or a whole executor against a fake admin.

async def test_invoices_are_sent() -> None:
    end = await run_handler(send_invoices, parameters={"month": "2026-03"})
    assert (end.outcome, end.result) == ("succeeded", {"sent": 100})
"""

from .dispatcher import ConnectedNode
from .fake_admin import FakeAdmin, FakeRun
from .handler_end import HandlerEnd, LoggedLine, ReportedProgress, RunRefusedError
from .one_run import run_handler
from .one_workflow import run_workflow
from .pending import Pending
from .workflow_end import StepEnd, StepRun, WorkflowEnd

__all__ = [
    "ConnectedNode",
    "FakeAdmin",
    "FakeRun",
    "HandlerEnd",
    "LoggedLine",
    "Pending",
    "ReportedProgress",
    "RunRefusedError",
    "StepEnd",
    "StepRun",
    "WorkflowEnd",
    "run_handler",
    "run_workflow",
]
