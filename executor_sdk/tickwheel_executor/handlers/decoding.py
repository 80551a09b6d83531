"""Decode a run request into the input of its handler."""

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
    """The input for a handler with this signature.

    Raises:
        Fail: the parameters do not match the signature; a retry would not help.
        ValueError: the state or the checkpoint is not JSON.
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
