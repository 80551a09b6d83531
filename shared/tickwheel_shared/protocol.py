"""Messages between a node and an admin, and the frames that carry them (PROTOCOL.md).

A frame is one WebSocket text message: a JSON array of messages. A sender puts everything that it
has for the peer into one frame, which batches messages without delay. Unknown message types and
fields are refused: a sender uses nothing newer than the version agreed in hello and welcome. Only
hello may have fields that an admin does not know, because it comes before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec

from tickwheel_shared.trace_context import MAX_TRACESTATE_CHARS

PROTOCOL_VERSION = 2
SPOKEN_VERSIONS = (PROTOCOL_VERSION, 1)  # newest first
LINK_PATH = "/link/v1"
ERROR_HEADER = "X-Tickwheel-Error"  # of an answer in place of a WebSocket: why
CERTIFICATE_MISSING = "node.certificate_missing"

MAX_FRAME_BYTES = 4 * 1024 * 1024  # a receiver closes the socket on a larger frame
SOFT_FRAME_BYTES = 512 * 1024  # a sender starts a new frame when it reaches this
MAX_PARAMETERS_BYTES = 64 * 1024  # JSON text of a run's parameters
MAX_RESULT_BYTES = 64 * 1024  # JSON text of a run's result
MAX_MESSAGE_CHARS = 4_000  # an error message or a progress text
MAX_LINE_CHARS = 16_000  # one log line; longer ones are cut with a mark
MAX_LINES_PER_CHUNK = 500
MAX_RETRY_AFTER_MS = 604_800_000  # the longest wait for its next try that a handler can ask for
MAX_SLOTS = 10_000
MAX_WEIGHT = 1_000
MAX_STATE_BYTES = 64 * 1024  # JSON text of what a job keeps between its runs
MAX_CHECKPOINT_BYTES = 64 * 1024  # JSON text of what an attempt leaves for the next try
MAX_SCHEMA_BYTES = 16 * 1024  # JSON Schema of a handler's parameters
MAX_SCHEMAS_BYTES = 512 * 1024  # of all schemas of a hello together
MAX_DECLARED_JOBS = 500  # jobs that a node declares in its code
MAX_DECLARED_BYTES = 1024 * 1024  # of their JSON text together
MAX_SCRIPT_BYTES = 256 * 1024  # UTF-8 source of a script
MAX_SPAWNED_ITEMS = 10_000  # items that a step of a workflow hands over with its result
MAX_SPAWNED_BYTES = 256 * 1024  # of their JSON text together
MAX_SECRETS = 100  # values that a run's parameters take from its executor's secrets


# Bounds that every store and JavaScript keep exactly.
RunId = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
AttemptNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
LineNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
CheckpointNumber = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
WallClock = Annotated[int, msgspec.Meta(ge=-(2**53) + 1, le=2**53 - 1)]  # may be set to 1969
ClaimToken = Annotated[str, msgspec.Meta(max_length=64)]
SlotCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS)]
Weight = Annotated[int, msgspec.Meta(ge=1, le=MAX_WEIGHT)]
TraceParent = Annotated[str, msgspec.Meta(pattern="^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]
TraceState = Annotated[str, msgspec.Meta(max_length=MAX_TRACESTATE_CHARS)]


class Outcome(StrEnum):
    """How an attempt ended, as its node saw it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # the handler raised, or its result cannot be stored
    TIMED_OUT = "timed_out"  # the node stopped waiting at the timeout
    CANCELLED = "cancelled"  # stopped because an admin sent cancel
    SKIPPED = "skipped"  # the handler found nothing to do; `message` says why
    CUT_OFF = "cut_off"  # its node lost all admins and stopped it; counts as lost


class Refusal(StrEnum):
    """Why a node did not start an attempt. No refusal costs a try."""

    FULL = "full"  # every slot is taken
    DRAINING = "draining"  # the node is shutting down
    UNKNOWN_HANDLER = "unknown_handler"  # no handler of that name is registered
    SPOOL_FAILED = "spool_failed"  # a result could not be made safe on disk
    NEVER_SEEN = "never_seen"  # a query or cancel named an attempt it does not know


class CancelReason(StrEnum):
    """Why a node is told to stop an attempt."""

    OPERATOR = "operator"  # somebody cancelled the run
    TIMEOUT = "timeout"  # past its timeout, and the node did not end it
    COVERED = "covered"  # a newer run of the job takes its place
    STALE = "stale"  # the attempt is no longer current; its result will not count


