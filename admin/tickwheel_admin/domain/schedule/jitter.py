"""Spreads runs that share an instant over a short time, the same way on every admin."""

from __future__ import annotations

_64_BITS = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def due_of(trigger_id: int, nominal: int, *, jitter_ms: int, next_nominal: int | None) -> int:
    """When the run of a trigger's instant is due: at most `jitter_ms` later.

    It stays before the trigger's next instant, so that its runs keep their order. A function of
    nothing but its arguments: whoever plans a fire, plans it for the same moment.

    Args:
        nominal: the instant of the schedule, UTC epoch ms.
        next_nominal: the one after it; None: there is none.
    """
    window = jitter_ms if next_nominal is None else min(jitter_ms, next_nominal - nominal - 1)
    if window <= 0:
        return nominal
    return nominal + mixed(mixed(trigger_id) ^ nominal) % (window + 1)


def mixed(value: int) -> int:
    """All bits of 64 spread over all others: the finaliser of SplitMix64 (Steele et al., 2014)."""
    value = (value + _GOLDEN) & _64_BITS
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _64_BITS
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _64_BITS
    return value ^ value >> 31
