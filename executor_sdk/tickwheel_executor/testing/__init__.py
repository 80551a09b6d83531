"""Test kit: run one handler, one workflow, a whole schedule, or an executor against a fake admin.

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
from .schedule.simulated_run import SimulatedRun
from .simulated_schedule import SimulatedSchedule, simulated_schedule
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
    "SimulatedRun",
    "SimulatedSchedule",
    "StepEnd",
    "StepRun",
    "WorkflowEnd",
    "run_handler",
    "run_workflow",
    "simulated_schedule",
]
