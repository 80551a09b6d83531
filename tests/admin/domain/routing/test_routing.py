"""The routing strategies: fair, stable, deterministic, and never a node that may not be chosen."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from math import gcd
from typing import Any

import pytest

from tickwheel_admin.api.runs.choice_views import choice_view
from tickwheel_admin.domain.claims.router import Placement, Router
from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.choice import Choice, PassedOver, Why, choice_of
from tickwheel_admin.domain.routing.hash_ring import HashRing, ring_of, value_to_hash
from tickwheel_admin.domain.routing.policy import RoutingPolicy, admits
from tickwheel_admin.domain.routing.pool import Candidate, Pool
from tickwheel_admin.domain.routing.reasons import sentences
from tickwheel_admin.domain.routing.rota import Rota
from tickwheel_admin.domain.routing.strategies import MAX_TURNS_PASSED, STRATEGIES, Routing
from tickwheel_admin.domain.routing.strategy import Memory, RunToPlace
from tickwheel_admin.domain.routing.uses import NEVER, Use, Uses
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.store.jobs.jobs import ROUND

CHANCE = random.Random(0)
HUGE = "1" * 5_000  # a number of more digits than Python reads
DEEP = "[" * 900 + "1" + "]" * 900


def a_node(node_id: int, **changes: Any) -> Node:
    values: dict[str, Any] = {
        "id": node_id,
        "executor_id": 1,
        "name": f"n{node_id}",
        "state": NodeState.LIVE,
        "draining": False,
        "cordoned": False,
        "drain_wanted": False,
        "slots": 10,
        "in_use": 0,
        "handlers": frozenset({"hello"}),
        "unstoppable": frozenset(),
        "labels": {},
        "sdk": "",
        "address": "",
        "connected_at": 0,
        "lease_expires_at": 0,
        "full_lease_at": 0,
        "ended_at": None,
    }
    return Node(**(values | changes))


def a_run(run_id: int = 1, *, job_id: int = 1, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "id": run_id,
        "executor_id": 1,
        "job_id": job_id,
        "job_revision": 1,
        "trigger_id": None,
        "origin": Origin.MANUAL,
        "scheduled_at": 0,
        "created_at": 0,
        "state": RunState.QUEUED,
        "due_at": 0,
    }
    return Run(**(values | changes))


def a_job(strategy: Routing, **policy: Any) -> JobConfig:
    return JobConfig(
        name="job", handler="hello", routing=RoutingPolicy(strategy=strategy, **policy)
    )


def a_router(
    nodes: Sequence[Node], *, avoided: Collection[tuple[int, str]] = (), seed: int = 0
) -> Router:
    """As the claim makes it for job 1, which nobody has run before."""
    router = Router(nodes, avoided=avoided, random=random.Random(seed))
    router.turns, router.stored_uses, router.busy = {1: 0}, {1: {}}, {1: set()}
    return router


def route(router: Router, config: JobConfig, count: int) -> list[int]:
    """The nodes of so many runs, one after the other, until none is left."""
    placed = (router.place(a_run(number), config) for number in range(count))
    return [each.node_id for each in placed if each is not None]


def told(placed: Placement | None) -> list[str]:
    """The reason in English."""
    choice = choice_of(placed.choice if placed else None)
    return [s.template % s.params for s in sentences(choice)] if choice else []


def any_nodes(chance: random.Random, count: int) -> list[Node]:
    return [
        a_node(
            node_id,
            name=f"n{chance.randrange(2 * count)}",
            slots=(slots := chance.randrange(1, 6)),
            in_use=chance.randrange(slots + 2),
            weight=chance.randrange(1, 6),
            cordoned=chance.random() < 0.2,
            draining=chance.random() < 0.2,
            handlers=frozenset({"hello"} if chance.random() < 0.9 else {"other"}),
            labels={"zone": chance.choice(["eu", "us"])} if chance.random() < 0.8 else {},
        )
        for node_id in range(1, count + 1)
    ]


# --- what holds for all --------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", Routing)
def test_no_strategy_chooses_what_may_not_be_chosen(strategy: Routing) -> None:
    chance = random.Random(strategy.value)
    for seed in range(60):
        nodes = any_nodes(chance, chance.randrange(1, 12))
        by_id = {node.id: node for node in nodes}
        avoided = {(chance.randrange(1, 13), "hello"), (chance.randrange(1, 13), "other")}
        names = tuple(chance.sample(["n1*", "*2", "n5", "n?"], 2))
        policy: dict[str, Any] = {"selector": chance.choice(["", "zone=eu", "!zone"])}
        if STRATEGIES[strategy].names:
            policy["nodes"] = names
        config = a_job(strategy, **policy)
        router = a_router(nodes, avoided=avoided, seed=seed)
        may = {
            node.id: node.slots - node.in_use
            for node in nodes
            if node.takes_runs
            and "hello" in node.handlers
            and (node.id, "hello") not in avoided
            and admits(config.routing, name=node.name, labels=node.labels)
        }

        chosen = Counter(route(router, config, 40))

        assert all(count <= max(0, may.get(node_id, 0)) for node_id, count in chosen.items())
        free = sum(max(0, slots) for slots in may.values())
        if STRATEGIES[strategy].memory is Memory.BUSY:
            assert set(chosen.values()) <= {1}
            assert len(chosen) == sum(slots > 0 for slots in may.values())
        else:
            assert chosen.total() == min(40, free)  # and none is left out while one is free
        assert chosen.keys() <= by_id.keys()


@pytest.mark.parametrize("strategy", Routing)
def test_the_same_nodes_and_runs_give_the_same_choices(strategy: Routing) -> None:
    nodes = any_nodes(random.Random(7), 12)
    shuffled = random.Random(8).sample(nodes, len(nodes))
    config = a_job(strategy)
    assert route(a_router(nodes), config, 30) == route(a_router(shuffled), config, 30)


def test_every_strategy_is_there() -> None:
    assert set(STRATEGIES) == set(Routing)


# --- turns ---------------------------------------------------------------------------------------


def test_a_round_robin_gives_each_its_turn_from_wherever_it_stands() -> None:
    nodes = [a_node(n, slots=1_000) for n in range(1, 8)]
    for start in (0, 3, 720_720, 2**40 + 5):
        router = a_router(nodes)
        router.turns = {1: start}
        chosen = route(router, a_job(Routing.ROUND_ROBIN), 70)
        assert router.turns == {1: start + 70}
        for at in range(63):
            assert set(chosen[at : at + 7]) == set(range(1, 8))


def test_a_lock_between_two_turns_takes_nobody_his_turn() -> None:
    for nodes in range(1, 17):
        assert ROUND % nodes == 0
    for nodes in range(2, 3_000):  # a job of which each run is asked for is locked once for each
        assert gcd(ROUND + 1, nodes) == 1


def test_weights_are_kept_exactly_in_any_round_and_well_mixed() -> None:
    chance = random.Random(3)
    for _ in range(40):
        weights = tuple(chance.randrange(1, 9) for _ in range(chance.randrange(1, 7)))
        rota, total = Rota(weights), sum(weights)
        turns = [rota.place(turn) for turn in range(3 * total)]
        for start in chance.sample(range(2 * total), min(20, 2 * total)):
            seen = Counter(turns[start : start + total])
            assert [seen[place] for place in range(len(weights))] == list(weights)
        for place, weight in enumerate(weights):
            own = [turn for turn, each in enumerate(turns) if each == place]
            assert max((b - a for a, b in pairwise(own)), default=0) <= 2 * total / weight + 1


def test_weights_too_many_for_a_table_are_kept_as_well() -> None:
    weights = (9_973, 4_999, 31, 1)
    rota, total = Rota(weights), sum(weights)
    for start in (0, 12_345):
        seen = Counter(rota.place(turn) for turn in range(start, start + total))
        assert [seen[place] for place in range(4)] == list(weights)
    own = [turn for turn in range(total) if rota.place(turn) == 2]
    assert max(b - a for a, b in pairwise(own)) <= 4 * total / 31


def test_light_nodes_are_found_among_heavy_ones_that_are_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heavy = [a_node(n, weight=1_000 - n % 2, in_use=10) for n in range(1, 9)]
    router = a_router([*heavy, a_node(20), a_node(21)])
    router.turns = {1: 0}
    asked = []
    of_turn = Pool.of_turn
    monkeypatch.setattr(
        Pool, "of_turn", lambda pool, turn: asked.append(turn) or of_turn(pool, turn)
    )
    assert set(route(router, a_job(Routing.WEIGHTED), 6)) == {20, 21}
    assert len(asked) <= 6 * MAX_TURNS_PASSED


def test_weighted_nodes_have_runs_by_their_weights() -> None:
    nodes = [a_node(n, slots=1_000, weight=weight) for n, weight in ((1, 100), (2, 300), (3, 200))]
    assert Counter(route(a_router(nodes), a_job(Routing.WEIGHTED), 60)) == {1: 10, 2: 30, 3: 20}


# --- a hash --------------------------------------------------------------------------------------


def hashed(nodes: Sequence[Node], keys: int) -> dict[int, str]:
    """The name of each job's node."""
    names = {node.id: node.name for node in nodes}
    placed = {}
    for job_id in range(keys):
        chosen = Router(nodes, avoided=(), random=CHANCE).place(
            a_run(job_id=job_id), a_job(Routing.CONSISTENT_HASH)
        )
        assert chosen is not None
        placed[job_id] = names[chosen.node_id]
    return placed


