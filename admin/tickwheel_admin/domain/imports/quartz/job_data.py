"""The data of a job or trigger, as Quartz stores it: a serialised map, or properties as text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tickwheel_admin.domain.imports.names import shortened
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.imports.quartz.java_objects import DAMAGE, BadJavaStream, JavaObject
from tickwheel_admin.domain.imports.quartz.java_stream import MAGIC, MAX_BYTES, read_java, whole
from tickwheel_admin.domain.imports.quartz.java_values import Budget, NotPlain, pairs, plain
from tickwheel_admin.domain.jobs.secret_references import as_text

_REMEMBERED = 200
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE = re.compile(r"(?:[^\\\n]|\\.)*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.)|$)", re.DOTALL)
_PAIR = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def read_job_data(content: bytes | None) -> tuple[dict[str, Any], list[ImportNote]]:
    """What it holds as JSON has it, and what of it had to be left out.

    A text that looks like a reference to a secret is written so that it is none.
    """
    data, notes = _read(bytes(content)) if content else ({}, [])
    return as_text(data), list(notes)


@lru_cache(maxsize=_REMEMBERED)
def _read(content: bytes) -> tuple[dict[str, Any], list[ImportNote]]:
    """The same for one content; many jobs have the same one, such as none."""
    if len(content) > MAX_BYTES:
        return {}, [note("job_data", f"its data is left out: it is over {MAX_BYTES // 1024} KiB")]
    if not content.startswith(MAGIC):
        return _properties(content), []
    try:
        found = read_java(content)
        entries = list(pairs(found)) if isinstance(found, JavaObject) else []
    except BadJavaStream as error:
        return {}, [note("job_data", f"its data is left out: {error}")]
    except NotPlain as error:
        return {}, [note("job_data", f"its data is left out: it is {shortened(str(error))}")]
    except DAMAGE:
        return {}, [note("job_data", "its data is left out: it is cut off or damaged")]
    data: dict[str, Any] = {}
    budget = Budget()
    notes: list[ImportNote] = []
    for key, value in entries:
        if not isinstance(key, str):
            notes.append(note("job_data", "data whose key is no text is left out"))
            continue
        try:
            data[key] = plain(value, budget)
        except NotPlain as error:
            text = f"data “{shortened(key)}” is left out: it is {shortened(str(error))}"
            notes.append(note("job_data", text))
        except DAMAGE:
            text = f"data “{shortened(key)}” is left out: it is cut off or damaged"
            notes.append(note("job_data", text))
    return data, notes


def _properties(content: bytes) -> dict[str, Any]:
    """As `java.util.Properties.load` reads them."""
    found: dict[str, Any] = {}
    text = content.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    for match in _LINE.finditer(text):
        line = re.sub(r"\\\n[ \t\f]*", "", match[0]).strip("\n").lstrip(" \t\f")
        if line and line[0] not in "#!" and (pair := _PAIR.fullmatch(line)) is not None:
            found[_unescaped(pair[1])] = _unescaped(pair[2])
    return found


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2] or "", match[2] or "")

    return whole(_ESCAPE.sub(one, text))
