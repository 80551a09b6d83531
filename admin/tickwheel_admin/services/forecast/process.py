"""Forecasts in processes of their own: they compute for seconds."""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.forecast.comparison import ForecastComparison, ForecastRequest
from tickwheel_admin.domain.forecast.night_plan import NightPlan, PlanRequest
from tickwheel_admin.domain.forecast.windows import PlacementRequest
from tickwheel_admin.domain.triggers.placement import WindowPlacement
from tickwheel_admin.services.workers.processes import (
    WorkerFailed,
    WorkerProcesses,
    WorkersClosed,
    WorkerTooSlow,
)

log = structlog.get_logger(__name__)

SECONDS = 30.0  # of one forecast, the start of the process included
# Of one for the engine: a loop without a pass for so long, and the time it rests, is taken for one
# that stands still.
ENGINE_SECONDS = 20.0
_MODULE = "tickwheel_admin.services.forecast.worker"


class ForecastProcesses:
    """Starts one for each request. Used from the event loop's thread only."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        """Allow each forecast so many seconds."""
        self._processes = WorkerProcesses(seconds=seconds)

    async def compare(self, request: ForecastRequest) -> ForecastComparison:
        """What the request asks for; whoever is cancelled leaves no process behind.

        Raises:
            Unavailable: forecast.too_long, or forecast.failed.
        """
        told = await self._answer("compare", request)
        return await asyncio.to_thread(msgspec.json.decode, told, type=ForecastComparison)

    async def plan(self, request: PlanRequest, *, for_engine: bool = False) -> NightPlan:
        """The plan of the next hours; raises as `compare`."""
        seconds = ENGINE_SECONDS if for_engine else None
        told = await self._answer("plan", request, seconds=seconds)
        return await asyncio.to_thread(msgspec.json.decode, told, type=NightPlan)

    async def place(self, request: PlacementRequest) -> dict[int, WindowPlacement]:
        """Where triggers should fire, those that stay left out; raises as `compare` does."""
        told = await self._answer("place", request, seconds=ENGINE_SECONDS)
        return msgspec.json.decode(told, type=dict[int, WindowPlacement])

    async def _answer(
        self, kind: str, request: msgspec.Struct, *, seconds: float | None = None
    ) -> bytes:
        text = await asyncio.to_thread(msgspec.json.encode, request)
        try:
            return await self._processes.ask(_MODULE, kind, text=text, seconds=seconds)
        except WorkerTooSlow:
            allowed = self._processes.seconds if seconds is None else seconds
            log.warning("forecast.took_too_long", seconds=allowed)
            raise Unavailable(
                "forecast.too_long",
                "This forecast takes longer than %(seconds)d s; ask for fewer days.",
                seconds=int(allowed),
            ) from None
        except (WorkerFailed, WorkersClosed) as error:
            if isinstance(error, WorkerFailed):
                log.error("forecast.failed", status=error.status, problem=error.problem)
            raise Unavailable("forecast.failed", "The process that forecasts failed.") from None

    def close(self) -> None:
        """End all of them."""
        self._processes.close()
