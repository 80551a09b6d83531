"""Blocks of YAML, JSON and TOML: jobs, documents of gitops, settings."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import yaml

from tests.support.document_blocks import shell
from tests.support.references.settings_reference import definitions
from tickwheel_admin.api.gitops.schema import schema_of_documents
from tickwheel_admin.cli.commands import make_parser
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.services.gitops.envelopes import read_envelopes
from tickwheel_admin.services.jobs.yaml import from_yaml

_JOB = {"name": "example", "handler": "example"}
_OF_FOLDERS = {"owner", "executor"}  # of a file tickwheel.yaml
_WITH_FILES = ("tls_cert", "tls_key", "metrics_token_file", "secret_key_file")
AGENT = frozenset({"agent", "children", "script", "command", "http", "sql", "file"})


class NotKnown(Exception):
    """Nothing here can say whether it is right."""


def yaml_problems(text: str) -> Iterator[str]:
    """What is wrong with YAML: jobs, documents of gitops, and pipelines that use `tickwheel`."""
    documents = list(yaml.safe_load_all(text))
    if all(isinstance(each, dict) and "type" in each for each in documents):
        yield from _gitops(documents)
        return
    (document,) = documents
    if "name" in document and ({"handler", "workflow", "script"} & document.keys()):
        yield from _job(from_yaml(text))
    elif document.keys() == {"alarms"}:
        yield from _job({**_JOB, **document})
    elif document.keys() == _OF_FOLDERS:
        return
    elif lines := [each for each in _texts(document) if "tickwheel " in each]:
        for line in lines:
            yield from shell.problems(line)
    else:
        raise NotKnown("YAML of another program")


def json_problems(text: str) -> Iterator[str]:
    """What is wrong with JSON: jobs, parts of them, servers of tools; one value or one a line."""
    try:
        values = [json.loads(text)]
    except ValueError:
        values = [json.loads(line) for line in text.splitlines()]
    for value in values:
        if "handler" in value:
            yield from _job(value)
        elif "routing" in value:
            yield from _job({**_JOB, **value})
        elif "mcpServers" in value:
            for server in value["mcpServers"].values():
                yield from shell.parsed(make_parser(), server["args"])
        elif value.keys() != {"error"}:
            raise NotKnown("JSON of another program")


def toml_problems(text: str) -> Iterator[str]:
    """What is wrong with the settings of an admin; those of agents have a test of their own."""
    content = tomllib.loads(text)
    if content.keys() <= AGENT:
        return
    readers = definitions().readers
    for name, value in content.items():
        if name not in readers:
            yield f"there is no setting {name}"
            continue
        try:
            if name not in _WITH_FILES:
                readers[name](value)
        except ValueError as error:
            yield f"{name}: {error}"


def _job(raw: dict[str, Any]) -> Iterator[str]:
    for step in (raw.get("workflow") or {}).get("steps", ()):
        for kind in ("job", "workflow"):
            if kind in step and not isinstance(step[kind], int):
                step[kind] = 1  # the service of jobs puts ids in the place of names
    try:
        parse_job(raw)
    except InvalidInput as error:
        yield from (f"{each.field}: {each.message}" for each in error.problems)


def _gitops(documents: list[Any]) -> Iterator[str]:
    validator = jsonschema_rs.validator_for(schema_of_documents())
    yield from (f"{each.field}: {each.message}" for each in read_envelopes(documents).problems)
    for document in documents:
        yield from (error.message[:200] for error in validator.iter_errors(document))
        if document["type"] == "job":
            kept = {key: document[key] for key in document.keys() - {"type", "executor"}}
            yield from _job({key: kept[key] for key in kept if key != "children"})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
