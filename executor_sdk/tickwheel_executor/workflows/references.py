"""Values that a step takes when it starts: `extract.result["files"]` is `${steps.extract…}`."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import msgspec

from tickwheel_shared.workflows.paths import MAX_PATH_PARTS, Path, in_words

_KEY = re.compile(r"[^\"\\\x00-\x1f]{0,200}")


class Reference:
    """A value that is known when the workflow runs; goes on with `["name"]` and `[0]`.

    As a parameter it becomes the value itself, with its JSON type; in an f-string the value is
    written into the text. Its `path` is for conditions: `when=f"size({files.path}) > 0"`.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> str:
        """As conditions name it: `steps.extract.result.files`."""
        return in_words(self._path)

    def __getitem__(self, name: str | int) -> Reference:
        """What is in it under this name, or at this place.

        Raises:
            TypeError: neither a text nor a whole number.
            ValueError: a negative place, a name that no path can have, or more than 50 parts.
        """
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise TypeError(f"{self.path}[{name!r}]: wanted a name, or a place from 0")
        if isinstance(name, int) and not 0 <= name <= 999_999_999:
            raise ValueError(f"{self.path}[{name}]: places count from 0, and not from the end")
        if isinstance(name, str) and not _KEY.fullmatch(name):
            raise ValueError(
                f"{self.path}[{name!r}]: a name has at most 200 characters, and none of them is a "
                "double quote, a backslash or a control character"
            )
        if len(self._path) >= MAX_PATH_PARTS:
            raise ValueError(f"{self.path}: a path has at most {MAX_PATH_PARTS} parts")
        return Reference((*self._path, name))

    def __str__(self) -> str:
        return f"${{{self.path}}}"

    def __repr__(self) -> str:
        return f"<{self}>"

    __iter__ = None  # else Python would ask for [0], [1] … without an end

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} is known when the workflow runs: use when= to decide on it")


def as_json(value: object) -> str:
    """JSON text of a value with references in it.

    Raises:
        TypeError, ValueError, RecursionError: it is not JSON.
    """
    return msgspec.json.encode(value, enc_hook=_text_of_reference).decode()


def _text_of_reference(value: object) -> Any:
    if isinstance(value, Reference):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
