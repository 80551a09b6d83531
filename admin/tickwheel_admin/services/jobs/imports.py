"""Jobs from a text of many YAML documents, such as an export writes: all of them, or none.

Everything is checked before the first job is added; jobs may name others of the same text as
children and in steps, in whatever order they stand there. What comes between the check and the
last job, such as somebody else who takes a name, ends the import, and is told with how many were
added.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem, UserError
from tickwheel_admin.domain.input.job import read_job
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.jobs.checks import NAME_TAKEN
from tickwheel_admin.services.jobs.import_links import ImportLinks
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.jobs.yaml import placed
from tickwheel_admin.services.jobs.yaml_reader import YamlObject, read_yaml_documents

MAX_IMPORTED = 1_000  # jobs at once


class JobImport:
    """The way back for what `services.jobs.bulk.JobBulk.export` wrote."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def add(self, actor: Actor, executor_id: int, text: str | bytes) -> list[int]:
        """Add a job for each document; returns their ids, in the order of the text.

        Raises:
            InvalidInput: with all that is wrong with any of them, each with its `line` in the
                params; then none is added, unless it says so.
        """
        actor.require(Permission.DEVELOP, executor_id)
        documents = read_yaml_documents(text, most=MAX_IMPORTED)
        order = await self._check(actor, executor_id, documents)
        added: dict[int, int] = {}
        for place in order:
            document = documents[place]
            try:
                added[place] = await self._jobs.create(actor, executor_id, document.value)
            except UserError as error:
                raise _stopped(error, document, added=len(added), of=len(documents)) from None
        return [added[place] for place in range(len(documents))]

    async def _check(
        self, actor: Actor, executor_id: int, documents: Sequence[YamlObject]
    ) -> list[int]:
        """The order in which they can be added, by their places."""
        names = [read_job(document.value)[0].name for document in documents]
        links = ImportLinks(executor_id, names)
        for place, document in enumerate(documents):
            config, _ = await self._jobs.read(actor, executor_id, document.value, known=links.known)
            links.add(place, config)
        of_links = links.problems()
        problems: list[Problem] = []
        lines: dict[str, int] = {}
        for place, (name, document) in enumerate(zip(names, documents, strict=True)):
            refused = await self._jobs.refused(
                actor, executor_id, document.value, known=links.known
            )
            found = [each for each in refused.problems if not links.is_settled(each)]
            found += of_links[place]
            line = document.place_of("name").line
            if name and lines.setdefault(name, line) != line:
                template = "Line %(first)d has a job of this name already."
                params = {"first": lines[name]}
                found.append(
                    Problem(field="name", code=NAME_TAKEN, template=template, params=params)
                )
            problems += placed(found, document)
        if problems:
            raise InvalidInput(problems)
        return links.order()


def _stopped(error: UserError, document: YamlObject, *, added: int, of: int) -> InvalidInput:
    """What refused a document that had been right, and that those before it were added."""
    found = list(error.problems) if isinstance(error, InvalidInput) else []
    if isinstance(error, Conflict):
        params = error.params
        found = [Problem(field="name", code=error.code, template=error.template, params=params)]
    told = Problem(
        field="",
        code="import.stopped",
        template="%(added)d of %(all)d jobs were added before this; take them out of the text.",
        params={"added": added, "all": of},
    )
    return InvalidInput(placed([*found, told], document))
