"""JSON objects that people write (parameters), kept as text: large integers stay exact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tickwheel_shared.portable_json import MAX_DEPTH, has_huge_number, is_within
from tickwheel_shared.protocol import MAX_PARAMETERS_BYTES

HUGE_NUMBER_REFUSED = (
    "This holds a number beyond ±1.8e308, the largest that can be held; write it as text."
)


class BadJson(ValueError):
    """Not a JSON object that can be stored; the template is for people."""

    def __init__(self, code: str, template: str, /, **params: Any) -> None:
        self.code = code
        self.template = template
        self.params = params
        super().__init__(template % params if params else template)


def text_of_object(value: object) -> str:
    """Compact JSON of an object.

    Raises:
        BadJson: not an object, holds what JSON cannot express or a number beyond ±1.8e308, nested
            too deeply, or larger than 64 KiB.
    """
    if not isinstance(value, Mapping):
        raise BadJson("json.not_an_object", "This must be a JSON object, such as {}.")
    if has_huge_number(value):
        raise _huge_number()
    try:
        text = json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        size = len(text.encode())  # fails on lone surrogates, which no database takes
    except (TypeError, ValueError, RecursionError) as error:
        raise BadJson("json.invalid", "This holds a value that JSON cannot express.") from error
    if size > MAX_PARAMETERS_BYTES:
        raise _too_large()
    if not is_within(value, MAX_DEPTH):
        raise _too_deep()
    return text


def object_of_text(text: str) -> dict[str, Any]:
    """The object that a person typed; unlike `json.loads`, refuses NaN and doubled keys.

    Raises:
        BadJson: as `text_of_object`, or the text breaks the syntax; says where.
    """
    if len(text) > MAX_PARAMETERS_BYTES:
        raise _too_large()
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise BadJson(
            "json.invalid",
            "This is not JSON: line %(line)d, column %(column)d: %(problem)s.",
            line=error.lineno,
            column=error.colno,
            problem=error.msg,
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    except BadJson:
        raise
    except ValueError as error:  # Python's own limit of 4,300 digits
        raise _huge_number() from error
    if not isinstance(value, dict):
        raise BadJson("json.not_an_object", "This must be a JSON object, such as {}.")
    return value


def normalized(text: str) -> str:
    """The compact form of an object that a person typed; raises BadJson."""
    return text_of_object(object_of_text(text))


def _refuse_constant(name: str) -> None:
    raise BadJson("json.invalid", "%(name)s is not JSON.", name=name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BadJson(
                "json.doubled_key", "The key “%(key)s” appears twice in one object.", key=key[:50]
            )
        found[key] = value
    return found


def _huge_number() -> BadJson:
    return BadJson("json.huge_number", HUGE_NUMBER_REFUSED)


def _too_deep() -> BadJson:
    return BadJson("json.too_deep", "This is nested too deeply.")


def _too_large() -> BadJson:
    return BadJson(
        "json.too_large",
        "This is larger than %(limit)d KiB; keep the data elsewhere and pass its address.",
        limit=MAX_PARAMETERS_BYTES // 1024,
    )
