"""The script of a job as people and programs write it, and back."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.runs.script import (
    GLUE_LANGUAGES,
    HANDLER,
    LANGUAGE,
    MAX_REMARK_CHARS,
    Script,
    sha256_of,
)
from tickwheel_shared.protocol import MAX_SCRIPT_BYTES

SCRIPT_FIELDS = ("language", "source", "sha256", "remark", "signature")
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SIGNATURE_BYTES = 64


def read_script(raw: object, path: str, problems: list[Problem]) -> Script | None:
    """A script whose fields are right; what is wrong with them is noted.

    `sha256` alone names a source that is stored already: a job's own, which need not travel again.
    """
    before = len(problems)
    fields = Fields(raw, path, problems)
    if not fields.is_object:
        return None
    fields.only(SCRIPT_FIELDS)
    language = fields.text("language", max_chars=32, required=True)
    if language and not LANGUAGE.fullmatch(language):
        fields.refuse(
            "language",
            "script.language",
            "A language is named in 1 to 32 of a-z, 0-9, dot, underscore, plus and hyphen,"
            " beginning with a letter: shell, python, node.",
        )
    source = _source(fields, language)
    remark = fields.text("remark", max_chars=MAX_REMARK_CHARS)
    signature = _signature(fields)
    sha256 = _sha256(fields, source)
    if len(problems) > before:
        return None
    return Script(
        language=language, sha256=sha256, remark=remark, signature=signature, source=source
    )


def parse_script(raw: object) -> Script:
    """The same of a script that stands by itself.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    script = read_script(raw, "", problems)
    if script is None:
        raise InvalidInput(problems)
    return script


def script_to_raw(script: Script | None) -> dict[str, Any] | None:
    """What `read_script` reads as this script; without its source, if that was not read."""
    if script is None:
        return None
    raw = {
        "language": script.language,
        "source": script.source,
        "sha256": script.sha256,
        "remark": script.remark,
        "signature": script.signature,
    }
    if script.source is None:
        del raw["source"]
    return raw


def handler_with_script(fields: Fields, handler: str, protocol: Protocol) -> str:
    """The handler of a job that has a script or none; a script job need not name it."""
    has_script = fields.has("script")
    if has_script and not fields.has("handler"):
        return HANDLER
    if has_script and handler and handler != HANDLER:
        fields.refuse(
            "handler",
            "script.handler",
            "A job with a script has the handler “%(handler)s”; leave the script out, or this.",
            handler=HANDLER,
        )
    if not has_script and handler == HANDLER and protocol is Protocol.TICKWHEEL:
        fields.refuse(
            "script",
            "script.missing",
            "The handler “%(handler)s” runs the job’s script: give its language and source.",
            handler=HANDLER,
        )
    return handler


def check_script_of_xxl_job(fields: Fields, script: Script) -> None:
    """Note what an executor of XXL-JOB would not run."""
    if script.language not in GLUE_LANGUAGES:
        fields.refuse(
            "script.language",
            "script.language_xxl",
            "Executors of XXL-JOB run scripts in these languages: %(languages)s.",
            languages=", ".join(GLUE_LANGUAGES),
        )


def _source(fields: Fields, language: str) -> str | None:
    """The source as it was given: neither trimmed nor changed in its line ends."""
    value = fields.raw.get("source")
    if value is None:
        return None
    if not isinstance(value, str):
        fields.refuse("source", "wrong_type", "This must be text.")
        return None
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        fields.refuse("source", "script.not_utf8", "This is not text that UTF-8 can hold.")
        return None
    if not value.strip():
        fields.refuse("source", "required", "This is required.")
    elif size > MAX_SCRIPT_BYTES:
        fields.refuse(
            "source",
            "script.too_large",
            "This is larger than %(limit)d KiB; install what it needs on the machine instead.",
            limit=MAX_SCRIPT_BYTES // 1024,
        )
    elif "\0" in value:
        fields.refuse("source", "script.nul", "A script cannot hold NUL characters.")
    elif language == "shell" and "\r\n" in value:
        fields.refuse(
            "source",
            "script.line_ends",
            "A shell does not understand the line ends of Windows (CR LF); save it with LF.",
        )
    else:
        return value
    return None


def _signature(fields: Fields) -> str:
    text = fields.text("signature", max_chars=200)
    try:
        size = len(base64.b64decode(text, validate=True))
    except binascii.Error:
        size = -1
    if text and size != _SIGNATURE_BYTES:
        fields.refuse(
            "signature",
            "script.signature",
            "This is no signature: it has %(bytes)d bytes in base64, as “tickwheel script sign”"
            " writes it.",
            bytes=_SIGNATURE_BYTES,
        )
    return text


def _sha256(fields: Fields, source: str | None) -> str:
    given = fields.text("sha256", max_chars=64).lower()
    if source is None:
        if not given and fields.raw.get("source") is None:
            fields.refuse("source", "required", "This is required.")
        elif given and not _SHA256.fullmatch(given):
            fields.refuse("sha256", "script.sha256", "A SHA-256 has 64 hexadecimal digits.")
        return given
    computed = sha256_of(source)
    if given and given != computed:
        fields.refuse(
            "sha256",
            "script.sha256_differs",
            "This is not the SHA-256 of the source, which is %(sha256)s; leave it out when you"
            " change the source.",
            sha256=computed,
        )
    return computed
