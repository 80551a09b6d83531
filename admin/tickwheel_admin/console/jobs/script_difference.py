"""Two versions of a script beside each other, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

CONTEXT = 3  # unchanged lines shown about each change
MOST_COMPARED = 4_000  # lines between the first and the last change: comparing costs their square


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One line of one version."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceRow:
    """What stands beside each other; None: nothing stands there."""

    before: Side | None
    after: Side | None

    @property
    def is_same(self) -> bool:
        """Whether both versions have this line."""
        both = self.before is not None and self.after is not None
        return both and self.before.text == self.after.text  # type: ignore[union-attr]  # as asked


def difference(before: str, after: str) -> list[list[DifferenceRow]]:
    """The parts in which they differ, each with some lines about it; none: they are the same."""
    old, new = before.splitlines(), after.splitlines()
    if old == new:
        return []
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    if max(old_end, new_end) - head > MOST_COMPARED:
        codes = [("replace", 0, old_end - head, 0, new_end - head)]
    else:
        matcher = difflib.SequenceMatcher(
            None, old[head:old_end], new[head:new_end], autojunk=False
        )
        codes = list(matcher.get_opcodes())
    moved = [(op, a + head, b + head, c + head, d + head) for op, a, b, c, d in codes]
    moved = [("equal", 0, head, 0, head), *moved, ("equal", old_end, len(old), new_end, len(new))]
    return [[row for code in group for row in _rows(old, new, code)] for group in _groups(moved)]


Code = tuple[str, int, int, int, int]


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    return next(
        (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
        min(len(left), len(right)),
    )


def _groups(codes: Sequence[Code]) -> list[list[Code]]:
    """Changes that are near each other, with some unchanged lines about them."""
    groups: list[list[Code]] = [[]]
    for place, (op, a, b, c, d) in enumerate(codes):
        if op != "equal":
            groups[-1].append((op, a, b, c, d))
            continue
        is_first, is_last = place == 0, place == len(codes) - 1
        if not is_first and not is_last and b - a <= 2 * CONTEXT:
            groups[-1].append((op, a, b, c, d))
            continue
        if not is_first and groups[-1]:
            end = min(b, a + CONTEXT)
            groups[-1].append((op, a, end, c, c + end - a))
        if not is_last:
            start = max(a, b - CONTEXT)
            begin: list[Code] = [(op, start, b, d - (b - start), d)]
            groups.append(begin)
    return [group for group in groups if any(op != "equal" for op, *_ in group)]


def _rows(old: Sequence[str], new: Sequence[str], code: Code) -> list[DifferenceRow]:
    _, a, b, c, d = code
    return [
        DifferenceRow(
            before=Side(number=a + n + 1, text=old[a + n]) if a + n < b else None,
            after=Side(number=c + n + 1, text=new[c + n]) if c + n < d else None,
        )
        for n in range(max(b - a, d - c))
    ]
