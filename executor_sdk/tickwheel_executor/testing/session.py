"""One session of a fake admin: the admin's side of PROTOCOL.md, without a database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tickwheel_shared.protocol import (
    PROTOCOL_VERSION,
    Accepted,
    Cancel,
    CancelReason,
    Checkpoint,
    Drain,
    Draining,
    FromNode,
    Goodbye,
    Heartbeat,
    HeartbeatAck,
    Held,
    Hello,
    LogChunk,
    LogReceipt,
    Message,
    Progress,
    ReceiptCode,
    Refused,
    Rejected,
    Result,
    ResultReceipt,
    RunRequest,
    Welcome,
    agree_version,
)

from .attempts import FakeAttempt

AttemptKey = tuple[int, int]  # run, attempt


@dataclass(slots=True, kw_only=True)
class FakeAdminState:
    """Behaviour of a fake admin, and its attempts; shared by all its sessions."""

    name: str = "fake-admin"
    executor: str | None = None  # None: nodes of any executor are accepted
    heartbeat_ms: int = 3_000
    lease_ms: int = 15_000
    answers_heartbeats: bool = True
    gives_receipts: bool = True  # for results
    keeps_log: bool = True  # and confirms each chunk
    drains: bool = False  # tells nodes to accept no new runs
    rejects: Rejected | None = None  # the answer to every hello
    attempts: dict[AttemptKey, FakeAttempt] = field(default_factory=dict)


class FakeSession:
    """One socket of a node, from hello on. `send` must keep the order and not block."""

    def __init__(
        self,
        state: FakeAdminState,
        send: Callable[[Message], None],
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._state = state
        self.send = send
        self._on_change = on_change
        self._hello: Hello | None = None
        self.is_ready = False  # runs may be sent
        self.is_leaving = False  # it accepts no more

    @property
    def hello(self) -> Hello:
        """The hello of the node; known if it is ready."""
        if self._hello is None:
            raise RuntimeError("it has not said hello")
        return self._hello

    def dispatch(self, attempt: FakeAttempt) -> None:
        """Send it to the node."""
        request = attempt.request
        attempt.dispatched_to = self.hello.node_key
        self._state.attempts[request.run, request.attempt] = attempt
        self.send(request)

    def cancel(self, request: RunRequest, reason: CancelReason = CancelReason.OPERATOR) -> None:
        """Tell the node to stop it."""
        self.send(
            Cancel(run=request.run, attempt=request.attempt, token=request.token, reason=reason)
        )

    def take(self, message: FromNode) -> None:
        """Handle a message of the node."""
        if isinstance(message, Hello):
            self._greet(message)
        elif isinstance(message, Held):
            self._ready()
        elif isinstance(message, Heartbeat):
            if self._state.answers_heartbeats:
                self.send(HeartbeatAck(seq=message.seq))
        elif isinstance(message, Draining | Goodbye):
            self.is_leaving = True
            self._on_change()
        else:
            self._about_attempt(message)

    def _greet(self, hello: Hello) -> None:
        state = self._state
        rejected = state.rejects
        version = agree_version(hello.versions)
        if rejected is None and version is None:
            text = f"no common protocol version: the node speaks {hello.versions}"
            rejected = Rejected(code="version", message=text, fatal=True)
        if rejected is None and state.executor not in (None, hello.executor):
            text = f"the token belongs to {state.executor!r}, not to {hello.executor!r}"
            rejected = Rejected(code="wrong_executor", message=text, fatal=True)
        if rejected is not None:
            self.send(rejected)
            return
        self._hello = hello
        self.send(self._welcome(version or PROTOCOL_VERSION))
        if state.drains:
            self.send(Drain(on=True))

    def _welcome(self, version: int) -> Welcome:
        return Welcome(
            version=version,
            node_id=1,
            admin=self._state.name,
            admins=[],
            heartbeat_ms=self._state.heartbeat_ms,
            lease_ms=self._state.lease_ms,
        )

    def _ready(self) -> None:
        self.is_ready = True
        for attempt in self._state.attempts.values():
            lost = not attempt.accepted.is_set() and attempt.is_open  # lost with a broken socket
            if lost and attempt.dispatched_to == self.hello.node_key:
                self.send(attempt.request)
        self._on_change()

    def _about_attempt(
        self, message: Accepted | Refused | Progress | Checkpoint | LogChunk | Result
    ) -> None:
        attempt = self._state.attempts.get((message.run, message.attempt))
        if attempt is not None:  # else of a run that this admin has not sent
            attempt.take(message)
        if isinstance(message, LogChunk) and self._state.keeps_log:
            self.send(
                LogReceipt(run=message.run, attempt=message.attempt, first_seq=message.first_seq)
            )
        elif isinstance(message, Result) and self._state.gives_receipts:
            self.send(
                ResultReceipt(
                    run=message.run,
                    attempt=message.attempt,
                    token=message.token,
                    receipt=ReceiptCode.RECORDED,
                )
            )
