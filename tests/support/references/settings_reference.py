"""The table of settings in docs/configuration.md, made from `config.py` and `config_meanings.py`.

What a setting takes is what its reader says when it refuses; `tests.support.documents` writes it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from tickwheel_admin import config
from tickwheel_admin.cli import commands
from tickwheel_admin.config_meanings import MEANINGS

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
NAMES = tuple(name for name in config.Config.__dataclass_fields__ if name != "given_at")
# A setting whose value may stand in a file has two readers; the second one opens the file.
_IN_FILES = ("secret_key", "metrics_token")


class Definitions(config._Settings):
    """Notes what each setting is read and what its default is, instead of reading any."""

    def __init__(self) -> None:
        super().__init__([], [])
        self.readers: dict[str, Callable[[Any], Any]] = {}
        self.defaults: dict[str, Any] = {}

    def get(self, name: str, read: Callable[[Any], Any], default: Callable[[], Any]) -> Any:
        self.readers.setdefault(name, read)
        value = default()
        self.defaults.setdefault(name, value)
        return value

    def is_given(self, name: str) -> bool:
        return name in _IN_FILES  # so that the reader of the value is noted


def definitions() -> Definitions:
    """All settings as `load_config` reads them."""
    noted = Definitions()
    config._build(noted, {})
    return noted


def table() -> str:
    """The table, in the order of the settings."""
    noted = definitions()
    flags = _flags()
    lines = [
        "| setting | variable, flag | takes | default | meaning |",
        "|---|---|---|---|---|",
    ]
    for name in NAMES:
        variable = f"`{config.ENVIRONMENT_PREFIX}{name.upper()}`"
        places = f"{variable}, `{flags[name]}`" if name in flags else variable
        meaning = MEANINGS[name]
        default = meaning.default or _default(noted.defaults[name])
        takes = _takes(noted.readers[name])
        lines.append(f"| `{name}` | {places} | {takes} | {default} | {meaning.text} |")
    return "\n".join(lines)


def _flags() -> dict[str, str]:
    """Flags of `tickwheel serve`, by the setting."""
    for action in commands.make_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            serve = action.choices["serve"]
            return {each.dest: each.option_strings[-1] for each in serve._actions}
    raise AssertionError("tickwheel has no commands")


def _takes(read: Callable[[Any], Any]) -> str:
    """The rule that a reader tells whoever breaks it."""
    try:
        read(None)
    except ValueError as error:
        rule = str(error).partition(";")[0]
        for beginning in ("must be ", "is not "):
            rule = rule.removeprefix(beginning)
        return rule.replace("|", "\\|").replace("<", "&lt;")
    raise AssertionError(f"{read} takes None")


def _default(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, StrEnum):
        return f"`{value.value}`"
    return f"`{value}`"
