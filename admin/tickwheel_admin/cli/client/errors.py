"""What may go wrong between a command and the admin, each with its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwheel_admin.cli.client import exit_codes
from tickwheel_admin.cli.failure import Failure

_EXIT_CODES = {
    401: exit_codes.NOT_ALLOWED,
    403: exit_codes.NOT_ALLOWED,
    404: exit_codes.NOT_FOUND,
}


class UsageFailure(Failure):
    """Flags or settings that cannot be used."""

    exit_code: int = exit_codes.USAGE


class NotReached(Failure):
    """No admin answered."""

    exit_code: int = exit_codes.NOT_REACHED


class NotFoundFailure(Failure):
    """There is no object with the id or name given."""

    exit_code: int = exit_codes.NOT_FOUND


class ApiRefused(Failure):
    """The admin answered with an error; the message has its code and each field at fault.

    Attributes:
        status: of HTTP.
        code: stable, as docs/api.md lists them; "" when what answered is no admin.
        problems: `field`, `code` and `message` of each broken rule.
        said: the message without what a person at a terminal can do about the token.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str = "",
        problems: Sequence[Mapping[str, str]] = (),
        correlation_id: str = "",
    ) -> None:
        self.status = status
        self.code = code
        self.problems = list(problems)
        if code:
            self.exit_code = _EXIT_CODES.get(status, exit_codes.FAILED)
        else:
            self.exit_code = exit_codes.NOT_REACHED
        lines = [f"{message} ({code})" if code else message]
        lines += [
            f"  {each.get('field') or 'input'}: {each.get('message', '')} ({each.get('code', '')})"
            for each in self.problems
        ]
        if status >= 500 and correlation_id:
            lines.append(f"  The admin's log has details under {correlation_id}.")
        self.said = "\n".join(lines)
        if status == 401 and code:
            lines.append("  Log in again with `tickwheel login`, or set TICKWHEEL_API_TOKEN.")
        super().__init__("\n".join(lines))
