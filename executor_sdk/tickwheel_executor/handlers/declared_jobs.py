"""Jobs declared in code, which hello proposes to the admin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

import msgspec

from tickwheel_executor.errors import HandlerError
from tickwheel_shared.protocol import MAX_DECLARED_BYTES, MAX_DECLARED_JOBS

from .job_fields import JOB_FIELDS, TRIGGER_DETAILS, TRIGGER_FIELDS

_WHEN = ("cron", "every", "at")  # one trigger, in short form
_OF_ONE_TRIGGER = (*TRIGGER_DETAILS, "dialect", "anchor_at")


class JobDeclarations:
    """The jobs that an executor declares, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[str, Any]] = {}

    def add(self, name: str, handler: str, fields: Mapping[str, Any]) -> None:
        """Declare a job.

        Raises:
            HandlerError: the name is taken, a field unknown, or a value cannot be written as JSON.
        """
        where = f"job {name!r} of handler {handler!r}"
        if name in self._by_name:
            raise HandlerError(f"{where}: there is a job of this name already; give it another one")
        if len(self._by_name) >= MAX_DECLARED_JOBS:
            raise HandlerError(f"{where}: an executor declares at most {MAX_DECLARED_JOBS} jobs")
        _refuse_unknown(fields, JOB_FIELDS, where)
        triggers = _triggers(fields, where)
        job: dict[str, Any] = {"name": name, "handler": handler}
        for key, value in fields.items():
            if key not in (*_WHEN, *_OF_ONE_TRIGGER, "triggers"):
                job[key] = _plain(key, value, where)
        if triggers:
            job["triggers"] = triggers
        self._by_name[name] = job

    def check(self, handlers: Iterable[str]) -> list[msgspec.Raw]:
        """JSON of every job; called when all handlers are registered.

        Raises:
            HandlerError: a job names an unknown handler, or the jobs are too large for a hello.
        """
        known = list(handlers)
        for name, job in self._by_name.items():
            if job["handler"] not in known:
                close = get_close_matches(job["handler"], known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise HandlerError(
                    f"job {name!r} names the handler {job['handler']!r}, which this executor does "
                    f"not have{hint}"
                )
        encoded = [msgspec.Raw(msgspec.json.encode(job)) for job in self._by_name.values()]
        size = sum(len(bytes(each)) for each in encoded)
        if size > MAX_DECLARED_BYTES:
            raise HandlerError(
                f"the declared jobs are {size:,} bytes of JSON; the limit is {MAX_DECLARED_BYTES:,}"
            )
        return encoded

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._by_name.values())


def _triggers(fields: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    short = [name for name in _WHEN if name in fields]
    details = [name for name in _OF_ONE_TRIGGER if name in fields]
    if "triggers" in fields:
        if short or details:
            raise HandlerError(
                f"{where}: {(short + details)[0]} belongs to one trigger, and there are triggers: "
                "put it into one of these"
            )
        return [_full(trigger, where) for trigger in _sequence(fields["triggers"], where)]
    if len(short) > 1:
        raise HandlerError(
            f"{where}: {' and '.join(short)} are several triggers: write them as triggers=[…]"
        )
    if not short:
        if details:
            raise HandlerError(
                f"{where}: {details[0]} belongs to a trigger: say when with cron, every or at"
            )
        return []
    trigger = _short(short[0], fields[short[0]])
    trigger |= {name: fields[name] for name in details}
    return [{key: _plain(key, value, where) for key, value in trigger.items()}]


def _short(name: str, value: Any) -> dict[str, Any]:
    if name == "every":
        return {"kind": "fixed_rate", "every_seconds": value}
    if name == "at":
        return {"kind": "once", "at": value}
    trigger = {"kind": "cron", "expression": value}
    parts = value.split() if isinstance(value, str) else []
    # Only Quartz has a seventh field or needs a “?”; otherwise it could also be Spring's.
    if len(parts) == 7 or (len(parts) == 6 and "?" in parts):
        trigger["dialect"] = "quartz"
    return trigger


def _full(trigger: object, where: str) -> dict[str, Any]:
    if not isinstance(trigger, Mapping):
        raise HandlerError(f"{where}: a trigger is a dict, not {trigger!r}")
    _refuse_unknown(trigger, TRIGGER_FIELDS, f"{where}, trigger")
    return {key: _plain(key, value, where) for key, value in trigger.items()}


def _sequence(triggers: object, where: str) -> Sequence[object]:
    if not isinstance(triggers, Sequence) or isinstance(triggers, str):
        raise HandlerError(f"{where}: triggers is a list of dicts, not {triggers!r}")
    return triggers


def _refuse_unknown(fields: Iterable[str], known: Sequence[str], where: str) -> None:
    for name in fields:
        if name in known:
            continue
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
        raise HandlerError(f"{where} has no field {name!r}; {hint}")


def _plain(name: str, value: object, where: str) -> Any:
    """The value as in JSON: durations are seconds, instants ISO 8601."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise HandlerError(f"{where}: {name} cannot be written as JSON: {error}") from error