@pytest.mark.parametrize("count", [2, 5, 40])
def test_few_keys_move_when_a_name_joins_or_leaves(count: int) -> None:
    names = tuple(f"node-{number:02}" for number in range(count))
    joined = (*names, "node-new")
    keys = [f"job {number}" for number in range(4_000)]
    before = {key: next(ring_of(names).owners(key)) for key in keys}
    after = {key: next(ring_of(joined).owners(key)) for key in keys}

    moved = [key for key in keys if before[key] != after[key]]

    assert {after[key] for key in moved} == {"node-new"}  # to it, or on its leaving from it
    assert len(moved) / len(keys) == pytest.approx(1 / (count + 1), rel=0.3)
    shares = Counter(after.values())
    assert max(shares.values()) < 1.5 * len(keys) / (count + 1)


def test_a_ring_tells_every_name_once_and_stand_ins_in_a_lasting_order() -> None:
    ring = HashRing(("a", "b", "c", "d"))
    order = list(ring.owners("key"))
    assert sorted(order) == ["a", "b", "c", "d"]
    without = HashRing(tuple(sorted(order[1:])))
    assert list(without.owners("key")) == order[1:]


def test_keys_stay_with_a_name_through_restarts_and_come_back_after_a_cordon() -> None:
    nodes = [a_node(n) for n in range(1, 6)]
    before = hashed(nodes, 60)
    assert len(set(before.values())) == 5
    restarted = [a_node(n + 100, name=f"n{n}") for n in range(1, 6)]
    assert hashed(restarted, 60) == before

    cordoned = [a_node(n, cordoned=n == 3) for n in range(1, 6)]
    meanwhile = hashed(cordoned, 60)

    assert {job for job in before if before[job] != meanwhile[job]} == {
        job for job in before if before[job] == "n3"
    }
    full = [a_node(n, in_use=10 if n == 3 else 0) for n in range(1, 6)]
    assert hashed(full, 60) == meanwhile


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        ('{"customer": 42, "x": [1]}', "42"),
        ('{"customer": "42"}', '"42"'),
        ('{"customer":{"b":1, "a":[ 2 ]}}', '{"a":[2],"b":1}'),
        ('{"customer": null}', "null"),
        ('{"customer": 123456789012345678901234567890}', "123456789012345678901234567890"),
        ('{"customers": 1}', None),
        # As a parent's result may hand them on.
        ('{"customer": ' + HUGE + "}", HUGE),
        ('{"customer": ' + DEEP + "}", DEEP),
    ],
    ids=range(8),
)
def test_the_value_of_a_parameter_is_hashed(parameters: str, value: str | None) -> None:
    assert value_to_hash(parameters, "customer") == value


