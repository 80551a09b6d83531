"""References to secrets, `${secret.NAME}`, in the parameters that a job is configured with.

They stand in any text within the parameters of a job or of one of its triggers, but not in the
names of objects. `$${secret.NAME}` is the text `${secret.NAME}`. Only what the revision of a run
says itself is ever searched: whatever else a run is given, by a person, a parent's result or a
program, is text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tickwheel_admin.domain.jobs.job import JobConfig

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
MARK = "${secret."  # every reference begins so; parameters are kept as compact JSON, which keeps it
_MARK_BYTES = MARK.encode()
_FOUND = re.compile(r"(\$?)\$\{secret\.([^{}\s\"']{0,100})(\}?)")
_NAME = re.compile(NAME)

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])


class SecretReference(NamedTuple):
    """A place where a secret is named."""

    field: str  # `parameters.headers.Authorization`, `triggers[0].parameters.key`
    name: str | None  # None: what stands there is no name
    text: str  # as it was written


def references_of(config: JobConfig) -> list[SecretReference]:
    """Every reference of a job, in the order in which it says them."""
    found: list[SecretReference] = []
    for field, text in _configured(config):
        if MARK in text:
            found += _search(json.loads(text), field)
    return found


def secret_names(config: JobConfig) -> frozenset[str]:
    """The secrets that a job names."""
    return frozenset(each.name for each in references_of(config) if each.name is not None)


def as_text(value: Any) -> Any:
    """A value from elsewhere as a job says it, so that nothing in it is a reference.

    Args:
        value: as JSON has it.
    """
    if isinstance(value, str):
        return value.replace(MARK, f"${MARK}")
    if isinstance(value, list):
        return [as_text(each) for each in value]
    if isinstance(value, dict):
        return {key: as_text(each) for key, each in value.items()}
    return value


def secrets_of_run(config: JobConfig, given: str | None) -> frozenset[str]:
    """The secrets that a run needs.

    Args:
        config: of the run's revision.
        given: what replaces the job's parameters (`Run.parameters`); None: nothing does.
    """
    if MARK not in (config.parameters if given is None else given):  # nearly always
        return frozenset()
    names: set[str] = set()
    for own in _own_values(config, given).values():
        names.update(each.name for each in _search(_loads(own), "") if each.name is not None)
    return frozenset(names)


def resolve(config: JobConfig, given: str | None, values: Mapping[str, str]) -> str:
    """The parameters of a run with the secrets in their places.

    Args:
        values: at least those of `secrets_of_run`, by name.
    """
    text = config.parameters if given is None else given
    own = _own_values(config, given)
    if not own:
        return text
    merged = _objects.decode(text)
    for name, value in own.items():
        filled = _fill(_loads(value), lambda secret: values[secret])
        merged[name] = msgspec.Raw(_dumps(filled).encode())
    return msgspec.json.encode(merged).decode()


def _own_values(config: JobConfig, given: str | None) -> dict[str, bytes]:
    """Those of a run's parameters that its revision says itself and that name a secret."""
    if given is None:
        return _values_with_mark(config.parameters)
    said: dict[str, set[bytes]] = {}
    for _, text in _configured(config):
        if MARK in text:
            for name, value in _values_with_mark(text).items():
                said.setdefault(name, set()).add(value)
    if not said:
        return {}
    # Compared as bytes: they were compact JSON when they were laid over each other, and what comes
    # from elsewhere is not parsed.
    return {
        name: value
        for name, value in _values_with_mark(given).items()
        if value in said.get(name, ())
    }


def _values_with_mark(parameters: str) -> dict[str, bytes]:
    found = {name: bytes(raw) for name, raw in _objects.decode(parameters).items()}
    return {name: value for name, value in found.items() if _MARK_BYTES in value}


def _configured(config: JobConfig) -> Iterator[tuple[str, str]]:
    yield "parameters", config.parameters
    for index, spec in enumerate(config.triggers):
        if spec.parameters is not None:
            yield f"triggers[{index}].parameters", spec.parameters


def _search(value: Any, field: str) -> Iterator[SecretReference]:
    if isinstance(value, str):
        for found in _FOUND.finditer(value):
            escape, name, end = found.groups()
            if not escape:
                is_name = bool(end and _NAME.fullmatch(name))
                yield SecretReference(field, name if is_name else None, found[0])
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _search(each, f"{field}[{index}]")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _search(each, f"{field}.{key[:50]}")


def _fill(value: Any, secret: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return _FOUND.sub(lambda found: _filled(found, secret), value)
    if isinstance(value, list):
        return [_fill(each, secret) for each in value]
    if isinstance(value, dict):
        return {key: _fill(each, secret) for key, each in value.items()}
    return value


def _filled(found: re.Match[str], secret: Callable[[str], str]) -> str:
    escape, name, end = found.groups()
    if escape:
        return found[0][1:]
    return secret(name) if end and _NAME.fullmatch(name) else found[0]


def _loads(value: bytes) -> Any:
    return json.loads(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
