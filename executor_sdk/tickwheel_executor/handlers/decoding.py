"""Make of a request what its handler is given."""

from __future__ import annotations

from typing import Any

import msgspec

from tickwheel_executor.errors import Fail
from tickwheel_executor.run.context import RunInput
from tickwheel_shared.protocol import RunRequest

from .signature import ParametersError, Signature

_object = msgspec.json.Decoder(dict[str, Any])
_object_or_none = msgspec.json.Decoder(dict[str, Any] | None)


def decode(request: RunRequest, signature: Signature) -> RunInput:
    """What the request gives a handler with this signature.

    Raises:
        Fail: its parameters are not what the handler takes, and never will be.
        ValueError: the state or the checkpoint is no JSON.
    """
    try:
        parameters = _object.decode(request.parameters)
        arguments = signature.read(request.parameters)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Fail(f"the parameters are not a JSON object: {error}") from None
    except ParametersError as error:
        raise Fail(str(error)) from None
    try:
        return RunInput(
            parameters=parameters,
            arguments=arguments,
            state=_object_or_none.decode(request.state),
            checkpoint=msgspec.json.decode(request.checkpoint),
        )
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"the state or the checkpoint cannot be read: {error}") from None