def test_runs_of_one_customer_go_to_one_node() -> None:
    config = a_job(Routing.CONSISTENT_HASH, hash_by="customer")
    router = a_router([a_node(n, slots=100) for n in range(1, 7)])
    homes: dict[int, set[int]] = {}
    for number in range(60):
        placed = router.place(
            a_run(number, job_id=number, parameters=f'{{"customer":{number % 12}}}'), config
        )
        assert placed is not None
        homes.setdefault(number % 12, set()).add(placed.node_id)
    assert all(len(nodes) == 1 for nodes in homes.values())
    assert len(set.union(*homes.values())) > 3
    plain = router.place(a_run(job_id=5), config)
    assert plain is not None
    by_job = router.place(a_run(job_id=5), a_job(Routing.CONSISTENT_HASH))
    assert by_job is not None
    assert by_job.node_id == plain.node_id  # without it, by the job


# --- what nodes had ------------------------------------------------------------------------------


def test_uses_even_out_and_a_new_node_begins_with_the_fewest() -> None:
    nodes = [a_node(n, slots=1_000) for n in (1, 2, 3)]
    router = a_router(nodes)
    router.turns = {1: 50}
    router.stored_uses = {1: {1: Use(runs=10, last_turn=4), 2: Use(runs=7, last_turn=9)}}

    chosen = route(router, a_job(Routing.LEAST_FREQUENTLY_USED), 9)

    # Node 3 begins with seven as well, never used: it goes first. Six runs later all have ten.
    assert chosen == [3, 2, 3, 2, 3, 2, 1, 3, 2]
    claimed = [
        Placement(node_id=n, turn=50 + at, choice="") for at, n in enumerate(chosen) if n != 2
    ]
    assert router.uses_of(1, claimed) == {  # what was left to another admin does not count
        1: Use(runs=11, last_turn=56),
        3: Use(runs=11, last_turn=57),
    }


