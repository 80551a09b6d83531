"""Message catalogues of the console and the API: `python -m tests.support.catalogs` updates them.

Message ids are the English texts in the code itself: what `_()` marks, the templates' texts, and
the texts of errors, which are translated where they are shown.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from tests.support.translations.taiwan import in_taiwan

PACKAGE = Path(__file__).parents[2] / "admin/tickwheel_admin"
SHARED = Path(__file__).parents[2] / "shared/tickwheel_shared"  # a few of its texts are shown, too
LOCALE = PACKAGE / "locale"
SIMPLIFIED, TRADITIONAL = "zh_CN", "zh_Hant"
TRANSLATED = (SIMPLIFIED, TRADITIONAL)

Message = str | tuple[str, str]

# Which positional argument of a call is a message id, by the name that is called.
_POSITIONS = {
    "_": 0,
    "gettext": 0,
    "N_": 0,
    "say": 0,
    "translate": 0,
    "NotFound": 1,
    "Conflict": 1,
    "Gone": 1,
    "NotAllowed": 1,
    "NotLoggedIn": 1,
    "TooMany": 1,
    "Unavailable": 1,
    "BadJson": 1,
    "OwnTextError": 0,  # domain.alarms.own_text
    "ScheduleError": 1,
    "Word": 0,
    "one": 2,  # InvalidInput.one
    "refuse": 2,  # Fields.refuse
    "_refuse_at": 1,  # services.yaml_text
}
# Which keywords of a call are; `template` is one of any call.
_KEYWORDS = {"Strategy": {"title", "hint", "group", "reason", "reason_without_detail"}}
# Of these, a text of one word is a message as well.
_ALSO_SINGLE_WORDS = ("_", "N_", "gettext", "say", "Word", "Strategy")
_JINJA = {"newstyle_gettext": "true", "trim_blocks": "true", "extensions": "jinja2.ext.i18n"}


def path_of(language: str) -> Path:
    return LOCALE / language / "LC_MESSAGES/messages.po"


@cache
def messages() -> frozenset[Message]:
    """Every message id of the package; a pair for those with a plural."""
    paths = sorted(PACKAGE.rglob("*.py")) + sorted(SHARED.rglob("*.py"))
    sources = {path: ast.parse(path.read_text()) for path in paths}
    constants = {name: text for tree in sources.values() for name, text in _constants(tree)}
    found: set[Message] = set()
    for path, tree in sources.items():
        inside = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else SHARED)
        has_run_messages = inside.match("domain/runs/moves.py") or inside.parts[0] == "engine"
        found.update(_in_python(tree, constants, run_messages=has_run_messages))
    for path in sorted((PACKAGE / "console/templates").rglob("*.html")):
        with path.open("rb") as source:
            for _line, message, _comments, _context in extract("jinja2", source, options=_JINJA):
                found.add((message[0], message[1]) if isinstance(message, tuple) else message)
    return frozenset(message for message in found if message)


def read(language: str) -> Catalog:
    """The catalogue as it is stored; an empty one when there is none."""
    path = path_of(language)
    if not path.exists():
        return Catalog(locale=language)
    with path.open("rb") as source:
        return read_po(source, locale=language)


def updated(language: str) -> Catalog:
    """The stored catalogue with exactly the messages of the code; new ones are empty."""
    old = read(language)
    new = Catalog(locale=language, project="Tickwheel", version="", charset="utf-8", fuzzy=False)
    new.creation_date = None
    for message in sorted(messages(), key=str):
        key = message[0] if isinstance(message, tuple) else message
        known = old.get(key)
        string = (
            known.string
            if known and isinstance(known.id, tuple) == isinstance(message, tuple)
            else ""
        )
        new.add(message, string)
    return new


def as_text(catalog: Catalog) -> str:
    """The catalogue as its file should be: no lines or dates that change by themselves."""
    out = io.BytesIO()
    write_po(out, catalog, width=100, sort_output=True, omit_header=True)
    plural = "nplurals=1; plural=0;"
    return (
        'msgid ""\nmsgstr ""\n'
        f'"Language: {catalog.locale_identifier}\\n"\n'
        '"MIME-Version: 1.0\\n"\n'
        '"Content-Type: text/plain; charset=utf-8\\n"\n'
        '"Content-Transfer-Encoding: 8bit\\n"\n'
        f'"Plural-Forms: {plural}\\n"\n\n' + out.getvalue().decode()
    )


def untranslated(catalog: Catalog) -> list[str]:
    """Ids without a text, or with one that is only a guess."""
    return [
        str(message.id)
        for message in catalog
        if message.id
        and (
            message.fuzzy
            or not (
                all(message.string) if isinstance(message.string, tuple | list) else message.string
            )
        )
    ]


def fill_from_simplified(traditional: Catalog, simplified: Catalog) -> list[str]:
    """Draft what is empty; the ids of the drafts. What has a text stays as it is."""
    drafted = []
    empty = set(untranslated(traditional))
    missing = set(untranslated(simplified))
    for message in traditional:
        if str(message.id) not in empty - missing:
            continue
        key = message.id[0] if isinstance(message.id, tuple) else message.id
        text = simplified[key].string
        message.string = (
            in_taiwan(text) if isinstance(text, str) else tuple(map(in_taiwan, text or ()))
        )
        drafted.append(str(message.id))
    return drafted


def main() -> None:
    for language in TRANSLATED:
        catalog = updated(language)
        if language == TRADITIONAL:
            for drafted in fill_from_simplified(catalog, read(SIMPLIFIED)):
                print(f"{language}: drafted, please read: {drafted}")
        path_of(language).parent.mkdir(parents=True, exist_ok=True)
        path_of(language).write_text(as_text(catalog))
        print(f"{language}: {len(catalog)} messages, {len(untranslated(catalog))} untranslated")


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Texts that a module gives a name to."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and (text := _text(node.value)) is not None:
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, text


def _in_python(
    tree: ast.Module, constants: dict[str, str], *, run_messages: bool
) -> Iterator[Message]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node.func)
        if name == "ngettext" and len(node.args) > 1:
            one, many = _text(node.args[0]), _text(node.args[1])
            if one and many:
                yield one, many
        position = _POSITIONS.get(name)
        candidates = (
            [node.args[position]] if position is not None and len(node.args) > position else []
        )
        for keyword in node.keywords:
            # What the ledger says about an attempt is shown in the reader's language as well.
            if (
                keyword.arg == "template"
                or keyword.arg in _KEYWORDS.get(name, ())
                or (keyword.arg == "message" and run_messages)
            ):
                candidates.append(keyword.value)
        for candidate in (each for some in candidates for each in _choices(some)):
            text = _text(candidate)
            if text is None:
                text = constants.get(_name(candidate))
            if text and (" " in text or name in _ALSO_SINGLE_WORDS):
                yield text


def _choices(node: ast.expr) -> list[ast.expr]:
    """Both sides of `one if it is so else other`."""
    return [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


if __name__ == "__main__":
    main()
