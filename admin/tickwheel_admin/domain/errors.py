"""What a caller did wrong, with a stable code; one page for every user-facing error.

    UserError
    ├── InvalidInput      422  one or more fields break a rule; nothing was changed
    ├── NotFound          404  does not exist, or the caller may not see it
    ├── Conflict          409  someone else changed it first, or its state does not allow this
    ├── Gone              410  it was there, and is not kept any more
    ├── NotAllowed        403  the caller may see it but not do this
    ├── NotLoggedIn       401  no session, an ended one, or a wrong token
    ├── TooMany           429  try again after `retry_after_seconds`
    └── Unavailable       503  the database does not answer

Texts are English message ids with %(name)s placeholders: API and console translate the template for
the reader and then fill it in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tickwheel_shared.words import Word as Word

# What a defect of ours, or a row that was written by SQL from outside, raises while something is
# computed for one of many. What a database raises is not among it.
DEFECTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One broken rule."""

    field: str  # path in the request: "triggers[0].expression"; "" for the whole
    code: str  # stable, for programs: "required", "too_long", "cron.invalid"
    template: str  # English message id; says the rule and the way out
    params: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def message(self) -> str:
        """The English text."""
        return self.template % self.params if self.params else self.template


class UserError(Exception):
    """A request that cannot be done as asked; the text is for the person who asked."""

    status: ClassVar[int] = 400
    code: str

    def __init__(self, code: str, template: str, /, **params: Any) -> None:
        self.code = code
        self.template = template
        self.params = params
        super().__init__(template % params if params else template)


class InvalidInput(UserError):
    """Input that breaks rules; carries every problem found, not only the first."""

    status = 422

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        text = "; ".join(f"{p.field}: {p.message}" if p.field else p.message for p in problems)
        super().__init__("invalid_input", "%(text)s", text=text)

    @classmethod
    def one(cls, field: str, code: str, template: str, **params: Any) -> InvalidInput:
        """For the common case of a single problem."""
        return cls([Problem(field=field, code=code, template=template, params=params)])


class NotFound(UserError):
    """Also for what exists but lies outside the caller's scope: the two must look the same."""

    status = 404


class Conflict(UserError):
    """The state of things, or a newer version of them, does not allow the change."""

    status = 409


class Gone(UserError):
    """What the caller wants to go on from is not kept any more."""

    status = 410


class NotAllowed(UserError):
    """The caller's role does not cover this."""

    status = 403


class NotLoggedIn(UserError):
    """No valid session or token came with the request."""

    status = 401


class TooMany(UserError):
    """Slow down."""

    status = 429

    def __init__(
        self, code: str, template: str, /, *, retry_after_seconds: int, **params: Any
    ) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(code, template, retry_after_seconds=retry_after_seconds, **params)


class Unavailable(UserError):
    """The database is away; nothing was changed, trying again later is safe."""

    status = 503
