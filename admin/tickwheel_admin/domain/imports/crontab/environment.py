"""Lines of a crontab that set a variable.

As `load_env` of Debian's cron 3.0pl1 reads them: the value is taken as it stands, nothing in it is
expanded; quotes around a whole value keep its blanks, any others are part of it.
"""

from __future__ import annotations

import re

_LINE = re.compile(
    r"""[ \t]*
    (?: "(?P<double>[^"]+)" | '(?P<single>[^']+)' | (?P<plain>[^\s="']+) )
    [ \t]*=[ \t]*
    (?: "(?P<in_double>[^"]*)"[ \t]* | '(?P<in_single>[^']*)'[ \t]* | (?P<text>[^\s"'].*) )
    """,
    re.VERBOSE,
)


def read_variable(line: str) -> tuple[str, str] | None:
    """Name and value; None: the line sets no variable."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name = match["double"] or match["single"] or match["plain"]
    if match["text"] is not None:
        return name, match["text"].rstrip()
    return name, match["in_double"] or match["in_single"] or ""
