"""The rate of a channel: no more messages in any minute than it may take, and few at once."""

from __future__ import annotations

MINUTE_MS = 60_000


def allowed(per_minute: int, *, paced_to: int, now: int) -> int:
    """How many messages may be sent now.

    Half of a minute's messages may go at once, and the other half spread over the minute: so no
    sixty seconds, wherever they begin, have more than `per_minute`.

    Args:
        paced_to: what `paced` said after the last message, UTC ms; 0: there was none.
    """
    burst, every = _burst(per_minute)
    ahead = max(paced_to - now, 0)
    return max(0, (burst * every - ahead) // every)


def paced(per_minute: int, *, paced_to: int, now: int, messages: int) -> int:
    """What is kept after so many messages."""
    _, every = _burst(per_minute)
    return max(paced_to, now) + messages * every


def next_at(per_minute: int, *, paced_to: int, now: int) -> int:
    """When the next message may be sent, UTC ms."""
    burst, every = _burst(per_minute)
    return max(now, paced_to + every - burst * every)


def _burst(per_minute: int) -> tuple[int, int]:
    """(messages at once, ms between further ones)."""
    burst = max(1, per_minute // 2)
    further = per_minute - burst
    # Rounded up: rounding down would let one more into the minute.
    return burst, MINUTE_MS if further <= 0 else -(-MINUTE_MS // further)
