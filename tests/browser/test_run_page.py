"""The page of a run: what its log may look like, what is usual, and its keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.kit.consoles import Console, set_preference
from tests.browser.test_looks import AXE, run_axe

E = "\x1b["
LOOKS = {
    "plain": [["plain", ""]],
    f"{E}31mred{E}0m no": [["red", "ansi-1"], [" no", ""]],
    f"{E}91mbright{E}39m off": [["bright", "ansi-9"], [" off", ""]],
    f"{E}1;4;33mall{E}22;24m three": [
        ["all", "ansi-bold ansi-underline ansi-3"],
        [" three", "ansi-3"],
    ],
    f"{E}2mdim{E}mnone": [["dim", "ansi-dim"], ["none", ""]],
    f"{E}3;9mx": [["x", "ansi-italic ansi-strike"]],
    f"{E}42mok{E}49m.": [["ok", "ansi-on-2"], [".", ""]],
    f"{E}7mreversed": [["reversed", "ansi-on-7"]],
    f"{E}31;7mred behind{E}27mred": [["red behind", "ansi-on-1"], ["red", "ansi-1"]],
    f"{E}38;5;9mof 256": [["of 256", "ansi-9"]],
    f"{E}38;5;196mcube": [["cube", "ansi-9"]],
    f"{E}38;5;34mgreen": [["green", "ansi-2"]],
    f"{E}38;5;250;1mgrey": [["grey", "ansi-bold ansi-7"]],
    f"{E}38;2;255;90;90mtrue": [["true", "ansi-9"]],
    f"{E}38;2;0;120;220mblue": [["blue", "ansi-12"]],
    f"{E}48;2;10;10;10;32mon black": [["on black", "ansi-2 ansi-on-0"]],
    f"{E}38:2:0:205:0mcolons": [["colons", "ansi-2"]],
    f"{E}38;5mcut": [["cut", ""]],
    f"{E}38;2;1mcut": [["cut", ""]],
    f"{E}38;5;999mwrong": [["wrong", ""]],
    f"{E}?25lhidden{E}2K cursor{E}1;1H": [["hidden", ""], [" cursor", ""]],
    "\x1b]0;title\x07text": [["text", ""]],
    "\x1b]8;;https://example.net\x1b\\link\x1b]8;;\x1b\\": [["link", ""]],
    "\x1bPq#0~\x1b\\after": [["after", ""]],
    "\x1b(Bset\x1b=mode\x1b": [["set", ""], ["mode", ""]],
    "a\x00\x07\x08b\x9b\rc": [["abc", ""]],
    f"<b>{E}31m<img src=x>": [["<b>", ""], ["<img src=x>", "ansi-1"]],
}


def module(page: Page, name: str) -> str:
    """The address of one of the console's modules."""
    entry = page.locator("script[src*='js/app.js']").get_attribute("src") or ""
    return entry.replace("app.js", name)


def test_terminal_codes_become_classes_and_nothing_else(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:events-compact']}")
    found = admin_page.evaluate(
        """async ([address, texts]) => {
          const {parts} = await import(address);
          return texts.map((text) => parts(text).map((part) => [part.text, part.classes]));
        }""",
        [module(admin_page, "ansi.js"), list(LOOKS)],
    )

    assert dict(zip(LOOKS, found, strict=True)) == LOOKS


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_of_a_log_can_be_read(
    admin_page: Page, context: BrowserContext, console: Console, theme: str
) -> None:
    set_preference(context, console, "theme", theme)
    admin_page.goto(f"{console.url}/runs/{console.ids['run:events-compact']}")
    expect(admin_page.locator(".log-line")).to_have_count(160)
    fronts = [f"{E}{code}m front {code} {E}0m" for code in (*range(30, 38), *range(90, 98))]
    backs = [f"{E}{code}m back {code} {E}0m" for code in (*range(40, 48), *range(100, 108))]
    reversed_ = [f"{E}7;{code}m reversed {code} {E}0m" for code in range(30, 38)]
    admin_page.evaluate(
        """async ([address, texts]) => {
          const {append, clear, view} = await import(address);
          clear('');
          const levels = ['info', 'warning', 'error'];
          append(levels.flatMap((l) => texts.map((x, n) => ({n: n + 1, t: 0, l, x}))));
          view.scrollTop = 0;
        }""",
        [module(admin_page, "log-view.js"), ["".join(each) for each in (fronts, backs, reversed_)]],
    )
    expect(admin_page.locator(".log-line")).to_have_count(9)
    admin_page.evaluate(AXE)
    found = [each for each in run_axe(admin_page, theme) if "contrast" in each]

    assert found == []


def test_a_run_says_what_is_usual_and_listens_to_keys(admin_page: Page, console: Console) -> None:
    admin_page.goto(f"{console.url}/runs/{console.ids['run:events-compact']}")
    running = admin_page.locator(".phases li", has_text="Running")
    expect(running).to_contain_text(re.compile(r"usually \d+m \d+s"))
    expect(admin_page.locator(".eta")).to_contain_text("usual")
    expect(admin_page.locator(".log-line")).not_to_have_count(0)  # its script listens to keys
    follow = admin_page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    admin_page.keyboard.press("f")
    expect(follow).to_have_attribute("aria-pressed", "false")
    admin_page.keyboard.press("w")
    expect(admin_page.locator(".log-view")).to_have_class(re.compile("wrap"))
    admin_page.keyboard.press("/")
    admin_page.keyboard.type("fw")
    expect(admin_page.get_by_label("Find in the log")).to_have_value("fw")
    expect(follow).to_have_attribute("aria-pressed", "true")  # a search shows the end again


def test_a_step_is_paused_and_skipped_by_keyboard(admin_page: Page, console: Console) -> None:
    run_id = console.ids["run:weekly-load"]
    admin_page.goto(f"{console.url}/runs/{run_id}")
    row, dialog = admin_page.locator("#step-load"), admin_page.locator("dialog[open]")

    row.get_by_role("link", name="Skip or pause").press("Enter")
    dialog.get_by_role("button", name="Pause before it").press("Enter")
    expect(row).to_contain_text("pauses before it begins")
    row.get_by_role("link", name="Skip or pause").press("Enter")
    expect(dialog.get_by_role("button", name="Lift the pause")).to_be_visible()
    dialog.get_by_label("Reason").fill("Loaded by hand.")
    dialog.get_by_role("button", name="Skip it").press("Enter")

    expect(row).to_contain_text("Loaded by hand.")
    expect(row.locator("[data-state]")).to_have_attribute("data-state", "succeeded")
