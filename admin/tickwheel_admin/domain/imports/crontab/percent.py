r"""The percent signs of a command: `%` ends it and begins its standard input, `\%` stands for `%`.

As `child_process` of Debian's cron 3.0pl1 does it, backslashes included.
"""

from __future__ import annotations


def split_command(text: str) -> tuple[str, str]:
    """What the shell gets, and what it reads: each further `%` ends a line of it."""
    command: list[str] = []
    escaped = False
    for place, char in enumerate(text):
        if escaped:
            escaped = False
            if char in "%\\":
                command[-1] = char
                continue
        elif char == "\\":
            escaped = True
        elif char == "%":
            return "".join(command), _input(text[place + 1 :])
        command.append(char)
    return "".join(command), ""


def _input(text: str) -> str:
    read: list[str] = []
    escaped = False
    for char in text:
        found = char
        if escaped:
            if char != "%":
                read.append("\\")
        elif char == "%":
            found = "\n"
        escaped = found == "\\"
        if not escaped:
            read.append(found)
    if escaped:
        read.append("\\")
    if read and read[-1] != "\n":
        read.append("\n")
    return "".join(read)
