"""What can be told from the text of a statement: its first word, and whether it only reads."""

from __future__ import annotations

import re

from tickwheel_executor.errors import Fail

READING_WORDS = frozenset(
    {"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE", "DESC"}
)
_TRANSACTION_WORDS = frozenset(
    {"BEGIN", "START", "COMMIT", "ROLLBACK", "END", "ABORT", "SAVEPOINT", "RELEASE", "XA"}
)
_ROW_WORDS = ("SELECT", "WITH", "VALUES", "TABLE")
_MAX_SHOWN = 60
_BLANK = re.compile(r"[\s(;]+|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|/\*(?![!M]).*?(?:\*/|$)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+|/\*M?!")
_WRITES = re.compile(r"\b(insert|update|delete|merge|replace|into)\b", re.IGNORECASE)


def first_word(statement: str) -> str:
    """Its first word in capitals, after comments and brackets; "" if there is none.

    A comment that MySQL executes, `/*! … */`, is a word of its own: nobody's.
    """
    position = 0
    while match := _BLANK.match(statement, position):
        position = match.end()
    found = _WORD.match(statement, position)
    return found[0].upper() if found else ""


def only_returns_rows(statement: str) -> bool:
    """Whether it surely only reads and returns rows; False if in doubt."""
    return first_word(statement) in _ROW_WORDS and not _WRITES.search(statement)


def check_statement(number: int, statement: str, allowed: frozenset[str], connection: str) -> None:
    """Refuse what this connection does not allow.

    Args:
        number: of the statement, from 1, for messages.
        allowed: first words; none: any.

    Raises:
        Fail: it is empty, controls the transaction, or begins with a word that is not allowed.
    """
    word = first_word(statement)
    where = f"statement {number}"
    if not word:
        raise Fail(f"{where} is empty")
    if word in _TRANSACTION_WORDS:
        raise Fail(
            f"{where} begins with {word}, but the parameter `transaction` decides on "
            "transactions; leave the statement out"
        )
    if allowed and word not in allowed:
        raise Fail(
            f"{where} begins with {word}; the connection {connection!r} allows only "
            f"{', '.join(sorted(allowed))}"
        )


def shown(statement: str) -> str:
    """The beginning of a statement, on one line. Values are bound, so it contains none."""
    text = " ".join(statement.split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
