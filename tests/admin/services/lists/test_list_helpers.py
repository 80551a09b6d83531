"""What stands around lists: saved views, suggestions while typing, numbers on tabs."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.console.lists.tabs import Tab
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.users.saved_view import MAX_VIEWS
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.services.lists.saved_views import SavedViews
from tickwheel_admin.services.lists.suggestions import Suggestions
from tickwheel_admin.services.overview.list_counts import ListCounts, Number
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.lists import suggestions
from tickwheel_admin.store.overview import list_counts

BOB = actor_with(Role.VIEWER, 7)


@pytest.fixture
def views(world: World) -> SavedViews:
    world.change(
        *(
            sa.insert(tables.user).values(
                id=actor.user_id,
                name=actor.name,
                must_change_password=False,
                disabled=False,
                preferences="{}",
                created_at=1,
            )
            for actor in (ADMIN, BOB)
        )
    )
    return SavedViews(world.database, Ids(world.database))


def audited(world: World) -> list[str]:
    return [row.action for row in world.rows(sa.select(tables.audit.c.action))]


# --- saved views -----------------------------------------------------------------------------


async def test_views_are_ones_own_until_they_are_shared(world: World, views: SavedViews) -> None:
    await views.save(ADMIN, "jobs", " Nights ", "q=tag%3Anight&cursor=abc&sort=-name", shared=False)
    (mine,) = await views.list(ADMIN, "jobs")
    assert (mine.name, mine.query, mine.shared) == ("Nights", "q=tag%3Anight&sort=-name", False)
    assert await views.list(BOB, "jobs") == []
    with pytest.raises(NotFound):
        await views.get(BOB, mine.id)
    assert audited(world) == []
    await views.change(ADMIN, mine.id, shared=True)
    (seen,) = await views.list(BOB, "jobs")
    assert (seen.name, seen.owner_name, seen.shared) == ("Nights", "ada", True)
    assert await views.list(BOB, "runs") == []
    for name in ("Late", "Later"):
        await views.change(ADMIN, mine.id, name=name)
    await views.change(ADMIN, mine.id, shared=False)
    await views.delete(ADMIN, mine.id)
    assert audited(world) == ["view.shared", "view.changed", "view.changed", "view.unshared"]
    assert await views.list(ADMIN, "jobs") == []


async def test_only_its_owner_changes_a_view_and_an_admin_may_delete_a_shared_one(
    world: World, views: SavedViews
) -> None:
    mine = await views.save(BOB, "runs", "Failed", "q=state%3Afailed", shared=True)
    secret = await views.save(BOB, "runs", "Mine", "q=x", shared=False)
    with pytest.raises(NotAllowed):
        await views.change(ADMIN, mine, name="Other")
    await views.delete(ADMIN, mine)
    with pytest.raises(NotFound):
        await views.delete(ADMIN, secret)
    shared = await views.save(ADMIN, "runs", "All", "", shared=True)
    with pytest.raises(NotAllowed):
        await views.delete(BOB, shared)
    assert audited(world) == ["view.shared", "view.deleted", "view.shared"]


async def test_rules_of_views(views: SavedViews) -> None:
    first = await views.save(ADMIN, "jobs", "a", "q=x", shared=False)
    await views.save(ADMIN, "runs", "a", "q=x", shared=False)  # of another list
    with pytest.raises(Conflict):
        await views.save(ADMIN, "jobs", "a", "q=y", shared=False)
    second = await views.save(ADMIN, "jobs", "b", "q=x", shared=False)
    with pytest.raises(Conflict):
        await views.change(ADMIN, second, name="a")
    await views.change(ADMIN, first, query="q=other&view=paused")
    assert (await views.get(ADMIN, first)).query == "q=other"
    for page, name, query in (
        ("nodes", "x", ""),
        ("jobs", " ", ""),
        ("jobs", "x" * 61, ""),
        ("jobs", "a\nb", ""),
        ("jobs", "x", "q=" + "y" * 2_000),
    ):
        with pytest.raises(InvalidInput):
            await views.save(ADMIN, page, name, query, shared=False)
    for n in range(MAX_VIEWS - 3):
        await views.save(ADMIN, "runs", f"view-{n}", "", shared=False)
    with pytest.raises(Conflict):
        await views.save(ADMIN, "jobs", "one more", "", shared=False)


# --- suggestions -----------------------------------------------------------------------------


@pytest.fixture
async def jobs(world: World) -> dict[str, int]:
    """Jobs of three executors by name."""
    made = {}
    for executor, names in {"billing": "ab", "crm": "cd", "ml": "e"}.items():
        executor_id = await world.executor(executor)
        handlers = ("send-invoices", f"{executor}.send")
        world.node(executor_id, name=f"{executor}-1", handlers=handlers)
        for name in names:
            raw = {"owner": f"team {name}", "tags": ["shared", f"tag-{name}", executor]}
            made[name] = await world.jobs.create(
                ADMIN, executor_id, JOB | raw | {"name": f"{executor}.{name}"}
            )
    return made


async def test_what_there_is_is_suggested_to_those_who_see_it(
    world: World, jobs: dict[str, int]
) -> None:
    service = Suggestions(world.database)
    crm = world.rows(sa.select(tables.executor.c.id).where(tables.executor.c.name == "crm"))[0].id
    viewer = actor_with(Role.VIEWER, crm)
    for key, text, everything, seen in (
        ("executor", "", ["billing", "crm", "ml"], ["crm"]),
        ("executor", "L", ["billing", "ml"], []),
        ("owner", "", [f"team {n}" for n in "abcde"], ["team c", "team d"]),
        ("owner", "team d", ["team d"], ["team d"]),
        ("owner", "am", [], []),
        ("tag", "TAG-", [f"tag-{n}" for n in "abcde"], ["tag-c", "tag-d"]),
        ("tag", "m", ["crm", "ml"], ["crm"]),
        ("job", "crm.", ["crm.c", "crm.d"], ["crm.c", "crm.d"]),
        ("job", "billing", ["billing.a", "billing.b"], []),
        ("node", "-1", ["billing-1", "crm-1", "ml-1"], ["crm-1"]),
        ("handler", "D-I", ["send-invoices"], ["send-invoices"]),
        ("handler", ".", ["billing.send", "crm.send", "ml.send"], ["crm.send"]),
        ("handler", "BILL", ["billing.send"], []),
        ("state", "", [], []),
        ("owner", "a\x00", [], []),
    ):
        assert await service.values(ADMIN, key, text) == everything, (key, text)
        assert await service.values(viewer, key, text) == seen, (key, text)
    await world.jobs.delete(ADMIN, jobs["e"])
    assert "team e" not in await service.values(ADMIN, "owner", "")


async def test_the_job_that_is_called_so_comes_first(
    world: World, jobs: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Suggestions(world.database)

    async def found(text: str, actor: Actor = ADMIN) -> list[str]:
        return [each.job.config.name for each in await service.jobs(actor, text)]

    crm = world.rows(sa.select(tables.executor.c.id).where(tables.executor.c.name == "crm"))[0].id
    for name, tags in (("d", []), ("d.late", []), ("a.early", ["d"])):
        await world.jobs.create(ADMIN, crm, JOB | {"name": name, "tags": tags})
    assert (await found("d"))[:3] == ["d", "d.late", "crm.d"]
    assert "a.early" in await found("d")
    assert (await found("D"))[:2] == ["d", "d.late"]
    assert len(await found("")) == 8
    assert await found("d", actor_with(Role.VIEWER, crm + 1_000)) == []
    assert await found("d\x00") == []
    # However many others come before it by name.
    monkeypatch.setattr("tickwheel_admin.services.lists.suggestions.JOBS_AT_MOST", 2)
    assert await found("d") == ["d", "d.late"]


async def test_the_palette_finds_jobs_executors_and_live_nodes_that_one_sees(
    world: World, jobs: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Suggestions(world.database)
    (crm,) = world.rows(sa.select(tables.executor.c.id).where(tables.executor.c.name == "crm"))
    world.node(crm.id, name="crm-0", state="gone", connected_at=1, ended_at=2)
    world.node(crm.id, name="old-crm-2")

    found = await service.anything(ADMIN, "CRM")
    assert [each.job.config.name for each in found.jobs] == ["crm.c", "crm.d"]
    assert found.executors == [("crm", crm.id)]
    assert [node.name for node in found.nodes] == ["crm-1", "old-crm-2"]
    assert [node.executor_id for node in found.nodes] == [crm.id, crm.id]

    stranger = await service.anything(actor_with(Role.VIEWER, crm.id + 1_000), "crm")
    assert (stranger.jobs, stranger.executors, stranger.nodes) == ([], [], [])
    nothing_typed = await service.anything(ADMIN, "")
    assert (len(nothing_typed.jobs), nothing_typed.executors, nothing_typed.nodes) == (5, [], [])
    assert (await service.anything(ADMIN, "a\x00")).jobs == []
    monkeypatch.setattr("tickwheel_admin.services.lists.suggestions.OTHERS_AT_MOST", 1)
    few = await service.anything(ADMIN, "-")
    assert (few.executors, len(few.nodes)) == ([], 1)


async def test_suggestions_end_early(
    world: World, jobs: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Suggestions(world.database)
    monkeypatch.setattr(suggestions, "MAX_VALUES_SEEN", 2)
    assert await service.values(ADMIN, "owner", "") == ["team a", "team b"]
    monkeypatch.setattr("tickwheel_admin.services.lists.suggestions.SUGGESTED_AT_MOST", 3)
    monkeypatch.setattr(suggestions, "MAX_VALUES_SEEN", 60)
    assert await service.values(ADMIN, "owner", "") == ["team a", "team b", "team c"]
    assert len(await service.values(ADMIN, "tag", "")) == 3
    monkeypatch.setattr(suggestions, "MAX_JOBS_SEEN", 1)
    assert len(await service.values(ADMIN, "job", "")) == 1


async def test_a_node_is_found_by_its_name_the_live_one_first(
    world: World, jobs: dict[str, int]
) -> None:
    service = Suggestions(world.database)
    (crm,) = world.rows(sa.select(tables.executor.c.id).where(tables.executor.c.name == "crm"))
    ended = world.node(crm.id, name="crm-1", state="gone", connected_at=99, ended_at=100)
    live, *others = await service.nodes_named(ADMIN, "crm-1")
    assert live.id != ended
    assert [node.id for node in others] == [ended]
    assert await service.nodes_named(ADMIN, "crm-1", crm.id + 1) == []
    assert await service.nodes_named(actor_with(Role.VIEWER, crm.id + 1), "crm-1") == []


# --- numbers on tabs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, ""),
        (Number(994, False), "994"),
        (Number(994, True), "900+"),
        (Number(1_000, True), "1,000+"),
        (Number(7, True), "7+"),
    ],
)
def test_what_nobody_counted_whole_is_a_round_number(number: Number | None, text: str) -> None:
    assert Tab(name="All", href="/", is_current=True, number=number).number_text == text


async def test_numbers_on_tabs(
    world: World, jobs: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {row.name: row.id for row in world.rows(sa.select(tables.executor))}
    await world.jobs.pause(ADMIN, jobs["a"])
    for name, executor, state in (
        ("a", "billing", "running"),
        ("a", "billing", "dispatched"),
        ("c", "crm", "running"),
        ("c", "crm", "failed"),
        ("c", "crm", "lost"),
    ):
        world.run(
            executor_id=ids[executor],
            job_id=jobs[name],
            state=state,
            deadline_at=FAR,
            scheduled_at=5_000,
        )
    world.run(executor_id=ids["crm"], job_id=jobs["c"], fire_id=1, state="failed")  # a shard
    now = [0.0]
    counts = ListCounts(world.database, clock=lambda: now[0])
    viewer = actor_with(Role.VIEWER, ids["crm"])
    assert await counts.jobs(ADMIN) == {
        "all": (5, False),
        "failing": (1, False),
        "running": (2, False),
        "paused": (1, False),
    }
    assert (await counts.jobs(viewer))["running"] == (1, False)
    assert (await counts.jobs(viewer))["failing"] == (1, False)
    assert await counts.matching(ADMIN, JobQuery(text="b")) == (2, False)
    assert await counts.matching(ADMIN, JobQuery(view="failing", executor_id=ids["crm"])) == (
        1,
        False,
    )
    assert await counts.matching(ADMIN, JobQuery(view="failing", text="b")) == (0, False)
    assert (await counts.jobs(viewer))["all"] == (2, False)
    runs = await counts.runs(ADMIN)
    assert runs["failed_any"] == (2, False)
    assert runs["active"] == (3, False)
    assert runs["queued"] == (0, False)
    assert (await counts.runs(viewer))["active"] == (1, False)
    assert (await counts.runs(ADMIN, from_at=900_000))["active"] == (0, False)
    assert (await counts.runs(ADMIN, to_at=900_000))["active"] == (3, False)
    await world.jobs.pause(ADMIN, jobs["b"])
    assert (await counts.jobs(ADMIN))["paused"] == (1, False)  # as it was a moment ago
    now[0] += 2.1
    assert (await counts.jobs(ADMIN))["paused"] == (2, False)
    monkeypatch.setattr(list_counts, "MAX_LOOKED_AT", 2)
    now[0] += 2.1
    assert (await counts.runs(ADMIN))["active"] == (3, True)
    assert (await counts.runs(ADMIN))["failed"] == (1, True)  # a shard was one of the two
    assert (await counts.jobs(ADMIN))["running"].capped
