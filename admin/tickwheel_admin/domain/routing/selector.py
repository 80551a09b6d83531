"""Label selectors, such as `zone=eu,gpu`: which nodes a job may run on.

    selector    := requirement {"," requirement}   all of them must hold
    requirement := key | "!" key                   the node has the label, or has it not
                 | key ("=" | "==" | "!=") value
                 | key ("in" | "notin") "(" value {"," value} ")"

As in Kubernetes, `!=` and `notin` also hold where the label is missing. Labels may hold any
printable text here, so a key or value with spaces or signs is written in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NoReturn

MAX_SELECTOR_CHARS = 1_000


class SelectorError(ValueError):
    """A text that is no selector; the template says where, and the way out."""

    def __init__(self, *, at: int, template: str, **params: Any) -> None:
        """Keep what is wrong at character `at`, counted from 1."""
        self.at = at
        self.template = template
        self.params: dict[str, Any] = {"at": at, **params}
        super().__init__(template % self.params)


class Operator(StrEnum):
    """What a requirement asks of a label."""

    EXISTS = "exists"
    ABSENT = "absent"
    IN = "in"
    NOT_IN = "notin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What one label must be like."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()  # with IN and NOT_IN: at least one

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels may be chosen."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values

    @property
    def text(self) -> str:
        """The requirement as people write it."""
        key, values = _written(self.key), [_written(value) for value in self.values]
        match self.operator:
            case Operator.EXISTS:
                return key
            case Operator.ABSENT:
                return f"!{key}"
            case _ if len(values) == 1:
                return f"{key}{'=' if self.operator is Operator.IN else '!='}{values[0]}"
            case _:
                return f"{key} {self.operator.value} ({','.join(values)})"


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector; one without requirements chooses every node."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether every requirement holds."""
        return all(requirement.holds(labels) for requirement in self.requirements)

    @property
    def text(self) -> str:
        """The normal form: parsed again, it is the same selector."""
        return ",".join(requirement.text for requirement in self.requirements)


@lru_cache(maxsize=1_024)  # the router asks again with every batch
def parse_selector(text: str) -> Selector:
    """The selector that was written; spaces between its parts do not matter.

    Raises:
        SelectorError: it breaks the grammar, or is longer than MAX_SELECTOR_CHARS.
    """
    if len(text) > MAX_SELECTOR_CHARS:
        raise SelectorError(
            at=MAX_SELECTOR_CHARS + 1,
            template="A selector has at most %(limit)d characters.",
            limit=MAX_SELECTOR_CHARS,
        )
    return _Parser(text).selector() if text.strip() else Selector()


_BARE = re.compile(r'[^\s,()=!"]+')
_TOKEN = re.compile(rf'\s*({_BARE.pattern}|"(?:[^"\\]|\\["\\])*"|==|!=|[,()=!]|$)')


def _written(word: str) -> str:
    if _BARE.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Parser:
    """Reads a selector from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._start, self._end = 0, 0  # of the token at hand
        self._next = ""
        self._take()

    def selector(self) -> Selector:
        requirements = [self._requirement()]
        while self._next == ",":
            self._take()
            requirements.append(self._requirement())
        if self._next:
            self._refuse(
                template="A comma is expected before “%(found)s” (character %(at)d): zone=eu,gpu",
                found=self._next,
            )
        return Selector(tuple(requirements))

    def _requirement(self) -> Requirement:
        if self._next == "!":
            self._take()
            return Requirement(key=self._key(), operator=Operator.ABSENT)
        key = self._key()
        match self._next:
            case "=" | "==":
                self._take()
                return Requirement(key=key, operator=Operator.IN, values=(self._value(),))
            case "!=":
                self._take()
                return Requirement(key=key, operator=Operator.NOT_IN, values=(self._value(),))
            case "in" | "notin":
                operator = Operator(self._take())
                return Requirement(key=key, operator=operator, values=self._values())
            case _:
                return Requirement(key=key, operator=Operator.EXISTS)

    def _key(self) -> str:
        if not self._is_word():
            self._refuse(
                template="The name of a label is expected at character %(at)d,"
                " such as zone in zone=eu."
            )
        return _word(self._take())

    def _value(self) -> str:
        if not self._is_word() or self._next == '""':  # no label's value is empty
            self._refuse(template="A value is expected at character %(at)d, such as eu in zone=eu.")
        return _word(self._take())

    def _values(self) -> tuple[str, ...]:
        if self._next != "(":
            self._refuse(
                template="Values in parentheses are expected at character %(at)d: zone in (eu, us)"
            )
        self._take()
        values = [self._value()]
        while self._next == ",":
            self._take()
            values.append(self._value())
        if self._next != ")":
            self._refuse(
                template="A comma or a closing parenthesis is expected at character %(at)d:"
                " zone in (eu, us)"
            )
        self._take()
        return tuple(dict.fromkeys(values))

    def _is_word(self) -> bool:
        return self._next[:1] not in ("", ",", "(", ")", "=", "!")

    def _take(self) -> str:
        """The token at hand; the one after it becomes the next."""
        taken = self._next
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            blank = len(self._text[self._end :]) - len(self._text[self._end :].lstrip())
            raise SelectorError(
                at=self._end + blank + 1,
                template="The quotation mark at character %(at)d is not closed; inside quotation"
                ' marks, " and \\ are written \\" and \\\\.',
            )
        self._next, self._start, self._end = found[1], found.start(1), found.end()
        return taken

    def _refuse(self, *, template: str, **params: Any) -> NoReturn:
        raise SelectorError(at=self._start + 1, template=template, **params)


def _word(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token.startswith('"') else token
