"""The editor of a script: in a shadow root, and within the policy of the page."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.kit.consoles import Console

YAML = """\
name: nightly-cleanup
script:
  language: python
  source: |
    import os
    print("first")
"""


def may_edit_scripts(page: Page, console: Console) -> None:
    """Give the viewer of the sample what nobody has by their role."""
    page.goto(f"{console.url}/users?q=viewer")
    page.get_by_role("link", name="viewer", exact=True).click()
    page.get_by_label("Role on all executors").select_option("developer")
    page.get_by_label("May edit scripts on all executors").check()
    page.get_by_role("button", name="Save").first.click()
    expect(page.locator("#toasts")).to_contain_text("The roles were saved.")


def test_a_script_is_written_saved_and_compared(
    admin_page: Page, context: BrowserContext, console: Console
) -> None:
    page = admin_page
    may_edit_scripts(page, console)
    console.open_as(context, "viewer")
    page.goto(f"{console.url}/jobs/new?executor={console.ids['executor:archive']}")
    page.get_by_role("button", name="YAML").click()
    page.locator("textarea[name=yaml]").fill(YAML)
    page.get_by_role("button", name="Add the job").click()
    page.get_by_role("link", name="Script", exact=True).click()

    editor = page.locator(".script-editor .cm-content")
    expect(editor).to_be_visible()
    expect(page.locator(".script-editor .cm-line").first.locator("span").first).to_have_text(
        "import"
    )
    expect(page.locator("textarea[name=source]")).to_be_hidden()
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type('print("second")')
    page.get_by_label("Remark").fill("says it twice")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("The script was saved.")
    page.get_by_role("link", name="What changed: Revision 2").click()
    expect(page.locator(".script-difference .changed .after")).to_have_text('print("second")')
    page.get_by_role("link", name="Bring back: Revision 1").click()
    expect(page.get_by_text("as in revision 1, not saved")).to_be_visible()
    expect(page.locator(".script-editor .cm-line")).to_have_count(3)
