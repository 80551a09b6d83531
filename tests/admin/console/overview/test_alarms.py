"""Alarms on the overview, and the lists and forms that it leads to."""

from __future__ import annotations

from pathlib import Path

from tests.admin.kit.served import served
from tests.admin.store.alarms.test_alarms import alarm
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.alarms import alarms


async def test_the_overview_says_who_looks_after_what_and_leads_there(tmp_path: Path) -> None:
    async with served(tmp_path) as admin:
        mine = await admin.services.executors.create(COMMAND_LINE, name="mine", description="")
        new = [
            alarm(3, executor_id=mine.id),
            *(alarm(n, executor_id=mine.id, kind=AlarmKind.LOST) for n in range(20, 30)),
        ]
        await admin.services.store.run(alarms.insert_alarms, new)
        await admin.services.store.run(alarms.acknowledge_alarm, 3, by="olga", now=1)
        await admin.log_in("dora", Role.OPERATOR)

        async def page(path: str, **headers: str) -> str:
            async with admin.client.get(path, headers=headers) as answer:
                assert answer.status == 200
                return await answer.text()

        overview = await page("/", **{"X-Block": "attention"})
        assert overview.index("10 open alarms") < overview.index("“bills” failed.")
        assert overview.index("“bills” failed.") < overview.index("olga")
        address = f"/alarms?kind=lost&amp;executor={mine.id}"
        assert address in overview
        listed = await page(address.replace("&amp;", "&"))
        assert 'href="/alarms/20"' in listed
        assert 'href="/alarms/3"' not in listed
        assert '<option value="dora" selected>' in await page("/alarms/20")
