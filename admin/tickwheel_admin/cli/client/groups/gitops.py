"""`tickwheel plan`, `apply`, `export` and `schema`: an installation as files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickwheel_admin.cli.client import exit_codes
from tickwheel_admin.cli.client.errors import ApiRefused, UsageFailure
from tickwheel_admin.cli.client.registration import Invocation, add_command
from tickwheel_admin.cli.gitops.files import Directory, DocumentsFailure, read_directory
from tickwheel_admin.cli.gitops.plan_text import plan_lines, summary
from tickwheel_admin.cli.gitops.written import write_files
from tickwheel_admin.services.jobs.yaml_writer import write_yaml

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

CHANGES = 2  # exit code of `plan --detailed-exitcode`
SECONDS = 300.0  # for thousands of documents
_ABOUT_PLAN = """\
Reads every file that ends in .yaml or .yml, compares its documents with the server, tries the
changes in a transaction that is rolled back, and prints what `apply` would do.

examples:
  tickwheel plan -f jobs/                         what would change
  tickwheel plan -f jobs/ --prune                 and what would be deleted
  tickwheel plan -f jobs/ -o json > plan.json     for programs; has the fingerprint for `apply`

exit codes: 0 it can be applied, 1 something is wrong. With --detailed-exitcode: 0 nothing to do,
2 there are changes, 1 something is wrong. See docs/gitops.md.
"""
_ABOUT_APPLY = """\
Makes a plan, prints it, asks, and applies it: all changes in one transaction, or none. When
somebody changes something between plan and application, nothing is applied.

examples:
  tickwheel apply -f jobs/                        plan, ask, apply
  tickwheel apply -f jobs/ --prune --yes          in CI
  tickwheel apply -f jobs/ --yes --fingerprint "$(jq -r .fingerprint plan.json)"
                                                  only the plan that was looked at
"""
_ABOUT_EXPORT = """\
Writes what the token may see, one file for each object. Applied again, the files change nothing.
Secrets, tokens and jobs that code declares are not written.

examples:
  tickwheel export -f jobs/                       everything
  tickwheel export -f jobs/ --executor billing    one executor and what belongs to it
  tickwheel export --type job > jobs.yaml         all jobs as one text
"""
_ABOUT_SCHEMA = """\
Needs no server. Editors that know YAML complete and check files with it.

examples:
  tickwheel schema > tickwheel.schema.json
  # yaml-language-server: $schema=../tickwheel.schema.json        first line of a file
