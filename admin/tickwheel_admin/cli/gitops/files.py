"""The documents of files and directories, and where each thing in them stands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.failure import Failure
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.services.jobs.yaml_reader import YamlObject, read_yaml_documents

SETTINGS: Final = "tickwheel.yaml"
MAX_DOCUMENTS: Final = 5_000
_SUFFIXES = (".yaml", ".yml")
_SETTINGS_FIELDS = ("owner", "executor")
_IN_REQUEST = re.compile(r"documents\[(\d+)\]\.?")


class DocumentsFailure(Failure):
    """Something is wrong in the files; a line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        told = "\n".join(f"  {each}" for each in problems)
        super().__init__(f"the files have {len(problems)} problem(s); nothing was done\n{told}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDocument:
    """One document, and where it stands."""

    file: str
    number: int  # in its file, from 1
    read: YamlObject

    def place_of(self, path: str) -> str:
        """File and line of a field, or of what stands around it."""
        return f"{self.file}:{self.read.place_of(path).line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """What files and directories say together."""

    documents: Sequence[FileDocument]
    owner: str | None = None
    executor: str | None = None  # of jobs that name none
    files: int = 0
    fields: list[dict[str, Any]] = field(default_factory=list)  # of the documents, for a request

    def place_of(self, document: int | None) -> str:
        """File and line of a document."""
        return "" if document is None else self.documents[document].place_of("")

    def told(self, problem: Mapping[str, Any]) -> str:
        """A problem that the admin found, at its file and line."""
        path, message = str(problem.get("field", "")), str(problem.get("message", ""))
        found = _IN_REQUEST.match(path)
        if found is None or int(found[1]) >= len(self.documents):
            return f"{path}: {message}" if path else message
        document, inside = self.documents[int(found[1])], path[found.end() :]
        where = f"{document.place_of(inside)}: document {document.number}"
        return f"{where}, {inside}: {message}" if inside else f"{where}: {message}"


def read_directory(paths: Sequence[str]) -> Directory:
    """The documents of all files, in the order of their names.

    Raises:
        DocumentsFailure: with every problem, each at its file and line.
        UsageFailure: there are no files.
    """
    documents: list[FileDocument] = []
    problems: list[str] = []
    settings: dict[str, str] = {}
    files = 0
    for path in _files(paths):
        try:
            text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        except OSError as error:
            problems.append(f"{path}: cannot be read: {error.strerror}")
            continue
        files += 1
        if all(
            line.strip() in (b"", b"---") or line.lstrip()[:1] == b"#" for line in text.split(b"\n")
        ):
            continue
        try:
            found = read_yaml_documents(text, most=MAX_DOCUMENTS)
        except InvalidInput as error:
            problems += [f"{path}: {each.message}" for each in error.problems]
            continue
        if os.path.basename(path) == SETTINGS:
            problems += _read_settings(path, found, settings)
            continue
        documents += [
            FileDocument(file=path, number=number, read=each)
            for number, each in enumerate(found, 1)
        ]
    if problems:
        raise DocumentsFailure(problems)
    executor = settings.get("executor")
    return Directory(
        documents=documents,
        owner=settings.get("owner"),
        executor=executor,
        files=files,
        fields=[_with_executor(each.read.value, executor) for each in documents],
    )


def _files(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if path == "-" or os.path.isfile(path):
            yield path
            continue
        if not os.path.isdir(path):
            raise UsageFailure(f"there is no file or directory {path}")
        found = sorted(_below(path))
        if not found:
            raise UsageFailure(f"{path} has no files that end in .yaml or .yml")
        yield from found


def _below(path: str) -> Iterator[str]:
    for folder, folders, names in os.walk(path):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for name in names:
            if name.endswith(_SUFFIXES) and not name.startswith("."):
                yield os.path.join(folder, name)


def _read_settings(
    path: str, found: Sequence[YamlObject], settings: dict[str, str]
) -> Iterator[str]:
    fields = Fields(found[0].value, "", [])
    fields.only(_SETTINGS_FIELDS)
    for name in _SETTINGS_FIELDS:
        value = fields.text(name, max_chars=100)
        if value and settings.setdefault(name, value) != value:
            fields.refuse(name, "differs", "Another tickwheel.yaml says something else.")
    if len(found) > 1:
        yield f"{path}: settings are one document"
    for each in fields.problems:
        yield f"{path}:{found[0].place_of(each.field).line}: {each.field}: {each.message}"


def _with_executor(fields: dict[str, Any], executor: str | None) -> dict[str, Any]:
    """A job that names no executor belongs to that of the settings."""
    if executor is None or "executor" in fields or fields.get("type", "job") != "job":
        return fields
    return {**fields, "executor": executor}
