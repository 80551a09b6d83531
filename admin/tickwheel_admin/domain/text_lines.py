"""One entry of a log stays one entry, whatever its text holds."""

from __future__ import annotations

import re

# Whatever some program takes for the end of a line.
_LINE_ENDS = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTINUED = "\n    "
# They move the cursor of a terminal, over what it shows already; colours are left.
_CONTROLS = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0e-\x1a\x1f\x7f-\x9f]")


def continued(text: str) -> str:
    """The text with every line but the first set in by four spaces: none looks like an entry."""
    return _LINE_ENDS.sub(_CONTINUED, text)


def without_controls(text: str) -> str:
    """The text with other controls written out, such as \\x1b; line ends, tabs and colours stay."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
