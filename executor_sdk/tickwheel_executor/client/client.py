"""Start jobs and follow their runs from any program, through the API of the admins."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tickwheel_executor.errors import (
    ClientError,
    NoAdminError,
    NotFoundError,
    RunNotSucceededError,
    WaitTimeoutError,
)
from tickwheel_executor.run_status import RunStatus
from tickwheel_executor.settings import check_client

from .api import Api
from .call import Call
from .trace import trace_headers_here

_FIRST_POLL_SECONDS = 0.2
_LONGEST_POLL_SECONDS = 2.0
_SHORTEST_QUESTION_SECONDS = 1.0
_SLOWER = 1.5  # factor between two pauses
_OUTAGE_SECONDS = 60.0  # how long `wait` tolerates that no admin answers
_PAGE = 500
_LINES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a run's log."""

    seq: int  # from 1 within the attempt
    at: datetime  # by the node's clock
    level: str  # debug, info, warning, error
    text: str


class Client:
    """Starts jobs and reports their results. Await each method, or call its `.result()`:

        run_id = await client.run_job("billing/send-invoices")
        run_id = client.run_job("billing/send-invoices").result()  # where there is no event loop

    Every method raises a ClientError when the admins refuse the request or cannot be reached.
    `async with client:` keeps connections between calls; without it each call opens its own.

    Args:
        admins: Base URLs; if one is unavailable, the next is asked. TICKWHEEL_ADMINS
            (comma-separated) when omitted.
        token: An API token, made with `tickwheel token create`; not an executor token.
            TICKWHEEL_API_TOKEN when omitted.
        ca_file: Authorities that sign the certificates of admins, in PEM; no others are trusted.
            TICKWHEEL_CA_FILE when omitted, else those of the system.
        client_cert: Certificate to show when asked, in PEM. TICKWHEEL_CLIENT_CERT when omitted.
        client_key: Its key. TICKWHEEL_CLIENT_KEY when omitted, else in the file of the certificate.

    Raises:
        ConfigurationError: lists every invalid setting.
    """

    def __init__(
        self,
        admins: Sequence[str] | None = None,
        token: str | None = None,
        *,
        ca_file: str | os.PathLike[str] | None = None,
        client_cert: str | os.PathLike[str] | None = None,
        client_key: str | os.PathLike[str] | None = None,
    ) -> None:
        urls, token, tls = check_client(
            admins=admins,
            token=token,
            ca_file=ca_file,
            client_cert=client_cert,
            client_key=client_key,
        )
        self._api = Api(urls, token, tls)

    async def __aenter__(self) -> Client:
        """Keep connections until the end of the block."""
        await self._api.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close them."""
        await self._api.close()

    def run_job(
        self,
        job: int | str,
        parameters: Mapping[str, Any] | None = None,
        *,
        node: int | str | None = None,
        delay_seconds: float = 0,
        idempotency_key: str | None = None,
    ) -> Call[int]:
        """Start one run of a job; returns the run's id.

        The run becomes part of the current trace: that of OpenTelemetry if the program traces, else
        that of the run whose handler calls this.

        Args:
            job: Its id, or "executor/name".
            parameters: Override the job's own, key by key.
            node: Id or name of the node that must run it; else the job's routing chooses.
            delay_seconds: Delay before it starts, at most 30 days.
            idempotency_key: Calls with the same key return the same run of the job: 1 to 80 visible
                ASCII characters. When omitted, each call gets a new key, so that internal retries
                do not start a second run.

        Raises:
            NotFoundError: there is no such job, or the token may not see it.
            ClientError: `problems` names what is wrong.
        """
        body: dict[str, Any] = {}
        if parameters is not None:
            body["parameters"] = dict(parameters)
        if node is not None:
            body["node" if isinstance(node, str) else "node_id"] = node
        if delay_seconds:
            body["delay_seconds"] = delay_seconds
        return Call(self._run_job(job, body, idempotency_key or secrets.token_hex(16)))

    def run(self, run_id: int) -> Call[RunStatus]:
        """The current status of a run.

        Raises:
            NotFoundError: there is no such run, or the token may not see it.
        """
        return Call(self._run(run_id))

    def wait(
        self, run_id: int, *, timeout: float | None = None, check: bool = True
    ) -> Call[RunStatus]:
        """Wait until the run has ended; polls after 0.2 s at first, later every 2 s.

        Args:
            timeout: Longest wait in seconds; None: no limit.
            check: Raise if the run did not succeed; else check `state` of the result.

        Raises:
            RunNotSucceededError: it did not succeed; `run` is its status.
            WaitTimeoutError: it has not ended in time, or no admin could tell.
            NoAdminError: none could be reached, at first or for a minute.
        """
        return Call(self._wait(run_id, timeout, check))

    def log(
        self, run_id: int, *, attempt: int | None = None, after: int = 0
    ) -> Call[list[LogLine]]:
        """Lines of a run's log so far.

        Args:
            attempt: The last one when omitted.
            after: Only lines with a higher `seq`.
        """
        return Call(self._log(run_id, attempt, after))

    # --- the work ---------------------------------------------------------------------------------

    async def _run_job(self, job: int | str, body: Mapping[str, Any], key: str) -> int:
        job_id = job if isinstance(job, int) else await self._find_job(job)
        answer = await self._api.post(
            f"/jobs/{job_id}/run", body, idempotency_key=key, headers=trace_headers_here()
        )
        return int(answer["run_id"])

    async def _find_job(self, job: str) -> int:
        executor, slash, name = job.partition("/")  # no executor has a slash in its name
        if not (executor and slash and name):
            raise ClientError(
                f'{job!r} names no job: wanted its id, or "executor/name"', code="job.not_named"
            )
        cursor: str | None = None
        while True:
            page = await self._api.get("/jobs", text=name, limit=_PAGE, cursor=cursor)
            for item in page["items"]:
                if (item["executor_name"], item["config"]["name"]) == (executor, name):
                    return int(item["id"])
            cursor = page["next"]
            if cursor is None:
                raise NotFoundError(
                    f"there is no job {name!r} of an executor {executor!r}, or the token may not "
                    "see it",
                    code="not_found",
                    status=404,
                )

    async def _run(self, run_id: int) -> RunStatus:
        data = await self._api.get(f"/runs/{run_id}")
        return RunStatus(
            id=data["id"],
            job_id=data["job_id"],
            job=data["job_name"],
            state=data["state"],
            reason=data["reason"],
            message=data["message"],
            result=data["result"],
            data=data,
        )

    async def _wait(self, run_id: int, timeout: float | None, check: bool) -> RunStatus:
        loop = asyncio.get_running_loop()
        ends_at = float("inf") if timeout is None else loop.time() + timeout
        pause = _FIRST_POLL_SECONDS
        status: RunStatus | None = None
        heard_at = float("-inf")
        while True:
            try:
                async with asyncio.timeout(_left(ends_at, loop.time())):
                    status = await self._run(run_id)
                heard_at = loop.time()
                if status.has_ended:
                    return _checked(status) if check else status
            except TimeoutError:
                pass  # said below
            except NoAdminError:
                if loop.time() - heard_at > _OUTAGE_SECONDS:
                    raise
            if loop.time() >= ends_at:
                raise WaitTimeoutError(run_id, timeout or 0, status.state if status else None)
            await asyncio.sleep(min(pause, ends_at - loop.time()))
            pause = min(pause * _SLOWER, _LONGEST_POLL_SECONDS)

    async def _log(self, run_id: int, attempt: int | None, after: int) -> list[LogLine]:
        lines: list[LogLine] = []
        while True:
            page = await self._api.get(
                f"/runs/{run_id}/log", attempt=attempt, after=after, limit=_LINES
            )
            lines += (
                LogLine(
                    seq=line["seq"],
                    at=datetime.fromisoformat(line["at"]),
                    level=line["level"],
                    text=line["text"],
                )
                for line in page["lines"]
            )
            attempt, after = page["attempt"], page["next"]
            if not page["more"]:
                return lines


def _left(ends_at: float, now: float) -> float | None:
    """How long one request may take: at least a second, so that it is sent at all."""
    return None if ends_at == float("inf") else max(ends_at - now, _SHORTEST_QUESTION_SECONDS)


def _checked(status: RunStatus) -> RunStatus:
    if not status.succeeded:
        raise RunNotSucceededError(status)
    return status
