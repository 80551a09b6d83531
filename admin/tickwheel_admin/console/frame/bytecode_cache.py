"""Templates compiled once for the whole process: one that serves several applications, as tests do,
would spend most of its time on compiling."""

from __future__ import annotations

import jinja2


class CompiledTemplates(jinja2.BytecodeCache):
    """Keeps what Jinja compiled in memory; an entry is used only for the very same source."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if code := self._kept.get(bucket.key):
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


COMPILED = CompiledTemplates()
