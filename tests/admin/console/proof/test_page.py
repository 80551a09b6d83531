"""The page of a proof: numbers that add up, causes with what was done, and a file to take along."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.admin.kit.proven_night import Night, proven_night
from tickwheel_admin.console.proof import page as proof_page
from tickwheel_admin.domain.proof.verification import read_public_key, verify
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.store.database import tables


@pytest.fixture
async def night(tmp_path: Path) -> AsyncIterator[Night]:
    async with proven_night(tmp_path) as found:
        yield found


async def text_of(night: Night, address: str = "/proof", status: int = 200) -> str:
    async with night.admin.client.get(address) as answer:
        assert answer.status == status
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", await answer.text()))


async def test_the_numbers_add_up_and_causes_are_told(night: Night) -> None:
    await night.admin.log_in("vera", Role.VIEWER)
    page = await text_of(night)
    assert (
        "Instants that should have been 61 − Without a run 2 paused 2 − Missing 1 = Runs 58" in page
    )
    outcomes = (
        "Succeeded 53 + Succeeded at a later try 1 + Failed 1 + Lost 1 + Skipped 1 discarded 1"
        " + Not ended yet 1 = Runs 58"
    )
    assert outcomes in page
    assert "Instants without a run and without a reason: 1" in page
    assert "are accounted for" not in page
    assert "Failed bank-gw refused 1 ann bob looks after it bills" in page
    assert "Succeeded, but late – 1 carl – bills" in page
    assert "Make the key pair" not in page  # a viewer may not


async def test_a_period_of_the_readers_own_and_one_without_a_run(night: Night) -> None:
    await night.admin.log_in("vera", Role.VIEWER)
    empty = await text_of(night, "/proof?from=2001-01-01T00:00&until=2001-01-01T05:30")
    assert "what should have run: 6" in empty
    assert "No fire has a run in this time." in empty
    assert "first try, and in time" not in empty
    refused = await text_of(night, "/proof?from=2001-01-01T00:00&until=2001-03-01T00:00")
    assert "At most 31 days at once" in refused
    other = await text_of(night, f"/proof?executor={night.executor_id}&hours=12")
    assert "= Runs 58" in other


async def test_exceptions_go_on_where_the_page_ended(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof_page, "SHOWN_EXCEPTIONS", 2)
    await night.admin.log_in("vera", Role.VIEWER)
    seen = []
    address = "/proof"
    while address:
        async with night.admin.client.get(address) as answer:
            text = await answer.text()
        assert answer.status == 200
        seen += re.findall(r'href="/runs/(\d+)"', text.partition('id="h-unrun"')[0])
        later = re.search(r'href="([^"]*after=[^"]+)"[^>]*>Later ones', text)
        address = later[1].replace("&amp;", "&") if later else ""
    assert seen == sorted(set(seen), key=int)
    assert len(seen) == 6


async def test_what_did_not_run_is_listed_instant_by_instant(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    await night.admin.log_in("vera", Role.VIEWER)
    page = (await text_of(night)).partition("instant by instant")[2]
    told = [f"bills billing {cause} carl" for cause in ("nobody knows", "paused", "discarded")]
    places = [page.index(each) for each in told]
    assert places == sorted(places)
    assert page.count("paused carl") == 2
    monkeypatch.setattr(proof_page, "SHOWN_UNRUN", 3)
    async with night.admin.client.get("/proof") as answer:
        later = re.search(r'href="([^"]*unrun=[^"#]+)#h-unrun"', await answer.text())
    assert later is not None
    page = (await text_of(night, later[1].replace("&amp;", "&"))).partition("instant by instant")[2]
    assert ("discarded" in page, "paused" in page, "First ones" in page) == (True, False, True)
    assert "listed one by one" not in page
    await night.audit(absences=[])
    assert "3 more are counted above, and not listed one by one." in await text_of(night)
    empty = await text_of(night, "/proof?from=2001-01-01T00:00&until=2001-01-01T05:30")
    assert "No instant is known that brought no work." in empty


async def test_the_key_is_made_once_and_the_file_is_genuine(night: Night) -> None:
    session = await night.admin.log_in("ada", Role.ADMIN)
    page = await text_of(night)
    assert "Make the key pair" in page
    async with night.admin.client.get("/proof?hours=48&after=") as answer:
        [address] = re.findall(r"action=\"(/proof/key[^\"]*)", await answer.text())
    assert address == "/proof/key?hours=48"
    for chosen in ("", "?hours=24&executor=1", "?other=1"):
        form = {"csrf_token": session.csrf_token}
        async with night.admin.client.post(
            f"/proof/key{chosen}", data=form, allow_redirects=False
        ) as answer:
            kept = "?executor=1&hours=24" if "hours" in chosen else ""
            assert (answer.status, answer.headers["Location"]) == (303, f"/proof{kept}")
    actions = sa.select(tables.audit.c.action).where(tables.audit.c.action == "proof_key.created")
    made = await night.services.store.read(lambda conn: conn.execute(actions).scalars().all())
    assert len(made) == 1

    async with night.admin.client.get("/proof") as answer:
        text = await answer.text()
    [address] = re.findall(r'href="(/api/v1/proof/export[^"]+)"', text)
    async with night.admin.client.get(address.replace("&amp;", "&")) as answer:
        assert answer.status == 200
        written = await answer.read()
    async with night.admin.client.get("/api/v1/proof/key") as answer:
        key = read_public_key((await answer.json())["public_key"])
    assert verify(written.splitlines(keepends=True), key)
