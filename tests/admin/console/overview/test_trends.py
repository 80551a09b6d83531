"""The page of trends, where there is more than it adds up."""

from __future__ import annotations

import pytest

from tests.admin.kit.served import Served, new_session
from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.services.overview import trends
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.web.identity import SESSION_COOKIE


async def test_somebody_of_too_many_executors_is_told_to_choose_one(
    site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trends, "MAX_ROWS", 10)
    executor = await site.services.executors.create(COMMAND_LINE, name="crm", description="")
    session = await new_session(site.services, "carl", {executor.id: Grant(role=Role.VIEWER)})
    site.client.session.cookie_jar.update_cookies({SESSION_COOKIE: session.cookie})
    async with site.client.get("/trends") as answer:
        assert answer.status == 200
        assert 'role="alert"' in await answer.text()
