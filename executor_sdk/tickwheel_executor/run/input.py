"""What a run begins from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class Given:
    """What a request gives its handler, decoded (decoding.py)."""

    parameters: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)  # these, as the handler takes them
    state: dict[str, Any] | None = None  # None: the job keeps none
    checkpoint: Any = None  # what an earlier try left
    deadline_at: int | None = None  # UTC epoch ms; None: it has no timeout
