"""The line of a script that failed, as far as what its language said tells."""

from __future__ import annotations

import re

# Nodes keep the source in a file named script.sh, script.py and so on. Python writes
# `script.py", line 3`, shells `script.sh: line 3:` or `script.sh: 3:`, Perl `script.pl line 3`, PHP
# `script.php on line 3`, and the others `script.rb:3`.
_PLACE = re.compile(r"\bscript\.[a-z0-9]{1,10}\b[\"':,]{0,2} ?(?:on )?(?:line )?([0-9]{1,6})\b")
_INNERMOST_FIRST = frozenset({"node", "ruby"})


def failing_line(language: str, message: str | None, *, lines: int) -> int | None:
    """The number of a line, from 1; None where it is not told.

    Args:
        message: what the run failed with.
        lines: how many the script has; a number beyond them means something else.
    """
    found = [int(number) for number in _PLACE.findall(message or "")]
    found = [number for number in found if 1 <= number <= lines]
    if not found:
        return None
    return found[0] if language in _INNERMOST_FIRST else found[-1]
