"""No fire is lost and none doubled while jobs move from XXL-JOB and back, whatever crashes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.database import SimDatabase
from tests.simulation.xxl_job.drill import VERSION, drill
from tests.simulation.xxl_job.switches import SWITCHES
from tests.simulation.xxl_job.their_server import TheirServer
from tests.support.nightly import often
from tests.support.servers import DatabaseServer
from tests.support.xxl_job.schemas import create_tables

_FIRST, _, _LAST = os.environ.get("TICKWHEEL_XXL_SEEDS", "").partition("-")
SEEDS = range(int(_FIRST or 1), int(_LAST or _FIRST or often(25, by_night=1_000)) + 1)
SEEDS_PER_TEST = 25
SWITCH_SEEDS = range(1, 121)  # each of the switches is found among the first of them


@pytest.fixture(scope="module")
def their_server(mariadb_server: DatabaseServer) -> Iterator[TheirServer]:
    mariadb_server.create_database("tickwheel_xxl_drill")
    server = TheirServer(mariadb_server.url("tickwheel_xxl_drill"))
    with server.engine.begin() as connection:
        create_tables(connection, VERSION)
    yield server
    server.close()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> SimDatabase:
    return SimDatabase(Path(tmp_path_factory.mktemp("drill")))


@pytest.mark.parametrize("first", SEEDS[::SEEDS_PER_TEST])
def test_no_fire_is_lost_and_none_doubled(
    first: int, database: SimDatabase, their_server: TheirServer
) -> None:
    figures: Counter[str] = Counter()
    failed: list[str] = []
    seeds = SEEDS[first - SEEDS[0] :][:SEEDS_PER_TEST]
    for seed in seeds:
        outcome = drill(seed, database, their_server)
        figures.update(outcome.figures)
        failed += [f"seed {seed}: {each}" for each in outcome.violations]
    print(f"{len(seeds)} drills: {dict(sorted(figures.items()))}")
    replay = f"replay with TICKWHEEL_XXL_SEEDS=N pytest {__file__}"
    assert not failed, "\n".join([replay, *failed[:20]])
    if len(seeds) < SEEDS_PER_TEST:
        return
    # A drill in which nothing happens would pass as well.
    for what, each in {
        "our fires": 5,
        "fires of XXL-JOB": 10,
        "commands killed": 1,
        "commands that failed": 0.5,
        "admins of XXL-JOB killed": 1,
        "admins of XXL-JOB frozen": 1,
        "passes of XXL-JOB that failed": 0.3,
    }.items():
        assert figures[what] >= each * len(seeds), (what, figures)


@pytest.mark.parametrize("name", sorted(SWITCHES))
def test_a_mechanism_that_is_switched_off_is_noticed(
    name: str, database: SimDatabase, their_server: TheirServer
) -> None:
    with SWITCHES[name]():
        for seed in SWITCH_SEEDS:
            if drill(seed, database, their_server).violations:
                return
    pytest.fail(f"without {name} no drill fails")


def test_a_drill_replays(database: SimDatabase, their_server: TheirServer) -> None:
    first, again = (drill(5, database, their_server) for _ in range(2))
    assert first.history == again.history
    assert drill(6, database, their_server).history != first.history
