"""The screen of `top`: lines that fit a terminal, made from a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tickwheel_admin.cli.client.groups.nodes import duty_of
from tickwheel_admin.cli.client.output.run_columns import TOOK, job_of
from tickwheel_admin.cli.client.output.style import Style
from tickwheel_admin.cli.client.output.table import (
    Item,
    TableColumn,
    made,
    number,
    table_lines,
    text,
)
from tickwheel_admin.cli.client.output.words import cut, local_time, pad, visible, width_of
from tickwheel_admin.cli.client.top.snapshot import Snapshot

SORTS: Final = ("longest", "newest", "job", "node")
_PLAIN = Style(columns=None, colours=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenLine:
    """A line, and the word whose colour it has; `title` and `bar` are for headings."""

    text: str
    word: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView:
    """What the user chose with keys."""

    sort: str = SORTS[0]
    paused: bool = False

    def next_sort(self) -> TopView:
        """With the next order."""
        return replace(self, sort=SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    title: str
    items: Sequence[Item]
    columns: Sequence[TableColumn]
    at_least: int  # so many rows before others get more
    word_of: str = ""  # the field whose word colours the row


_ATTENTION = (
    text("SEVERITY", "severity"),
    made("ABOUT", lambda item: _about(item), cuttable=True),
    text("MESSAGE", "message", cuttable=True),
)
_RUNNING = (
    number("RUN", "id"),
    made("JOB", job_of, cuttable=True),
    text("STATE", "state"),
    TOOK,
    text("NODE", "node_name", cuttable=True),
    made("PROGRESS", lambda item: _progress(item), cuttable=True),
)
_WAITING = (
    number("RUN", "id"),
    made("JOB", job_of, cuttable=True),
    TableColumn(title="DUE", cell=lambda item, style: local_time(item["due_at"], style.zone)),
    text("ORIGIN", "origin"),
    text("REASON", "reason", cuttable=True),
)
_NODES = (
    text("NODE", "name", cuttable=True),
    text("EXECUTOR", "executor_name", cuttable=True),
    made("SLOTS", lambda node: f"{node['in_use']}/{node['slots']}", right=True),
    made("", lambda node: _bar(node)),
    made("DUTY", duty_of),
)


def screen_lines(
    shot: Snapshot,
    view: TopView,
    *,
    columns: int,
    rows: int | None,
    style: Style = _PLAIN,
    trouble: str = "",
) -> list[ScreenLine]:
    """All lines of the screen.

    Args:
        columns: of the terminal; no line is wider.
        rows: of the terminal, at least 10; None: as many as there is to show.
        trouble: why the snapshot is not of now.
    """
    head = _head(shot, view, columns, style)
    foot = [] if rows is None else [_foot(view, columns, trouble)]
    panels = [each for each in _panels(shot, view) if each.items]
    heights = _heights(panels, None if rows is None else rows - len(head) - len(foot))
    body: list[ScreenLine] = []
    for panel, height in zip(panels, heights, strict=True):
        body += _panel_lines(panel, height, columns, style)
    if rows is not None:
        body = body[: rows - len(head) - len(foot)]
        body += [ScreenLine(text="")] * (rows - len(head) - len(foot) - len(body))
    lines = [*head, *body, *foot]
    return [replace(line, text=cut(line.text, columns)) for line in lines]


def _head(shot: Snapshot, view: TopView, columns: int, style: Style) -> list[ScreenLine]:
    now = f"{shot.at.astimezone(style.zone):%Y-%m-%d %H:%M:%S}"
    state = " (stands still)" if view.paused else ""
    left = f"Tickwheel  {shot.url}"
    space = max(columns - width_of(left) - len(now) - len(state), 2)
    used, slots = shot.slots
    looked = shot.attention
    figures = (
        f"running {shot.running_count}  waiting {shot.waiting_count}  slots {used}/{slots}"
        f"  nodes {shot.live_nodes}  alarms {looked['open_alarms']}"
        f"  24 h: {looked['succeeded']} ok, {looked['failed']} failed"
    )
    lines = [
        ScreenLine(text=f"{left}{' ' * space}{now}{state}", word="bar"),
        ScreenLine(text=figures),
    ]
    if shot.paused_at:
        since = local_time(shot.paused_at, style.zone)
        lines.append(ScreenLine(text=f"Everything is paused since {since}.", word="paused"))
    return lines


def _foot(view: TopView, columns: int, trouble: str) -> ScreenLine:
    if trouble:
        return ScreenLine(text=pad(cut(visible(trouble), columns), columns), word="error")
    keys = f"q quit   p {'go on' if view.paused else 'pause'}   s sort: {view.sort}"
    return ScreenLine(text=pad(keys, columns), word="bar")


def _panels(shot: Snapshot, view: TopView) -> list[_Panel]:
    attention = shot.attention["items"]
    return [
        _Panel(
            title=f"Needs attention: {len(attention)}",
            items=attention,
            columns=_ATTENTION,
            at_least=3,
            word_of="severity",
        ),
        _Panel(
            title=f"Running: {shot.running_count}",
            items=_sorted(shot.running, view.sort),
            columns=_RUNNING,
            at_least=5,
        ),
        _Panel(
            title=f"Waiting: {shot.waiting_count}",
            items=sorted(shot.waiting, key=lambda run: run["due_at"] or "9"),
            columns=_WAITING,
            at_least=3,
        ),
        _Panel(
            title=f"Nodes: {shot.live_nodes}",
            items=sorted(shot.nodes, key=lambda node: -node["in_use"] / max(node["slots"], 1)),
            columns=_NODES,
            at_least=3,
        ),
    ]


def _heights(panels: Sequence[_Panel], rows: int | None) -> list[int]:
    """How many items each panel shows: first what it needs at least, then in turns."""
    wanted = [len(panel.items) for panel in panels]
    if rows is None:
        return wanted
    left = rows - 3 * len(panels)  # a gap, the title and the titles of the columns
    given = [0] * len(panels)
    for most in ([panel.at_least for panel in panels], wanted):
        growing = True
        while growing:
            growing = False
            for index in range(len(panels)):
                if left > 0 and given[index] < min(most[index], wanted[index]):
                    given[index] += 1
                    left -= 1
                    growing = True
    return given


def _panel_lines(panel: _Panel, height: int, columns: int, style: Style) -> list[ScreenLine]:
    if height == 0:
        return [ScreenLine(text=""), ScreenLine(text=panel.title, word="title")]
    shown = panel.items[:height]
    fitting = replace(style, columns=columns, colours=False)
    lines = list(table_lines(shown, panel.columns, fitting))
    more = len(panel.items) - height
    title = f"{panel.title} (the first {height})" if more > 0 else panel.title
    told = [
        ScreenLine(text=""),
        ScreenLine(text=title, word="title"),
        ScreenLine(text=lines[0], word="skipped"),
    ]
    for item, line in zip(shown, lines[1:], strict=True):
        word = str(item.get(panel.word_of, "")) if panel.word_of else ""
        told.append(ScreenLine(text=line, word=word))
    return told


def _sorted(runs: Sequence[Item], sort: str) -> list[Item]:
    if sort == "job":
        return sorted(runs, key=lambda run: (job_of(run), run["id"]))
    if sort == "node":
        return sorted(runs, key=lambda run: (run["node_name"] or "", run["id"]))
    by_start = sorted(runs, key=lambda run: run["started_at"] or "9")
    return by_start if sort == "longest" else by_start[::-1]


def _about(item: Item) -> str:
    if item["job_name"]:
        return f"{item['executor_name']}/{item['job_name']}"
    return str(item["executor_name"] or item["admin_name"] or "")


def _progress(run: Item) -> str:
    if run["progress"] is None:
        return ""
    return f"{run['progress']:.0%} {run['progress_text'] or ''}".rstrip()


def _bar(node: Item) -> str:
    filled: int = min(round(10 * node["in_use"] / max(node["slots"], 1)), 10)
    return "█" * filled + "·" * (10 - filled)