class ReceiptCode(StrEnum):
    """What became of a result. Each of them lets the node delete its spool entry."""

    RECORDED = "recorded"
    ALREADY_RECORDED = "already_recorded"
    REFUSED = "refused"  # unknown run, old attempt or wrong token


class Level(StrEnum):
    """Severity of a log line."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


# All structs here have gc=False: they form no cycles, and thousands of short-lived objects would
# trigger the garbage collector too often.
class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", gc=False):
    """Base of everything that crosses the wire."""


class RunKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One attempt of one run; `token` proves that the node received it."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken


# --- node to admin ---------------------------------------------------------------------------


class Hello(Message, frozen=True, kw_only=True, forbid_unknown_fields=False, tag="hello"):
    """First message on every socket; what a newer node adds to it is ignored."""

    versions: list[int]  # protocol versions the node speaks
    executor: str  # must be the executor that the bearer token belongs to
    node_key: str  # 32 hex digits, new for every process start
    name: str  # for display, unique among the live nodes by convention: "host-1234"
    sdk: str  # "python/0.1.0"
    slots: int  # attempts it runs at once, 1..10000
    handlers: list[str]
    unstoppable: list[str] = []  # handlers that cannot be stopped: plain functions in threads
    labels: dict[str, str] = {}
    weight: Weight = 1  # its share of the runs of jobs with weighted routing
    # JSON Schema (2020-12) of the parameters, by handler; for handlers with typed parameters
    schemas: dict[str, msgspec.Raw] = {}
    jobs: list[msgspec.Raw] = []  # declared in its code, in the form of the API
    clock: WallClock | None = None  # UTC epoch ms when it was sent, to detect a wrong clock


class Heartbeat(Message, frozen=True, kw_only=True, tag="heartbeat"):
    """Sent every `heartbeat_ms`, with the number of attempts that the node runs."""

    seq: Count  # rises by one per socket, from 1
    in_use: Count


class Held(Message, frozen=True, kw_only=True, tag="held"):
    """After welcome and the spool: every attempt the node still runs. Sent even when empty."""

    runs: list[RunKey]


class Accepted(Message, frozen=True, kw_only=True, tag="accepted"):
    """The attempt has a slot and starts now. Also the answer to a query for a running attempt."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken


class Refused(Message, frozen=True, kw_only=True, tag="refused"):
    """The attempt was not started and never will be on this node."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken
    reason: Refusal
    message: str = ""


class Progress(Message, frozen=True, kw_only=True, tag="progress"):
    """Progress of a running attempt; only the latest matters."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken
    fraction: float  # 0..1
    text: str = ""


class Checkpoint(Message, frozen=True, kw_only=True, tag="checkpoint"):
    """What a running attempt saves for the next try of its run; only the latest matters."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken
    seq: CheckpointNumber  # rises with each checkpoint of the attempt, on all sockets
    data: msgspec.Raw  # any JSON, MAX_CHECKPOINT_BYTES at most


class WireLine(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One line; as an array [at, level, text] to stay small."""

    at: WallClock  # UTC epoch ms by the node's clock, for display only
    level: Level
    text: str


class LogChunk(Message, frozen=True, kw_only=True, tag="log"):
    """Lines first_seq, first_seq + 1, … of an attempt. A chunk is resent unchanged until acked."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken
    first_seq: LineNumber  # from 1 within the attempt
    lines: list[WireLine]


class Result(Message, frozen=True, kw_only=True, tag="result"):
    """How an attempt ended. Resent, to any admin, until a receipt arrives."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken
    outcome: Outcome
    duration_ms: Milliseconds  # by the node's monotonic clock
    result: msgspec.Raw = msgspec.Raw(b"null")  # JSON the handler returned
    message: str = ""  # error text when it did not succeed
    log_lines: Count = 0  # how many log lines the attempt wrote in total
    # failed: delay that the handler asks for before the next try; MAX_RETRY_AFTER_MS at most
    retry_after_ms: Milliseconds | None = None
    final: bool = False  # failed: another try would not help
    # succeeded, skipped: an object for the job's next run, MAX_STATE_BYTES at most; null: unchanged
    state: msgspec.Raw = msgspec.Raw(b"null")
    # all other outcomes: the attempt's last checkpoint; null: none
    checkpoint: msgspec.Raw = msgspec.Raw(b"null")
    # succeeded, of a run with `may_spawn`: a JSON list of items, MAX_SPAWNED_ITEMS and
    # MAX_SPAWNED_BYTES at most. Since version 2.
    spawn: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Draining(Message, frozen=True, kw_only=True, tag="draining"):
    """The node accepts no new runs; it finishes those it has and then sends goodbye."""


