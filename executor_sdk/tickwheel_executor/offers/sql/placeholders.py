"""Where the parameters of a statement stand, as MySQL reads it.

Its driver puts values into the text. It quotes them, but within quotes or a comment of the
statement that would end those, and the rest of the value would be SQL.
"""

from __future__ import annotations

import re

from tickwheel_executor.errors import Fail

_TOKEN = re.compile(
    r"""
    (?P<closed>
      '(?:[^'\\]|\\.|'')*(?:'|$) | "(?:[^"\\]|\\.|"")*(?:"|$) | `[^`]*(?:`|$)
      | (?:--(?=[\s\x00-\x1f]|$) | \#)[^\n]* | /\*(?!M?!).*?(?:\*/|$)
    )
    | (?<![:\w\\]):(?P<name>\w+)(?!:)
    """,
    re.VERBOSE | re.DOTALL,
)
_PARAMETER = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")


def check_placeholders(number: int, statement: str) -> None:
    """Refuse a parameter within quotes or a comment.

    Args:
        number: of the statement, from 1, for messages.

    Raises:
        Fail: there is one.
    """
    for token in _TOKEN.finditer(statement):
        if token["closed"] and (found := _PARAMETER.search(token["closed"])):
            raise Fail(
                f"statement {number}: :{found[1]} stands within quotes or a comment, where no "
                f"value can be bound; write it without quotes, or \\:{found[1]} if it is text"
            )
