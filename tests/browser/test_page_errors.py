"""The `page` fixture notices what a person would not: console errors and CSP violations."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route

from tests.browser.conftest import PageErrors

ADDRESS = "http://tickwheel.test/"


def serve(page: Page, body: str) -> None:
    def answer(route: Route) -> None:
        route.fulfill(
            body=f"<!doctype html><link rel=icon href=data:,><h1>Jobs</h1>{body}",
            content_type="text/html",
            headers={"Content-Security-Policy": "default-src 'self'; img-src data:"},
        )

    page.route(f"{ADDRESS}**", answer)
    page.goto(ADDRESS)


def test_a_clean_page_has_no_errors(page: Page, page_errors: PageErrors) -> None:
    serve(page, "")

    assert page.get_by_role("heading").inner_text() == "Jobs"
    assert page_errors.seen == []


@pytest.mark.parametrize(
    "body", ["<script>document.title = 'inline'</script>", "<p style='color: red'>"]
)
def test_what_the_policy_refuses_is_seen(page: Page, page_errors: PageErrors, body: str) -> None:
    serve(page, body)

    page.wait_for_function("() => window.__violations.length")
    assert page_errors.unexpected()

    page_errors.expected.append("Content Security Policy")
    page.evaluate("() => { window.__violations = [] }")
    assert not page_errors.unexpected()
