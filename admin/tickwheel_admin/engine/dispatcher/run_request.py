"""The message that asks a node to start a run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from tickwheel_admin.domain.executors.reports import may_spawn
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import MARK, resolve, secrets_of_run
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.domain.workflows.states import SPAWNED_ITEM, StepRunKind, kind_of
from tickwheel_shared.protocol import RunRequest, RunScript
from tickwheel_shared.trace_context import TraceContext

NO_VALUES: Mapping[str, str] = {}


def request_of(
    run: Run,
    config: JobConfig,
    *,
    stop_when_cut_off: bool = False,
    state: str | None = None,
    checkpoint: str | None = None,
    recovering: bool = False,
    script: RunScript | None = None,
    secrets: Mapping[str, str] = NO_VALUES,
    trace: TraceContext | None = None,
) -> RunRequest:
    """The message that starts a dispatched run on its node.

    Args:
        state: the state of the job; None: it keeps none.
        checkpoint: what an earlier attempt of the run left.
        recovering: an earlier attempt of the run was lost.
        script: of a script job.
        secrets: at least those that the run needs, by name.
        trace: of the attempt; None: it is part of none.
    """
    parameters = config.parameters if run.parameters is None else run.parameters
    hidden: list[str] | msgspec.UnsetType = UNSET
    if MARK in parameters and (names := secrets_of_run(config, run.parameters)):
        parameters = resolve(config, run.parameters, secrets)
        hidden = sorted({secrets[name] for name in names})
    item: msgspec.Raw | msgspec.UnsetType = UNSET
    if kind_of(run.request_key) is StepRunKind.SPAWNED:
        given = _objects.decode(parameters)
        item = given.pop(SPAWNED_ITEM, UNSET)
        parameters = msgspec.json.encode(given).decode()
    due_at = run.first_due_at if run.tries == 0 else run.due_at
    return RunRequest(
        run=run.id,
        attempt=run.attempt,
        token=run.claim_token or "",
        job_id=run.job_id,
        job=config.name,
        handler=config.handler,
        parameters=msgspec.Raw(parameters.encode()),
        scheduled_at=run.works_for_at,
        interval_start=UNSET if run.interval_start is None else run.interval_start,
        due_at=UNSET if due_at == run.works_for_at else due_at,
        timeout_ms=config.timeout_ms,
        try_number=run.tries + 1,
        max_tries=config.retry.retries + 1,
        origin=run.origin.value,
        shard_index=run.shard_index,
        shard_total=run.shard_total,
        state=_raw(state),
        checkpoint=_raw(checkpoint),
        stop_when_cut_off=stop_when_cut_off,
        recovering=recovering,
        script=UNSET if script is None else script,
        may_spawn=may_spawn(run) or UNSET,
        item=item,
        secrets=hidden,
        traceparent=UNSET if trace is None else trace.traceparent,
        tracestate=UNSET if trace is None or not trace.state else trace.state,
    )


_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _raw(text: str | None) -> msgspec.Raw:
    return msgspec.Raw(b"null" if text is None else text.encode())
