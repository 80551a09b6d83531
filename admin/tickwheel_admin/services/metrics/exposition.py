"""The page `/metrics`: everything that was counted and read, in the format of Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client import exposition as text_format
from prometheus_client.openmetrics import exposition as open_metrics

from tickwheel_admin.services.metrics.families import families, named_executors
from tickwheel_admin.services.metrics.figures import AdminFigures
from tickwheel_admin.services.metrics.installation import InstallationReader
from tickwheel_admin.services.metrics.meter import Meter
from tickwheel_admin.services.metrics.text import SeriesText
from tickwheel_admin.store.database.database import Store

Rendered = tuple[bytes, str]  # the page, and its media type

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_END = b"# EOF\n"  # of OpenMetrics


class MetricsPage:
    """Renders the page; scrapes that come at the same time get the same one."""

    def __init__(
        self,
        store: Store,
        meter: Meter,
        here: Callable[[], AdminFigures],
        *,
        max_executors: int,
        jobs: Sequence[tuple[str, str]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read from this store.

        Args:
            here: what this admin tells of itself; called in the event loop.
            max_executors: so many have series of their own, all others one together.
            jobs: executor and name of jobs that have series of their own.
            clock: seconds, for what is kept.
        """
        self._meter = meter
        self._here = here
        self._max_executors = max_executors
        self._installation = InstallationReader(store, jobs=jobs, clock=clock)
        # Executors and jobs that have series of their own, as they were known last.
        self._names: dict[int, str] = {}
        self._jobs: Collection[int] = ()
        self._text = SeriesText()
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        self._rendering: dict[str, asyncio.Task[bytes]] = {}  # by media type

    async def render(self, accept: str = "") -> Rendered:
        """The page in the format that `accept`, the header of the request, asks for."""
        # Not by the library: it trusts versions that anybody writes there.
        media_type = OPEN_METRICS if "application/openmetrics-text" in accept else TEXT
        task = self._rendering.get(media_type)
        if task is None:
            task = asyncio.create_task(self._render(media_type), name="metrics")
            self._rendering[media_type] = task
            task.add_done_callback(lambda _: self._rendering.pop(media_type, None))
        return await asyncio.shield(task), media_type

    async def _render(self, media_type: str) -> bytes:
        found = await self._installation.read()
        if found is not None:
            self._names = named_executors(found, self._max_executors)
            self._jobs = found.jobs.keys()
        here, names, jobs = self._here(), self._names, self._jobs

        def write() -> bytes:
            totals = self._meter.read(executors=names, jobs=jobs)
            series = families(here, totals, found, names)
            if media_type == OPEN_METRICS:
                process: bytes = open_metrics.generate_latest(self._process)  # type: ignore[no-untyped-call]
                own = self._text.write(series, open_metrics=True)
                return process.removesuffix(_END) + own.encode() + _END
            own = self._text.write(series, open_metrics=False)
            return text_format.generate_latest(self._process) + own.encode()

        return await asyncio.to_thread(write)  # thousands of lines: not in the event loop
