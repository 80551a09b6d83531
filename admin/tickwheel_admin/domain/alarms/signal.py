"""A signal: something happened that rules may want to be told of."""

from __future__ import annotations

import msgspec

from tickwheel_admin.domain.alarms.kind import AlarmKind

MAX_TEXT_CHARS = 500


class AlarmSignal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of `alarm_signal`; equal kind, subject and number are the same signal."""

    kind: AlarmKind
    subject_id: int  # the run, trigger, node or admin that it is about
    number: int = 0  # the attempt of a run, the version of a trigger
    at: int  # UTC ms
    executor_id: int | None = None
    job_id: int | None = None
    text: str | None = None  # a name or a reason
