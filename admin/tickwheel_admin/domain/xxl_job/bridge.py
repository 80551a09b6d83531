"""What the bridge to XXL-JOB executors knows: executors, their addresses, and runs on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tickwheel_admin.domain.runs.run import LIVE, RunState
from tickwheel_shared.secret_mask import SecretMask

MAX_REGISTERED = 1_000  # addresses of one executor at which its processes register now
MAX_KEPT = 2 * MAX_REGISTERED  # the same, with those that are not in use any more
REGISTRATION_MS = 90_000  # an address that has not registered again for so long gets no new runs
LEAVING_MS = (
    3_600_000  # for which the runs of such a process, or of one that took itself out, go on
)
NODE_SLOTS = 200  # runs at once on a node, unless an operator says otherwise
WATCHED_PER_NODE = 10_000  # runs of a node that are adopted from an admin before this one


class ClientKind(StrEnum):
    """Whose client library an executor uses, as the User-Agent of its requests tells."""

    JAVA = "java"
    GO = "go"
    PYTHON = "python"
    NODE = "node"
    OTHER = "other"


def client_of(user_agent: str) -> ClientKind:
    """The client that sends this User-Agent."""
    name = user_agent.lower()
    for prefix, kind in (
        ("java", ClientKind.JAVA),
        ("go-http-client", ClientKind.GO),
        ("python", ClientKind.PYTHON),
        ("aiohttp", ClientKind.PYTHON),
        ("axios", ClientKind.NODE),
        ("node", ClientKind.NODE),
        ("undici", ClientKind.NODE),
        ("got", ClientKind.NODE),
    ):
        if name.startswith(prefix) or (prefix == "aiohttp" and prefix in name):
            return kind
    return ClientKind.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """An executor says that it listens somewhere."""

    executor_id: int
    address: str
    client: ClientKind

    @property
    def key(self) -> tuple[int, str]:
        return self.executor_id, self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlExecutor:
    """An executor of this protocol."""

    id: int
    name: str
    app_name: str
    token: str = field(repr=False)  # that calls in both directions carry
    token_hash: str  # by which the engine knows that the executor is there still
    addresses: Sequence[str] | None  # set by hand; None: they register themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlAddress:
    """Where a process of an executor listens."""

    executor_id: int
    address: str
    incarnation: int = 0  # raised each time its process was found gone
    dialect: str | None = None  # seen so far
    client: str | None = None  # a ClientKind, seen so far
    registered_at: int | None = None  # last registration; None: set by hand
    is_leaving: bool = False  # its process took itself out, or does not register any more

    @property
    def key(self) -> tuple[int, str]:
        return self.executor_id, self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressReport:
    """What an admin saw at an address since its last report."""

    executor_id: int
    address: str
    node_id: int | None
    dialect: str | None
    beat_at_ms_ago: int | None  # None: no good beat since
    calls: int
    errors: int
    error: str | None  # the last; None: none since
    error_ms_ago: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeView:
    """What the database says of everything the bridge serves."""

    executors: Mapping[int, XxlExecutor]
    addresses: Sequence[XxlAddress]  # those that are to be served
    # Admins that serve this protocol and renewed their lease lately, with the executors that they
    # cannot serve: they do not read their tokens.
    admins: Mapping[int, Collection[int]]
    unreadable: Collection[int] = frozenset()  # executors whose token this admin does not read


class GivenParameters(NamedTuple):
    """Where the parameters of a run come from."""

    executor_id: int
    job_id: int
    job_revision: int
    parameters: str | None  # what replaces the job's; None: nothing does

    def __repr__(self) -> str:
        return f"GivenParameters(job_id={self.job_id}, job_revision={self.job_revision})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the ledger says of a run that is on such a node, or was."""

    run: int
    executor_id: int
    job_id: int
    node_id: int | None
    attempt: int
    token: str
    state: RunState
    dispatched_at: int | None
    started_at: int | None
    cancel_requested: bool
    cancel_reason: str | None
    now: int
    given: GivenParameters | None = None  # None: not asked for
    code: str | None = None  # `glue.code_of` its job; None: not known
    mask: SecretMask | None = None  # hides its secrets in what its executor says

    @property
    def age_seconds(self) -> float:
        """Since its claim, by the database's clock."""
        return 0.0 if self.dispatched_at is None else (self.now - self.dispatched_at) / 1000

    @property
    def is_live(self) -> bool:
        return self.state in LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedLog:
    """An ended attempt whose log is still at its executor."""

    run: int
    attempt: int
    token: str
    node_id: int
    log_id: int  # by which the executor knows it
    time_ms: int  # the same
    lines: int = 0  # stored so far
    given: GivenParameters | None = None  # None: its run is not there any more, or not asked for
    mask: SecretMask | None = None  # hides the secrets of its run