"""


def register(subparsers: Subparsers) -> None:
    """Add the commands."""
    plan = add_command(
        subparsers, "plan", _plan, told="what applying a directory of files would change",
        more=_ABOUT_PLAN,
    )  # fmt: skip
    _add_files(plan)
    plan.add_argument(
        "--detailed-exitcode", action="store_true", help="exit with 2 when there are changes"
    )
    apply = add_command(
        subparsers, "apply", _apply, told="make the server say what a directory of files says",
        more=_ABOUT_APPLY,
    )  # fmt: skip
    _add_files(apply)
    apply.add_argument("--yes", action="store_true", help="do not ask; needed without a terminal")
    apply.add_argument(
        "--fingerprint", metavar="HEX", help="apply only the plan that has this fingerprint"
    )
    export = add_command(
        subparsers, "export", _export, told="write what is stored as files", more=_ABOUT_EXPORT
    )
    export.add_argument("-f", "--to", metavar="DIR", help="directory; without it, standard output")
    export.add_argument("--executor", metavar="NAME", help="only this one and what belongs to it")
    export.add_argument("--type", metavar="TYPE", help="only objects of this type, such as job")
    export.add_argument("--owner", metavar="NAME", help="only what has the label of this owner")
    for parser in (plan, apply, export):
        parser.set_defaults(timeout=SECONDS)
    schema = subparsers.add_parser(
        "schema", help="print the JSON Schema of these files, for editors", epilog=_ABOUT_SCHEMA,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    schema.set_defaults(run=_schema)


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--file", action="append", required=True, metavar="PATH",
        help="a file, or a directory with all that is below it; `-` is the standard input",
    )  # fmt: skip
    parser.add_argument(
        "--owner", metavar="NAME",
        help="label of what is applied (default: `owner` in tickwheel.yaml of the directory)",
    )  # fmt: skip
    parser.add_argument(
        "--prune", action="store_true", help="delete what has the label and is in no file"
    )
    parser.add_argument(
        "--take-over", action="store_true", help="also change what has another owner’s label"
    )


def _plan(call: Invocation) -> int:
    directory = read_directory(call.args.file)
    plan = _planned(call, directory)
    _print(call, plan, directory)
    if plan["problems"]:
        raise DocumentsFailure([directory.told(each) for each in plan["problems"]])
    return CHANGES if call.args.detailed_exitcode and plan["changes"] else exit_codes.DONE


def _apply(call: Invocation) -> int:
    directory = read_directory(call.args.file)
    if call.args.prune and not directory.documents:
        raise UsageFailure("there are no documents, so --prune would delete everything")
    plan = _planned(call, directory)
    if plan["problems"]:
        raise DocumentsFailure([directory.told(each) for each in plan["problems"]])
    wanted = call.args.fingerprint or plan["fingerprint"]
    if wanted == plan["fingerprint"] and not plan["changes"]:
        _print(call, plan, directory)
        return exit_codes.DONE
    if call.printer.is_for_people:
        _print(call, plan, directory)
        call.printer.flush()
    _confirm(call)
    body = {**_asked(call, directory), "fingerprint": wanted}
    try:
        done = call.api.post("/apply", body)
    except ApiRefused as error:
        if not error.problems:
            raise
        raise DocumentsFailure([directory.told(each) for each in error.problems]) from None
    counts = done["counts"]
    call.printer.done(
        f"Applied: {counts['create']} created, {counts['update']} changed,"
        f" {counts['delete']} deleted.",
        _with_places(done, directory),
    )
    return exit_codes.DONE


def _export(call: Invocation) -> None:
    query = {"executor": call.args.executor, "type": call.args.type, "owner": call.args.owner}
    documents = _lines(call.api.text("GET", "/export", **query))
    if call.args.to is not None:
        count = write_files(documents, Path(call.args.to))
        call.printer.done(
            f"{count} objects were written to {call.args.to}.",
            {"objects": count, "directory": call.args.to},
        )
    elif call.args.output == "json":
        call.printer.value(list(documents))
    else:
        for document in documents:
            call.printer.line(f"---\n{write_yaml(document)}".rstrip("\n"))


def _schema(_args: argparse.Namespace) -> int:
    from tickwheel_admin.api.gitops.schema import schema_of_documents

    print(json.dumps(schema_of_documents(), indent=1, ensure_ascii=False))
    return exit_codes.DONE


def _lines(pieces: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from map(json.loads, lines)
    if rest:
        yield json.loads(rest)


def _planned(call: Invocation, directory: Directory) -> dict[str, Any]:
    plan: dict[str, Any] = call.api.post("/plan", _asked(call, directory))
    return plan


def _asked(call: Invocation, directory: Directory) -> dict[str, Any]:
    return {
        "documents": directory.fields,
        "owner": call.args.owner or directory.owner,
        "prune": call.args.prune,
        "take_over": call.args.take_over,
    }


def _print(call: Invocation, plan: Mapping[str, Any], directory: Directory) -> None:
    if not call.printer.is_for_people:
        call.printer.value(_with_places(plan, directory))
        return
    for line in plan_lines(plan, directory, call.printer.style):
        call.printer.line(line)
    for line in summary(plan, call.printer.style):
        call.printer.line(line)


def _with_places(plan: Mapping[str, Any], directory: Directory) -> dict[str, Any]:
    """The answer with the file and line of each change."""
    changes = [
        each | {"place": directory.place_of(each["document"]) or None} for each in plan["changes"]
    ]
    return {**plan, "changes": changes}


def _confirm(call: Invocation) -> None:
    if call.args.yes:
        return
    if not sys.stdin.isatty():
        raise UsageFailure("nobody can be asked here: give --yes to apply the plan")
    try:
        said = input("Apply this? Type yes: ")
    except EOFError:
        said = ""
    if said.strip().lower() != "yes":
        raise UsageFailure("not applied")
