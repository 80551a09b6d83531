"""What can be told from the text of a statement: its first word, and whether it only reads.

Databases differ in what a comment is. A statement whose beginning they would read differently is
refused, so that the word that was checked is the word that the database executes.
"""

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
_BLANK = re.compile(
    r"[ \t\n\r\f\v(;]+|(?P<line>(?:--|#)[^\n]*)|(?P<block>/\*(?!M?!).*?(?:\*/|$))", re.DOTALL
)
_WORD = re.compile(r"[A-Za-z]+|/\*M?!")
_PARAMETER = re.compile(r"(?<![:\w\\]):\w")
_WRITES = re.compile(r"\b(insert|update|delete|merge|replace|into)\b", re.IGNORECASE)
_INTO = re.compile(r"\binto\b", re.IGNORECASE)
_INTO_FILE = re.compile(r"\b(outfile|dumpfile)\b", re.IGNORECASE)


def first_word(statement: str) -> str:
    """Its first word in capitals, after comments and brackets; "" if there is none.

    A comment that MySQL executes, `/*! … */`, is a word of its own: nobody's.
    """
    position = 0
    while match := _BLANK.match(statement, position):
        position = match.end()
    found = _WORD.match(statement, position)
    return found[0].upper() if found else ""


def may_have_cursor(statement: str) -> bool:
    """Whether PostgreSQL may be able to declare a cursor for it."""
    return first_word(statement) in _ROW_WORDS


def only_returns_rows(statement: str) -> bool:
    """Whether it surely only reads and returns rows; False if in doubt."""
    return may_have_cursor(statement) and not _WRITES.search(statement)


def may_be_limited(statement: str) -> bool:
    """Whether MySQL's limit of rows can only concern rows that are returned."""
    return may_have_cursor(statement) and not _INTO.search(statement)


def check_statement(number: int, statement: str, allowed: frozenset[str], connection: str) -> None:
    """Refuse what this connection does not allow.

    Args:
        number: of the statement, from 1, for messages.
        allowed: first words; none: any.

    Raises:
        Fail: it is empty, controls the transaction, begins with a word that is not allowed, or with
            a comment that databases read differently.
    """
    where = f"statement {number}"
    if "\0" in statement:
        raise Fail(f"{where} contains a NUL character; take it out")
    if why := _doubt(statement):
        raise Fail(f"{where} begins with a comment that {why}; take that out of the comment")
    word = first_word(statement)
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


def check_writes_no_file(number: int, statement: str) -> None:
    """Refuse what MySQL does even in a read-only transaction: write a file of its server.

    Raises:
        Fail: the statement contains one of the words for it; keywords cannot be written otherwise.
    """
    if found := _INTO_FILE.search(statement):
        raise Fail(
            f"statement {number} contains {found[0].upper()}, which writes a file on the server, "
            "but the connection is read-only; give a text with this word as a value"
        )


def shown(statement: str) -> str:
    """The beginning of a statement, on one line. Values are bound, so it contains none."""
    text = " ".join(statement.split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _doubt(statement: str) -> str:
    """What of the comments before the first word databases would read differently; "": nothing."""
    position = 0
    while match := _BLANK.match(statement, position):
        position = match.end()
        comment = match["line"] or match["block"]
        if not comment:
            continue
        # PostgreSQL nests comments, so that this one would go on behind its first end. The slash
        # of an end may belong to the next beginning: /* x /*/.
        if match["block"] and "/*" in comment[2:]:
            return "contains another /*"
        # PostgreSQL ends a line at a carriage return, others do not.
        if match["line"] and "\r" in comment.removesuffix("\r"):
            return "contains a carriage return"
        if _PARAMETER.search(comment):
            return "contains a parameter such as :name"
    return ""
