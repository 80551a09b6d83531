"""Whether the secrets that a job names are there."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import closest, raise_if_any
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import SecretReference, references_of
from tickwheel_admin.store.executors.secrets import secret_names_of
from tickwheel_shared.protocol import MAX_SECRETS


def check_secret_references(
    conn: sa.Connection,
    executor_id: int,
    config: JobConfig,
    *,
    kept: Collection[str] | None = frozenset(),
) -> None:
    """Refuse a job that names secrets which its executor does not have.

    Args:
        kept: names that the job is allowed although nothing has them: those of its revision before,
            so that they stop no other change. None: any, of a job that code declares: its runs
            wait until there is the secret.

    Raises:
        InvalidInput: on the parameters that name it.
    """
    references = references_of(config)
    if not references:
        return
    known = secret_names_of(conn, [executor_id])[executor_id]
    problems: dict[str, Problem] = {}
    for each in references:
        if each.name is None:
            problems.setdefault(each.field, _not_a_name(each))
        elif kept is not None and each.name not in known and each.name not in kept:
            problems.setdefault(each.field, _unknown(each.field, each.name, known))
    if len(references) > MAX_SECRETS:
        problems.setdefault("parameters", _too_many())
    raise_if_any(list(problems.values()))


def _not_a_name(reference: SecretReference) -> Problem:
    return Problem(
        field=reference.field,
        code="secret.bad_reference",
        template="“%(text)s” names no secret. A reference is written ${secret.NAME}, with a name"
        " of ASCII letters, digits and underscores; $${secret. is the text itself.",
        params={"text": reference.text[:100]},
    )


def _unknown(field: str, name: str, known: Collection[str]) -> Problem:
    if meant := closest(name, known):
        return Problem(
            field=field,
            code="secret.unknown",
            template="The executor has no secret “%(name)s”; did you mean “%(meant)s”?",
            params={"name": name, "meant": meant},
        )
    return Problem(
        field=field,
        code="secret.unknown",
        template="The executor has no secret “%(name)s”. Who administers it adds one on its page,"
        " at “Secrets”.",
        params={"name": name},
    )


def _too_many() -> Problem:
    return Problem(
        field="parameters",
        code="secret.too_many",
        template="At most %(limit)d references to secrets in one job, please.",
        params={"limit": MAX_SECRETS},
    )
