"""Label selectors: what they choose, their normal form, and what is said about broken ones."""

from __future__ import annotations

import random

import pytest

from tickwheel_admin.domain.routing.node_names import place_of
from tickwheel_admin.domain.routing.policy import RoutingPolicy, admits
from tickwheel_admin.domain.routing.selector import (
    MAX_SELECTOR_CHARS,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    parse_selector,
)
from tickwheel_admin.domain.routing.strategies import Routing

WORDS = (
    "zone",
    "eu",
    "in",
    "notin",
    "a b",
    'say "hi"',
    "back\\slash",
    "k8s.io/name",
    "发票",
    "(",
    ",",
)


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("", {}, True),
        ("gpu", {"gpu": "no"}, True),
        ("gpu", {"zone": "eu"}, False),
        ("!gpu", {"zone": "eu"}, True),
        ("! gpu", {"gpu": "1"}, False),
        ("zone=eu", {"zone": "eu"}, True),
        ("zone == eu", {"zone": "eu2"}, False),
        ("zone=eu", {}, False),
        ("zone!=eu", {"zone": "us"}, True),
        ("zone!=eu", {}, True),
        ("zone in (eu, us)", {"zone": "us"}, True),
        ("zone in (eu,us)", {}, False),
        ("zone notin (eu,us)", {"zone": "cn"}, True),
        ("zone notin (eu,us)", {"zone": "eu"}, False),
        ("zone notin(eu)", {}, True),
        ("zone=eu,gpu", {"zone": "eu", "gpu": ""}, True),
        ("zone=eu,gpu", {"zone": "eu"}, False),
        ("zone=EU", {"zone": "eu"}, False),
        ('"my zone"="a, b"', {"my zone": "a, b"}, True),
        ("in in (in)", {"in": "in"}, True),
        ("zone=eu,zone!=eu", {"zone": "eu"}, False),
    ],
)
def test_what_a_selector_chooses(selector: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_selector(selector).matches(labels) is expected


@pytest.mark.parametrize(
    ("selector", "at"),
    [
        (",", 1),
        ("zone=", 6),
        ('zone=""', 6),
        ("zone=eu,", 9),
        ("zone=eu gpu", 9),
        ("zone in", 8),
        ("zone in eu", 9),
        ("zone in ()", 10),
        ("zone in (eu", 12),
        ("zone in (eu us)", 13),
        ("!", 2),
        ("!!gpu", 2),
        ("=eu", 1),
        ("a = = b", 5),
        ('  "zone', 3),
        ('zone="a\\b"', 6),
        ("zone=eu)", 8),
        ("a" * (MAX_SELECTOR_CHARS + 1), MAX_SELECTOR_CHARS + 1),
    ],
)
def test_a_broken_selector_says_where(selector: str, at: int) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(selector)
    assert caught.value.at == at
    assert caught.value.template % caught.value.params == str(caught.value)


def test_any_selector_comes_back_from_its_text() -> None:
    chosen = random.Random(5)
    for _ in range(300):
        terms = []
        for _ in range(chosen.randrange(1, 5)):
            operator = chosen.choice(list(Operator))
            many = chosen.sample(WORDS, chosen.randrange(1, 4))
            values = tuple(many) if operator in (Operator.IN, Operator.NOT_IN) else ()
            terms.append(Requirement(key=chosen.choice(WORDS), operator=operator, values=values))
        selector = Selector(tuple(terms))
        assert parse_selector(selector.text) == selector
        spaced = selector.text if '"' in selector.text else selector.text.replace(",", " , ")
        assert parse_selector(f" {spaced} ") == selector


@pytest.mark.parametrize(
    ("patterns", "name", "place"),
    [
        (("a", "b"), "b", 2),
        (("a", "b"), "ab", None),
        (("eu-*", "*"), "eu-1", 1),
        (("eu-*", "*"), "us-1", 2),
        (("*-1",), "eu-1", 1),
        (("e*-*1",), "eu-west-21", 1),
        (("e*-*1",), "eu-west-12", None),
        (("a.c",), "abc", None),
        (("a**b",), "ab", 1),
        (("*a*",), "b\na", 1),
        (("A",), "a", None),
        (("*a" * 60 + "*b",), "a" * 200, None),  # and that at once
    ],
)
def test_names_with_stars(patterns: tuple[str, ...], name: str, place: int | None) -> None:
    assert place_of(patterns, name) == place


def test_names_bind_pinned_jobs_only_and_selectors_bind_all() -> None:
    pinned = RoutingPolicy(strategy=Routing.PINNED, nodes=("a*",), selector="gpu")
    failover = RoutingPolicy(strategy=Routing.FAILOVER, nodes=("a*",), selector="gpu")
    assert admits(pinned, name="a1", labels={"gpu": "1"})
    assert not admits(pinned, name="b1", labels={"gpu": "1"})
    assert not admits(pinned, name="a1", labels={})
    assert admits(failover, name="b1", labels={"gpu": "1"})
    assert not admits(failover, name="a1", labels={})
    assert admits(
        RoutingPolicy(strategy=Routing.PINNED, selector="gpu"), name="b", labels={"gpu": "1"}
    )
