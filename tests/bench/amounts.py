"""What a measurement is: its name, what it needs, and how much is measured at each size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tests.bench.arguments import Size


class Where(Enum):
    """What a measurement needs; what it is called with first."""

    MACHINE = auto()  # nothing, or a database that it chooses itself
    BED = auto()  # the bed of one admin and two nodes that several measurements share
    DATABASE = auto()  # a kind of database, on which it starts what it needs itself


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a measurement."""

    seconds: float  # about how long one repeat takes; only for the time left
    arguments: dict[str, Any]  # of `measure`
    repeats: int = 1  # of which the medians are reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Something that the bench can measure. `measure` gives a dataclass or a dict of figures."""

    name: str  # on the command line and in bench.json
    what: str
    where: Where
    measure: Callable[..., Any]
    quick: Amount
    usual: Amount
    full: Amount
    least: Size = Size.QUICK  # the smallest size that it belongs to; --only takes it at any
    not_on: tuple[str, ...] = ()  # kinds of database where it makes no sense

    def amount(self, size: Size) -> Amount:
        """How much of it at this size."""
        return {Size.QUICK: self.quick, Size.USUAL: self.usual, Size.FULL: self.full}[size]

    def belongs_to(self, size: Size) -> bool:
        """Whether it is measured when no names are given."""
        sizes = list(Size)
        return sizes.index(size) >= sizes.index(self.least)
