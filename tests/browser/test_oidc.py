"""Logging in at an OpenID provider that is none of ours, by clicking, into a real admin."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.processes import ManagedProcess, free_port

TICKWHEEL = Path(sys.executable).with_name("tickwheel")
ADA = {"sub": "ada-1", "preferred_username": "Ada", "groups": ["admins"]}

pytestmark = pytest.mark.slow


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    command = [
        *(sys.executable, "-m", "oidc_provider_mock", "--port", str(port)),
        *("--require-nonce", "true", "--user-claims", json.dumps(ADA)),
    ]
    with ManagedProcess(command, tmp_path / "provider.log") as process:
        url = f"http://127.0.0.1:{port}"
        process.wait_for_http(f"{url}/.well-known/openid-configuration", timeout_seconds=30)
        yield url


@pytest.fixture
def admin(tmp_path: Path, provider: str) -> Iterator[str]:
    port = free_port()
    command = [str(TICKWHEEL), "serve", "--port", str(port), "--data-dir", str(tmp_path / "data")]
    settings = {
        "TICKWHEEL_OIDC_ISSUER": provider,
        "TICKWHEEL_OIDC_CLIENT_ID": "tickwheel",
        "TICKWHEEL_OIDC_CLIENT_SECRET": "between the two",
        "TICKWHEEL_OIDC_NAME": "Example SSO",
        "TICKWHEEL_OIDC_ROLES": "admins=admin",
    }
    with ManagedProcess(command, tmp_path / "admin.log", environment=settings) as process:
        url = f"http://127.0.0.1:{port}"
        process.wait_for_http(f"{url}/healthz", timeout_seconds=30)
        yield url


def _answer_empty(route: Route) -> None:
    route.fulfill(body="", content_type="text/css")


def test_a_person_logs_in_at_the_provider_and_lands_where_they_wanted_to_go(
    page: Page, admin: str
) -> None:
    page.route("https://cdn.jsdelivr.net/**", _answer_empty)  # styles of the provider's pages
    page.goto(f"{admin}/executors")
    page.get_by_role("link", name="Log in with Example SSO").click()
    page.get_by_role("button", name="ada-1").click()

    expect(page).to_have_url(f"{admin}/executors")
    expect(page.locator("[data-live-state]")).to_have_attribute("data-state", "on")
    page.get_by_role("button", name="User menu").click()
    expect(page.locator("#menu-user")).to_contain_text("ada")

    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("link", name="Log in with Example SSO")).to_be_visible()
    expect(page.get_by_label("Password")).to_be_visible()
    page.wait_for_load_state()  # its scripts come from the admin that ends with this test
