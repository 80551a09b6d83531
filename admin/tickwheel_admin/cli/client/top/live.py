"""The live view: a thread asks the admin, the main thread draws and reads keys."""

from __future__ import annotations

import curses
import locale
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tickwheel_admin.cli.client.errors import NotReached
from tickwheel_admin.cli.client.output.style import Style
from tickwheel_admin.cli.client.top.screen import ScreenLine, TopView, screen_lines
from tickwheel_admin.cli.client.top.snapshot import Snapshot
from tickwheel_admin.cli.failure import Failure

if TYPE_CHECKING:
    from curses import window

_KEY_MS = 200  # between two looks for a key and a new snapshot
_LEAST_ROWS, _LEAST_COLUMNS = 10, 40
_PAIRS = {
    "error": curses.COLOR_RED,
    "warning": curses.COLOR_YELLOW,
    "paused": curses.COLOR_YELLOW,
    "title": curses.COLOR_CYAN,
}


class Watch(threading.Thread):
    """Takes snapshots, one after another, until it is stopped.

    Args:
        take: asks for one.
        seconds: the pause between two.
    """

    def __init__(self, take: Callable[[], Snapshot], seconds: float) -> None:
        super().__init__(name="top", daemon=True)  # a request that hangs holds nobody up
        self._take = take
        self._seconds = seconds
        self._stopped = threading.Event()
        self.newest: Snapshot | None = None
        self.trouble = ""  # why there is no newer one
        self.failure: Failure | None = None  # why there will be none

    def run(self) -> None:
        """The work of the thread."""
        while not self._stopped.is_set():
            try:
                self.newest = self._take()
                self.trouble = ""
            except NotReached as away:
                self.trouble = str(away)
            except Failure as failure:
                self.failure = failure
                return
            self._stopped.wait(self._seconds)

    def stop(self) -> None:
        """Let it end."""
        self._stopped.set()


def show_live(watch: Watch, style: Style, view: TopView) -> None:
    """Draw until the user quits.

    Raises:
        Failure: the admin refuses.
        curses.error: this terminal cannot be drawn on.
    """
    locale.setlocale(locale.LC_ALL, "")  # so that curses draws more than ASCII
    watch.start()
    try:
        curses.wrapper(lambda screen: _loop(screen, watch, style, view))
    finally:
        watch.stop()


def _loop(screen: window, watch: Watch, style: Style, view: TopView) -> None:
    words = _prepared(screen, style)
    shot: Snapshot | None = None
    while watch.failure is None:
        if shot is None or not view.paused:
            shot = watch.newest
        _draw(screen, _lines(screen, shot, view, watch.trouble, style), words)
        match screen.getch():
            case key if key in (ord("q"), ord("Q"), 27):
                return
            case key if key in (ord("p"), ord(" ")):
                view = replace(view, paused=not view.paused)
            case key if key == ord("s"):
                view = view.next_sort()
    raise watch.failure


def _prepared(screen: window, style: Style) -> dict[str, int]:
    """The attributes of words; none have colours where there are none."""
    screen.timeout(_KEY_MS)
    curses.set_escdelay(25)
    with suppress(curses.error):  # some terminals cannot hide their cursor
        curses.curs_set(0)
    words = {"bar": curses.A_REVERSE, "title": curses.A_BOLD, "skipped": curses.A_DIM}
    if not (style.colours and curses.has_colors()):
        return words | {"error": curses.A_BOLD}
    curses.use_default_colors()
    for number, (word, colour) in enumerate(_PAIRS.items(), 1):
        curses.init_pair(number, colour, -1)
        words[word] = words.get(word, 0) | curses.color_pair(number)
    return words


def _lines(
    screen: window, shot: Snapshot | None, view: TopView, trouble: str, style: Style
) -> list[ScreenLine]:
    rows, columns = screen.getmaxyx()
    if shot is None:
        return [ScreenLine(text=(trouble or "Asking the admin …")[: columns - 1])]
    if rows < _LEAST_ROWS or columns < _LEAST_COLUMNS:
        return [ScreenLine(text="The terminal is too small."[: columns - 1])]
    return screen_lines(shot, view, columns=columns, rows=rows, style=style, trouble=trouble)


def _draw(screen: window, lines: list[ScreenLine], words: dict[str, int]) -> None:
    screen.erase()
    for row, line in enumerate(lines):
        with suppress(curses.error):  # the last cell is drawn, and then curses complains
            screen.addstr(row, 0, line.text, words.get(line.word, 0))
    screen.refresh()