def test_the_fewest_are_those_of_nodes_that_take_runs() -> None:
    nodes = [a_node(1, cordoned=True), a_node(2), a_node(3)]
    router = a_router(nodes)
    router.stored_uses = {1: {1: Use(runs=2, last_turn=1), 2: Use(runs=9, last_turn=3)}}
    assert route(router, a_job(Routing.LEAST_FREQUENTLY_USED), 4) == [3, 2, 3, 2]


def test_who_waited_longest_is_next() -> None:
    nodes = [a_node(n, slots=3) for n in (1, 2, 3, 4)]
    router = a_router(nodes)
    router.turns = {1: 50}
    known = {
        1: Use(runs=1, last_turn=40),
        2: Use(runs=9, last_turn=8),
        3: Use(runs=1, last_turn=20),
    }
    router.stored_uses = {1: known}
    config = a_job(Routing.LEAST_RECENTLY_USED)
    assert route(router, config, 12) == [4, 2, 3, 1] * 3
    (new,) = Uses(known, [Candidate(node_id=4, name="n4", slots=1, free=1)]).changed.values()
    assert new == Use(runs=0, last_turn=NEVER)


# --- in an order ---------------------------------------------------------------------------------


def test_first_last_and_failover_follow_their_order() -> None:
    nodes = [a_node(n, name=name, slots=2) for n, name in ((1, "c"), (2, "a"), (3, "b"), (4, "a"))]
    assert route(a_router(nodes), a_job(Routing.FIRST), 9) == [2, 2, 4, 4, 3, 3, 1, 1]
    assert route(a_router(nodes), a_job(Routing.LAST), 9) == [1, 1, 3, 3, 4, 4, 2, 2]
    order = a_job(Routing.FAILOVER, nodes=("x", "c", "b*"))
    assert route(a_router(nodes), order, 9) == [1, 1, 3, 3, 2, 2, 4, 4]
    assert route(a_router(nodes, avoided={(1, "hello")}), order, 3) == [3, 3, 2]


