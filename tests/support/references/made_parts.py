"""Parts of pages that are made from the code; `python -m tests.support.documents` writes them.

A page has one such part, between two comments.
"""

from __future__ import annotations

BEGIN = "<!-- made by `python -m tests.support.documents` -->\n"
END = "<!-- end of what is made -->\n"


def with_part(text: str, made: str) -> str:
    """The page with what is made now.

    Raises:
        ValueError: the page has no place for it.
    """
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks {BEGIN!r} or {END!r}")
    return f"{head}{BEGIN}\n{made}\n\n{END}{tail}"
