"""Places of nodes in pictures of graphs."""

from __future__ import annotations

from random import Random

from tickwheel_admin.console.frame.graph_layout import HEIGHT, WIDTH, Link, picture_of


def links(*pairs: str) -> tuple[Link, ...]:
    """Links between nodes named by letters: "ab" leads from a to b."""
    return tuple(Link(ord(pair[0]) - ord("a"), ord(pair[1]) - ord("a")) for pair in pairs)


DIAMOND = links("ab", "ac", "bd", "cd")


def test_nodes_stand_behind_what_leads_to_them_and_apart() -> None:
    rng = Random(1)
    many = tuple(
        Link(source, target)
        for target in range(300)
        for source in rng.sample(range(target), min(target, 3))
    )
    for count, known in ((5, DIAMOND), (300, many)):
        picture = picture_of(count, known)
        for link in known:
            assert picture.spots[link.source].column < picture.spots[link.target].column
        corners = {(spot.x, spot.y) for spot in picture.spots}
        assert len(corners) == count
        for x, y in corners:
            assert 0 <= x <= picture.width - WIDTH
            assert 0 <= y <= picture.height - HEIGHT
    assert [spot.column for spot in picture_of(5, DIAMOND).spots] == [0, 1, 1, 2, 0]


def test_links_that_need_not_cross_do_not() -> None:
    spots = picture_of(6, links("cd", "be", "af")).spots
    assert [spots[n].y for n in (3, 4, 5)] == [spots[n].y for n in (2, 1, 0)]


def test_a_link_that_closes_a_circle_moves_nothing() -> None:
    closed = picture_of(5, (*DIAMOND, *links("da", "ee")))
    assert closed.spots == picture_of(5, DIAMOND).spots
