"""Make any text fit to cross the wire and to be stored by every database."""

from __future__ import annotations


def clean(text: str) -> str:
    """Replace what UTF-8 or a database refuses: lone surrogates and NUL."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def cut(text: str, limit: int) -> str:
    """At most `limit` characters; a cut text ends with a mark that says how long it was."""
    if len(text) <= limit:
        return text
    mark = f" … [cut, {len(text)} characters]"
    return text[: limit - len(mark)] + mark
