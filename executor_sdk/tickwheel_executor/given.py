"""What a request gives its handler, decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from tickwheel_shared.protocol import RunRequest

_object = msgspec.json.Decoder(dict[str, Any])
_object_or_none = msgspec.json.Decoder(dict[str, Any] | None)


@dataclass(slots=True, kw_only=True)
class Given:
    """What a run begins from."""

    parameters: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] | None = None  # None: the job keeps none
    checkpoint: Any = None  # what an earlier try left


def read(request: RunRequest) -> tuple[Given, str]:
    """What the request gives, and what is wrong with it, else ""."""
    given = Given()
    try:
        given.parameters = _object.decode(request.parameters)
    except (msgspec.DecodeError, RecursionError) as error:
        return given, f"the parameters are not a JSON object: {error}"
    try:
        given.state = _object_or_none.decode(request.state)
        given.checkpoint = msgspec.json.decode(request.checkpoint)
    except (msgspec.DecodeError, RecursionError) as error:
        return given, f"the state or the checkpoint cannot be read: {error}"
    return given, ""