def test_busy_nodes_are_passed_over_and_then_runs_wait() -> None:
    router = a_router([a_node(n) for n in (1, 2, 3)])
    router.busy = {1: {2}, 2: set()}
    config = a_job(Routing.BUSY_OVER)
    assert route(router, config, 5) == [1, 3]
    other = router.place(a_run(job_id=2), config)
    assert other is not None
    assert other.node_id == 1


def test_the_least_busy_has_the_most_free_slots_then_the_fewest_running() -> None:
    nodes = [a_node(1, slots=4), a_node(2, slots=8, in_use=3), a_node(3, slots=5)]
    assert route(a_router(nodes), a_job(Routing.LEAST_BUSY), 6) == [3, 2, 1, 3, 2, 1]


def test_pinned_runs_go_nowhere_else() -> None:
    nodes = [a_node(1), a_node(2, slots=2, labels={"gpu": "1"}), a_node(3, in_use=10)]
    router = a_router(nodes)
    assert route(router, a_job(Routing.PINNED, selector="gpu"), 3) == [2, 2]
    assert route(a_router(nodes), a_job(Routing.PINNED, nodes=("n3",)), 3) == []
    chosen = router.place(a_run(pinned_node_id=1), a_job(Routing.PINNED, nodes=("n3",)))
    assert chosen is not None
    assert chosen.node_id == 1  # what a person chose
    for pinned in (2, 3, 4):
        assert router.place(a_run(pinned_node_id=pinned), a_job(Routing.FIRST)) is None


# --- reasons -------------------------------------------------------------------------------------


def test_a_reason_says_what_decided_and_who_was_passed_over() -> None:
    nodes = [
        a_node(1, in_use=3, slots=16),
        a_node(2, cordoned=True),
        a_node(3, draining=True),
        a_node(4, in_use=10),
        a_node(5, in_use=8),
        a_node(6),
    ]
    router = a_router(nodes, avoided={(6, "hello")})
    placed = router.place(a_run(), a_job(Routing.LEAST_BUSY))
    assert told(placed) == [
        "Least busy: 3 of 16 slots used.",
        "n2 was cordoned.",
        "n3 was shutting down.",
        "n6 had refused the handler.",
        "Others passed over: 1.",
    ]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (a_job(Routing.ROUND_ROBIN), "Round robin: the turn of number 1 of 3 nodes."),
        (a_job(Routing.RANDOM), "Random: one of 3 nodes."),
        (a_job(Routing.WEIGHTED), "Weighted: its turn, with a weight of 4 of 6 in all."),
        (a_job(Routing.CONSISTENT_HASH), "Consistent hash: the node for this job."),
        (
            a_job(Routing.CONSISTENT_HASH, hash_by="customer"),
            "Consistent hash: the node for “customer” = 42.",
        ),
        (
            a_job(Routing.LEAST_FREQUENTLY_USED),
            "Least frequently used: it has had no run of this job yet.",
        ),
        (
            a_job(Routing.LEAST_RECENTLY_USED),
            "Least recently used: it has had no run of this job yet.",
        ),
        (a_job(Routing.FIRST), "First: the first by name of 3 nodes."),
        (a_job(Routing.LAST), "Last: the last by name of 3 nodes."),
        (a_job(Routing.FAILOVER, nodes=("x", "n2")), "Failover: number 2 in the job's order."),
        (
            a_job(Routing.FAILOVER, nodes=("x",)),
            "Failover: a node that stands in, for none of those named could take it.",
        ),
        (
            a_job(Routing.BUSY_OVER),
            "Busy over: the first by name that runs nothing of this job.",
        ),
        (
            a_job(Routing.PINNED, nodes=("n*",)),
            "Pinned: the least busy of its nodes, 0 of 10 slots used.",
        ),
        (
            a_job(Routing.SHARDS, shards=2),
            "A shard, for the least busy node: 0 of 10 slots used.",
        ),
    ],
)
def test_each_strategy_gives_its_reason(config: JobConfig, expected: str) -> None:
    nodes = [a_node(1, weight=1), a_node(2, weight=4), a_node(3, weight=1)]
    placed = a_router(nodes).place(a_run(parameters='{"customer":42}'), config)
    assert told(placed) == [expected]
    assert placed is not None
    assert len(placed.choice) < 200


