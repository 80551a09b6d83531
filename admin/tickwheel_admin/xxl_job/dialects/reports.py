"""What executors send by themselves, and what we answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from tickwheel_admin.xxl_job.dialects import json_text

MAX_CALLBACKS = 10_000
MAX_CALLBACKS_BYTES = 8 * 1024 * 1024
MAX_REGISTRY_BYTES = 64 * 1024
MAX_MESSAGE_CHARS = 4000
_MAX_LONG = (1 << 63) - 1


class BadRequest(ValueError):
    """An executor sent what cannot be read; the message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """An executor's process says that it is there, or goes."""

    group: str  # "EXECUTOR"
    app_name: str
    address: str  # as it was sent: check and normalise it


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """How a run ended."""

    log_id: int
    time_ms: int | None  # of the call that started it; some clients send a time of their own
    code: int  # 200 succeeded, 502 timed out, else failed
    message: str


_Number = int | str | float


class _Result(msgspec.Struct):
    code: _Number | None = None
    msg: msgspec.Raw = msgspec.Raw(b"null")


class _Callback(msgspec.Struct, rename="camel"):
    log_id: _Number
    log_date_tim: _Number | None = None
    log_date_time: _Number | None = None
    handle_code: _Number | None = None
    handle_msg: msgspec.Raw = msgspec.Raw(b"null")
    execute_result: _Result | None = None


_Callbacks = Annotated[list[_Callback], msgspec.Meta(max_length=MAX_CALLBACKS)]


class _CallbackList(msgspec.Struct, rename="camel"):
    callback_list: _Callbacks


class _Registry(msgspec.Struct, rename="camel"):
    registry_key: str
    registry_value: str
    registry_group: str | None = None


# Typed, so that what is not read is skipped and costs no memory.
_ARRAY = msgspec.json.Decoder(_Callbacks)
_OBJECT = msgspec.json.Decoder(_CallbackList)
_REGISTRY = msgspec.json.Decoder(_Registry)


def read_registry(body: bytes) -> Registry:
    """What `registry` and `registryRemove` were sent.

    Raises:
        BadRequest: a field is missing, empty or of another type, or the body is too large.
    """
    if len(body) > MAX_REGISTRY_BYTES:
        raise BadRequest(f"body: larger than {MAX_REGISTRY_BYTES} bytes")
    found = _read(body, _REGISTRY)
    for name, value in (
        ("registryKey", found.registry_key),
        ("registryValue", found.registry_value),
    ):
        if not value.strip():
            raise BadRequest(f"{name}: is empty")
    return Registry(
        group=(found.registry_group or "").strip(),
        app_name=found.registry_key.strip(),
        address=found.registry_value.strip(),
    )


def read_callbacks(body: bytes) -> list[Callback]:
    """What `callback` was sent: an array, or an object that holds it.

    Raises:
        BadRequest: one of them cannot be read, or there are too many; then none was.
    """
    if len(body) > MAX_CALLBACKS_BYTES:
        raise BadRequest(f"body: larger than {MAX_CALLBACKS_BYTES} bytes")
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
        found, where = _read(body, _ARRAY), ""
    else:
        found, where = _read(body, _OBJECT).callback_list, "callbackList"
    return [_callback(f"{where}[{index}]", one) for index, one in enumerate(found)]


def answer(code: int, message: str = "", *, data: str | None = None) -> bytes:
    """Our answer, in the form of all dialects at once.

    Args:
        code: 200 for done, 500 for refused.
        message: why it was refused; empty for none.
        data: what was asked for, in the answers that tell something.
    """
    return msgspec.json.encode(
        {
            "code": code,
            "msg": message or None,
            "content": data,
            "data": data,
            "success": code == 200,
        }
    )


def _read(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return json_text.read(body, decoder)
    except json_text.NotJson as error:
        what, _, where = str(error).partition(" - at `$")
        where = where.rstrip("`").lstrip(".")
        raise BadRequest(f"{where or 'body'}: {what}"[:300]) from None


def _callback(where: str, one: _Callback) -> Callback:
    result = one.execute_result or _Result()
    has_code = one.handle_code is not None  # 2.2.0 has only the other
    at = one.log_date_tim if one.log_date_tim is not None else one.log_date_time
    log_id = _long(where, "logId", one.log_id)
    message = _text(one.handle_msg) if has_code else _text(result.msg)
    return Callback(
        log_id=log_id,
        time_ms=None if at is None else _long(where, "logDateTim", at),
        code=_long(where, "handleCode", one.handle_code if has_code else result.code),
        message=message,
    )


def _long(where: str, name: str, value: object) -> int:
    number = json_text.whole_number(value)
    if number is None or not -_MAX_LONG <= number <= _MAX_LONG:
        raise BadRequest(f"{where}.{name}: is no whole number of 64 bits")
    return number


def _text(raw: msgspec.Raw) -> str:
    """The message; what is no string, as it was written."""
    said = bytes(raw)
    if said == b"null":
        return ""
    if said.startswith(b'"'):
        try:
            return json_text.storable(str(json_text.read(said)), MAX_MESSAGE_CHARS)
        except json_text.NotJson:
            pass
    return json_text.storable(said.decode(errors="replace"), MAX_MESSAGE_CHARS)
