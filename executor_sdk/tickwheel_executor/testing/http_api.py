"""The part of the HTTP API that `Client` uses: start a job, get its run, read its log.

The jobs are the handlers of the connected nodes, by name, and the jobs that the nodes declare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from tickwheel_shared.protocol import Hello
from tickwheel_shared.trace_context import read_trace_context

from .attempts import FakeAttempt
from .dispatcher import FakeDispatcher, described
from .handler_end import RunRefusedError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATES = {"cut_off": "lost"}  # outcomes with another name as a state


@dataclass(frozen=True, slots=True)
class _Job:
    executor: str
    name: str
    handler: str


class HttpApi:
    """Serves /api/v1. Runs start at once, and nothing is retried."""

    def __init__(
        self,
        dispatcher: FakeDispatcher,
        *,
        knows: Callable[[str], bool],
        next_run: Callable[[], int],
    ) -> None:
        self._dispatcher = dispatcher
        self._knows = knows
        self._next_run = next_run
        self._jobs: list[_Job] = []  # a job's id is its position, from 1
        self._by_key: dict[tuple[int, str], int] = {}  # runs by job and idempotency key

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Register the routes."""
        router.add_get("/api/v1/jobs", self._list_jobs)
        router.add_post("/api/v1/jobs/{id}/run", self._run_job)
        router.add_get("/api/v1/runs/{id}", self._show_run)
        router.add_get("/api/v1/runs/{id}/log", self._show_log)

    async def _list_jobs(self, request: web.Request) -> web.Response:
        self._check(request)
        text = request.query.get("text", "")
        items = [
            {"id": number, "executor_name": job.executor, "config": {"name": job.name}}
            for number, job in enumerate(self._known_jobs(), start=1)
            if text in job.name
        ]
        return web.json_response({"items": items, "next": None})

    def _known_jobs(self) -> list[_Job]:
        for session in self._dispatcher.server.sessions:
            if session.is_ready:
                for job in _jobs_of(session.hello):
                    if job not in self._jobs:
                        self._jobs.append(job)
        return self._jobs

    async def _run_job(self, request: web.Request) -> web.Response:
        self._check(request)
        job_id = int(request.match_info["id"])
        jobs = self._known_jobs()
        if not 1 <= job_id <= len(jobs):
            raise _refusal(web.HTTPNotFound, "not_found", f"there is no job {job_id}")
        key = (job_id, request.headers.get("Idempotency-Key", ""))
        if not key[1] or key not in self._by_key:
            self._by_key[key] = run_id = self._next_run()
            body: Mapping[str, Any] = await request.json()
            await self._dispatch(run_id, job_id, body, request.headers.get("traceparent"))
        return web.json_response({"run_id": self._by_key[key]})

    async def _dispatch(
        self, run_id: int, job_id: int, body: Mapping[str, Any], traceparent: str | None
    ) -> None:
        job = self._jobs[job_id - 1]
        trace = read_trace_context(traceparent)
        await self._dispatcher.dispatch(
            run_id,
            job.handler,
            body.get("parameters", {}),
            node=body.get("node"),
            fields={
                "job": job.name,
                "job_id": job_id,
                "origin": "api",
                "traceparent": None if trace is None else trace.traceparent,
            },
        )

    async def _show_run(self, request: web.Request) -> web.Response:
        attempt = self._attempt(request)
        status: dict[str, Any] = {
            "id": attempt.request.run,
            "job_id": attempt.request.job_id,
            "job_name": attempt.request.job,
            "state": "running" if attempt.accepted.is_set() else "dispatched",
            "reason": None,
            "message": None,
            "result": None,
        }
        if attempt.has_ended:
            status |= await _status_of_end(attempt)
        return web.json_response(status)

    async def _show_log(self, request: web.Request) -> web.Response:
        attempt = self._attempt(request)
        after = int(request.query.get("after", 0))
        lines = [
            {
                "seq": seq,
                "at": (_EPOCH + timedelta(milliseconds=line.at)).isoformat(),
                "level": line.level.value,
                "text": line.text,
            }
            for seq, line in enumerate(attempt.lines, start=1)
            if seq > after
        ]
        number = attempt.request.attempt
        last = lines[-1]["seq"] if lines else after
        return web.json_response({"lines": lines, "attempt": number, "next": last, "more": False})

    def _attempt(self, request: web.Request) -> FakeAttempt:
        self._check(request)
        run_id = int(request.match_info["id"])
        for (run, _), attempt in self._dispatcher.state.attempts.items():
            if run == run_id:
                return attempt
        raise _refusal(web.HTTPNotFound, "not_found", f"there is no run {run_id}")

    def _check(self, request: web.Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not self._knows(token):
            raise _refusal(web.HTTPUnauthorized, "unauthenticated", "the API token is unknown")


def _jobs_of(hello: Hello) -> list[_Job]:
    declared = described(hello).jobs
    named = {str(job["name"]): str(job["handler"]) for job in declared}
    named |= {name: name for name in hello.handlers if name not in named}
    return [_Job(hello.executor, name, handler) for name, handler in named.items()]


async def _status_of_end(attempt: FakeAttempt) -> dict[str, Any]:
    try:
        end = await attempt.end()
    except RunRefusedError as error:  # a refusal uses no try; an admin looks for another node
        return {"state": "queued", "message": str(error)}
    state = _STATES.get(end.outcome, end.outcome)
    return {"state": state, "message": end.message or None, "result": end.result}


def _refusal(kind: type[web.HTTPError], code: str, message: str) -> web.HTTPException:
    body = web.json_response({"error": {"code": code, "message": message}})
    return kind(text=body.text, content_type="application/json")
