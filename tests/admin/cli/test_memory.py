"""Memory is given back when there is some, and not all the time."""

from __future__ import annotations

from tickwheel_admin.cli.memory import GROWTH_MIB, Trimmer


def test_memory_is_given_back_when_much_has_come() -> None:
    held = [100]
    trims: list[int] = []

    def trim() -> None:
        trims.append(held[0])
        held[0] = 110

    trimmer = Trimmer(resident_mib=lambda: held[0], trim=trim)
    assert trimmer.look()  # after the start
    held[0] = 110 + GROWTH_MIB - 1
    assert not trimmer.look()
    held[0] = 110 + GROWTH_MIB
    assert trimmer.look()
    held[0] = 60  # the system took it by itself: the next growth is counted from here
    assert not trimmer.look()
    held[0] = 60 + GROWTH_MIB
    assert trimmer.look()
    assert trims == [100, 110 + GROWTH_MIB, 60 + GROWTH_MIB]


def test_the_system_takes_it() -> None:
    assert Trimmer(resident_mib=lambda: 1_000_000).look()