class Goodbye(Message, frozen=True, kw_only=True, tag="goodbye"):
    """The node has nothing left and closes; its lease may end at once."""


# --- admin to node ---------------------------------------------------------------------------


class Welcome(Message, frozen=True, kw_only=True, tag="welcome"):
    """Answer to hello."""

    version: int  # the protocol version that both use from now on
    node_id: int
    admin: str  # name of this admin
    admins: list[str]  # base URLs of all live admins; the node opens a socket to each
    heartbeat_ms: int
    lease_ms: int
    slots: SlotCount | None = None  # set by an operator; None: as many as hello said


class HeartbeatAck(Message, frozen=True, kw_only=True, tag="heartbeat_ack"):
    """A lease renewal that covers heartbeat `seq` is committed."""

    seq: Count


class RunScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The script of a script job, as the run's revision of the job has it."""

    language: str  # shell, python, node, php, powershell, perl, ruby, or one that the node names
    source: str  # MAX_SCRIPT_BYTES at most
    sha256: str  # of `source` in UTF-8, 64 hex digits; the node MUST compare it
    signature: str = ""  # base64 of an ed25519 signature of the script; "": it has none


class RunRequest(Message, frozen=True, kw_only=True, tag="run"):
    """Start this attempt, unless it is already known."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken
    job_id: int
    job: str  # name of the job
    handler: str
    parameters: msgspec.Raw  # a JSON object
    # UTC epoch ms: the time that the run was scheduled or requested for; a manual retry keeps that
    # of the run it repeats.
    scheduled_at: int
    # UTC epoch ms: when this try was due, if not at `scheduled_at`. Since version 2.
    due_at: int | msgspec.UnsetType = msgspec.UNSET
    # UTC epoch ms: the instant before `scheduled_at` by the schedule, if there is one: the run is
    # about the time from then to `scheduled_at`. Since version 2.
    interval_start: int | msgspec.UnsetType = msgspec.UNSET
    timeout_ms: int | None  # None: no limit
    try_number: int  # from 1; counts accepted and lost attempts only
    max_tries: int
    origin: str  # why the run exists: PROTOCOL.md, 4
    shard_index: int = 0
    shard_total: int = 1
    # A JSON object: the state that the job's last run saved; null: the job has no state.
    state: msgspec.Raw = msgspec.Raw(b"null")
    checkpoint: msgspec.Raw = msgspec.Raw(b"null")  # of an earlier try of this run
    # It must not overlap with another run: end it when all admins are lost (PROTOCOL.md, 3).
    stop_when_cut_off: bool = False
    recovering: bool = False  # an earlier attempt was lost; its work may be partly done
    script: RunScript | msgspec.UnsetType = msgspec.UNSET  # of a script job. Since version 2.
    # It is the run of a workflow's step, and its result may `spawn` items. Since version 2.
    may_spawn: bool | msgspec.UnsetType = msgspec.UNSET
    # The item that it is about, any JSON but null, of those that a run of its step has spawned.
    # Since version 2.
    item: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    # Values of secrets that `parameters` contain: the node MUST hide them in lines, messages,
    # progress, results, state and checkpoints. MAX_SECRETS at most. Since version 2.
    secrets: list[str] | msgspec.UnsetType = msgspec.UNSET
    # W3C Trace Context of the attempt, if the run is part of a trace. Since version 2.
    traceparent: TraceParent | msgspec.UnsetType = msgspec.UNSET
    tracestate: TraceState | msgspec.UnsetType = msgspec.UNSET

    def __repr__(self) -> str:
        # Parameters may hold secrets: whoever logs or raises this must not print them.
        return f"RunRequest(run={self.run}, attempt={self.attempt}, handler={self.handler!r})"


class Query(Message, frozen=True, kw_only=True, tag="query"):
    """Ask for an attempt. Answered by accepted, a result, or refused(never_seen)."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken


class Cancel(Message, frozen=True, kw_only=True, tag="cancel"):
    """Stop this attempt. Answered by a result, or refused(never_seen)."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken
    reason: CancelReason


class ResultReceipt(Message, frozen=True, kw_only=True, tag="receipt"):
    """The result is recorded or refused for good; the node deletes its spool entry."""

    run: RunId
    attempt: AttemptNumber
    token: ClaimToken  # that of the result
    receipt: ReceiptCode
    reason: str = ""


class LogReceipt(Message, frozen=True, kw_only=True, tag="log_receipt"):
    """The chunk that starts at `first_seq` is stored, or not needed."""

    run: RunId
    attempt: AttemptNumber
    first_seq: LineNumber


class Drain(Message, frozen=True, kw_only=True, tag="drain"):
    """An operator tells the node to accept no new runs, or (`on=False`) to accept them again."""

    on: bool = True


class SetSlots(Message, frozen=True, kw_only=True, tag="slots"):
    """An operator changed the number of slots; running attempts continue."""

    slots: SlotCount


class Notice(Message, frozen=True, kw_only=True, tag="notice"):
    """A message for operators, for the node's own log."""

    level: Level
    text: Annotated[str, msgspec.Meta(max_length=MAX_MESSAGE_CHARS)]


class Admins(Message, frozen=True, kw_only=True, tag="admins"):
    """The set of live admins has changed; the node opens a socket to each."""

    urls: list[str]  # base URLs of all live admins, as in welcome


class Rejected(Message, frozen=True, kw_only=True, tag="rejected"):
    """The admin closes this socket. `fatal`: connecting again unchanged cannot work."""

    code: str
    message: str
    fatal: bool


FromNode = (
    Hello
    | Heartbeat
    | Held
    | Accepted
    | Refused
    | Progress
    | Checkpoint
    | LogChunk
    | Result
    | Draining
    | Goodbye
)
FromAdmin = (
    Welcome
    | HeartbeatAck
    | RunRequest
    | Query
    | Cancel
    | ResultReceipt
    | LogReceipt
    | Drain
    | SetSlots
    | Notice
    | Admins
    | Rejected
)

_T = TypeVar("_T")
_M = TypeVar("_M", bound=Message)
_encoder = msgspec.json.Encoder()
_from_node = msgspec.json.Decoder(list[FromNode])
_from_admin = msgspec.json.Decoder(list[FromAdmin])


class FrameError(ValueError):
    """A frame violates PROTOCOL.md; the message says where."""


def decode_from_node(frame: str | bytes) -> list[FromNode]:
    """Messages of a frame that a node sent.

    Raises:
        FrameError: too large, not JSON, or a message with unknown, missing or wrong fields.
    """
    return _decode(_from_node, frame)


def decode_from_admin(frame: str | bytes) -> list[FromAdmin]:
    """Messages of a frame that an admin sent; raises FrameError like `decode_from_node`."""
    return _decode(_from_admin, frame)


def _decode(decoder: msgspec.json.Decoder[_T], frame: str | bytes) -> _T:
    if len(frame) > MAX_FRAME_BYTES:
        raise FrameError(f"frame of {len(frame)} bytes; the limit is {MAX_FRAME_BYTES}")
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(str(error)) from error


def encode_frames(messages: Iterable[Message]) -> Iterator[bytes]:
    """Pack messages, in order, into as few frames as the size limits allow."""
    parts: list[bytes] = []
    size = 0
    for message in messages:
        part = _encoder.encode(message)
        if parts and size + len(part) > SOFT_FRAME_BYTES:
            yield b"[" + b",".join(parts) + b"]"
            parts, size = [], 0
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield b"[" + b",".join(parts) + b"]"


def agree_version(offered: Sequence[int]) -> int | None:
    """The newest version that both sides speak; None if there is none."""
    return next((version for version in SPOKEN_VERSIONS if version in offered), None)


_SINCE_VERSION_2 = (
    "due_at",
    "interval_start",
    "script",
    "may_spawn",
    "item",
    "secrets",
    "traceparent",
    "tracestate",
)


def for_version(message: _M, version: int) -> _M:
    """The message without what a peer with this agreed version does not know."""
    if version >= 2 or not isinstance(message, RunRequest):
        return message
    return msgspec.structs.replace(message, **dict.fromkeys(_SINCE_VERSION_2, msgspec.UNSET))
