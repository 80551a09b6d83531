"""What a routing strategy is: how it chooses, what it must know, and what people read about it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from tickwheel_admin.domain.routing.pool import Candidate, Passed, Pool
from tickwheel_admin.domain.routing.uses import Uses

UNUSED = Uses({}, ())  # of jobs whose strategy counts no uses


class RandomSource(Protocol):
    """What of `random.Random` the rules use."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to stop - 1."""
        ...


class RunToPlace(NamedTuple):
    """What a strategy may know of the run that it places; each looks at its own part only."""

    random: RandomSource
    job_id: int = 0
    turn: int = 0  # runs of this job that were routed before; with Memory.TURN
    nodes: tuple[str, ...] = ()  # names, in the job's order
    key: str = ""  # what is hashed
    hash_by: str | None = None  # the parameter whose value that is; None: it is the job
    uses: Uses = UNUSED  # of the nodes by this job; with Memory.USES
    busy: Collection[int] = ()  # ids of the nodes that run this job; with Memory.BUSY


class Pick(NamedTuple):
    """A chosen node, and what its reason tells."""

    node: Candidate
    detail: tuple[int | str, ...] = ()  # values of `Strategy.detail`, or none of them
    passed: Passed | None = None  # who came before it; None: the strategy goes by no order


class Memory(StrEnum):
    """What a strategy has to know of the runs before. It is in the database: admins must agree."""

    TURN = "turn"  # how many runs of the job were routed
    USES = "uses"  # what each node had of the job
    BUSY = "busy"  # which nodes run the job now


class NodeNames(StrEnum):
    """What the names of nodes in a job's policy mean."""

    PREFERRED = "preferred"  # they are tried first, in this order
    REQUIRED = "required"  # no other nodes are taken


class Split(StrEnum):
    """How one run becomes several when it is claimed."""

    PER_NODE = "per_node"  # one for every live node, and only for that one
    BY_NUMBER = "by_number"  # as many as the policy says, each placed by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Everything about one routing strategy. Texts are English message ids."""

    # From a pool with at least one open node. None: the run waits for another one.
    choose: Callable[[Pool, RunToPlace], Pick | None]

    title: str
    hint: str  # what it does, and when it is right
    group: str  # the heading that it is listed under
    # Why it chose a node. Params are `nodes` (that could be chosen), `used` and `slots` (of the
    # chosen one), and those that `detail` names.
    reason: str
    detail: tuple[str, ...] = ()
    reason_without_detail: str = ""  # of a pick that has none
    compares: bool = True  # its reason means nothing when there was one node only

    memory: Memory | None = None
    names: NodeNames | None = None  # None: a policy with this strategy names no nodes
    weighs: bool = False  # looks at the weights of nodes
    hashes: bool = False  # a policy may name the parameter
    from_last: bool = False  # looks at nodes from the last name to the first
    split: Split | None = None
