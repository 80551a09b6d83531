"""The form of a new backfill: what is typed, and what it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tickwheel_admin.console.frame.units import FormFields, whole_number
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.fields import instant_from_iso
from tickwheel_admin.domain.input.job import parse_parameters
from tickwheel_admin.services.backfills.requests import BackfillRequest

FIELDS = {
    "from": "",
    "to": "",
    "trigger_id": "",
    "parallel": "1",
    "order": "oldest_first",
    "only_holes": "",
    "parameters": "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillForm:
    """What was filled in, and what it means."""

    values: Mapping[str, str]
    wish: BackfillRequest | None = None  # None: something is missing or wrong
    problems: Sequence[Problem] = ()

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def problem(self, name: str) -> Problem | None:
        """What is wrong with one field."""
        return next((each for each in self.problems if each.field.partition(".")[0] == name), None)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Names and values that a form sends along to mean the same again."""
        return [(name, text) for name, text in self.values.items() if text]

    def refused(self, error: InvalidInput) -> BackfillForm:
        """With what only the database knows."""
        return replace(self, wish=None, problems=tuple(error.problems))


def read_form_of(values: Mapping[str, str], *, zone: str, is_sent: bool) -> BackfillForm:
    """What the fields mean.

    Args:
        zone: of the reader's clock, by which instants are typed.
        is_sent: empty fields are wrong, and not only missing yet.
    """
    problems: list[Problem] = []
    typed = FormFields(values=values, problems=problems)
    limits = [typed.local_instant(name, zone=zone) for name in ("from", "to")]
    if is_sent and not problems:
        problems += [
            Problem(field=name, code="required", template="This is required.")
            for name, at in zip(("from", "to"), limits, strict=True)
            if at is None
        ]
    parallel = typed.whole("parallel")
    parameters: str | None = None
    try:
        text = typed.text("parameters")
        parameters = parse_parameters(text) if text else None
    except InvalidInput as error:
        problems += error.problems
    form = BackfillForm(values=values, problems=tuple(problems))
    from_at, to_at = limits
    if problems or from_at is None or to_at is None:
        return form
    try:
        instants = instant_from_iso(from_at), instant_from_iso(to_at)
    except (ValueError, OverflowError):
        return form
    return replace(
        form,
        wish=BackfillRequest(
            from_at=max(0, instants[0]),
            to_at=max(0, instants[1]),
            trigger_id=whole_number(typed.text("trigger_id")),
            newest_first=typed.text("order") == "newest_first",
            only_holes=bool(typed.text("only_holes")),
            parallel=1 if parallel is None else parallel,
            parameters=parameters,
        ),
    )