def test_reasons_without_a_strategy() -> None:
    nodes = [a_node(1, cordoned=True), a_node(2, in_use=4)]
    router = a_router(nodes)
    assert told(router.place(a_run(), a_job(Routing.RANDOM))) == [
        "The only node that could take it: 4 of 10 slots used.",
        "n1 was cordoned.",
    ]
    chosen = router.place(a_run(pinned_node_id=2), a_job(Routing.RANDOM))
    assert told(chosen) == ["This node was chosen for this run."]
    shard = router.place(a_run(pinned_node_id=2, fire_id=9), a_job(Routing.BROADCAST))
    assert told(shard) == ["Broadcast: this shard is for this node."]


def test_who_came_before_in_an_order_is_told() -> None:
    nodes = [a_node(1, in_use=10), a_node(2), a_node(3), a_node(4, cordoned=True)]
    for strategy, expected in (
        (Routing.FIRST, ["n1 had no free slot."]),
        (Routing.LAST, ["n4 was cordoned."]),
        (Routing.BUSY_OVER, ["n1 had no free slot.", "n2 was running this job."]),
    ):
        router = a_router(nodes)
        router.busy = {1: {2}}
        assert told(router.place(a_run(), a_job(strategy)))[1:] == expected


def test_a_reason_comes_back_from_its_text_and_a_newer_one_is_nothing() -> None:
    choice = Choice("weighted", 5, 3, 16, (), 0, (3, 10))
    assert choice_of(choice.to_json()) == choice
    assert choice_of(None) is None
    assert choice_of('["weighted",5,3,16,[["n2","asleep"]]]') is None
    newer = choice_of('["by_moon",5,3,16]')
    assert newer is not None
    assert [s.template % s.params for s in sentences(newer)] == ["3 of 16 slots used."]


def test_the_api_tells_the_reason_in_the_language_of_the_reader() -> None:
    choice = Choice("least_busy", 5, 3, 16, (PassedOver("n2", Why.CORDONED),), 4)
    told = choice_view(choice.to_json(), "en")
    assert told["why_node"] == (
        "Least busy: 3 of 16 slots used. n2 was cordoned. Others passed over: 4."
    )
    assert told["choice"] == {
        "by": "least_busy",
        "candidates": 5,
        "used": 3,
        "slots": 16,
        "passed_over": [{"node": "n2", "why": "cordoned"}],
        "more_passed_over": 4,
        "detail": [],
    }
    assert "n2" in choice_view(choice.to_json(), "zh_CN")["why_node"]
    assert choice_view(choice.to_json(), "zh_CN")["why_node"] != told["why_node"]
    assert choice_view(None, "en") == {"why_node": None, "choice": None}


def test_long_names_and_values_are_cut_in_reasons() -> None:
    names = [a_node(n, name=f"{n}" * 200, cordoned=n < 5) for n in range(1, 6)]
    config = a_job(Routing.CONSISTENT_HASH, hash_by="c" * 200)
    run = a_run(parameters=json.dumps({"c" * 200: "v" * 500}))
    placed = a_router(names).place(run, config)
    assert placed is not None
    assert len(placed.choice.encode()) < 400
    assert "…" in placed.choice


def test_a_pool_forgets_what_fills_up_while_others_use_it() -> None:
    filled: list[Candidate] = []
    nodes = [Candidate(node_id=n, name=f"n{n}", slots=1, free=1) for n in range(4)]
    pool = Pool(nodes, filled=filled)
    nodes[1].free = nodes[2].free = 0
    filled += [nodes[2], Candidate(node_id=9, name="x", slots=1, free=0), nodes[1]]
    assert pool.settle()
    run = RunToPlace(random=CHANCE)
    seen = {STRATEGIES[Routing.RANDOM].choose(pool, run) for _ in range(50)}
    assert {pick.node.node_id for pick in seen if pick} == {0, 3}
