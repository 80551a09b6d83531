"""The script of a script job: what a node runs in the language that it names."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

HANDLER = "script"  # the handler of every script job

# What the console offers; a node may name others in its own configuration.
USUAL_LANGUAGES = ("shell", "python", "node", "php", "powershell", "perl", "ruby")
# What executors of XXL-JOB run.
GLUE_LANGUAGES = ("groovy", "shell", "python", "php", "node", "powershell")
LANGUAGE = re.compile(r"[a-z][a-z0-9_+.-]{0,31}", re.ASCII)
MAX_REMARK_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script by its hash. Its source is stored once, however many revisions have it."""

    language: str  # LANGUAGE
    sha256: str  # of the source in UTF-8, 64 hex digits
    remark: str = ""  # what was changed, as its author says; at most MAX_REMARK_CHARS
    signature: str = ""  # base64 of an ed25519 signature (PROTOCOL.md, 4); "": it has none
    # At most MAX_SCRIPT_BYTES in UTF-8. None: it was not read from the store, or was not given.
    source: str | None = field(default=None, compare=False, repr=False)

    @property
    def text_to_sign(self) -> str:
        """What a signature of this script covers."""
        return f"tickwheel script 1\n{self.language}\n{self.sha256}\n"

    def runs_the_same(self, other: Script | None) -> bool:
        """Whether a node would do the same with both; a remark changes nothing."""
        return other is not None and (self.language, self.sha256, self.signature) == (
            other.language,
            other.sha256,
            other.signature,
        )


def sha256_of(source: str) -> str:
    """The hash by which a source is known."""
    return hashlib.sha256(source.encode()).hexdigest()
