"""Plain data as YAML that people read, and that every reader of YAML takes for the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tickwheel_admin.services.jobs.yaml_reader import NUMBER, WORDS

# libyaml is far faster; a build of PyYAML without it writes the same language.
_FastDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_NUMBER_ELSEWHERE = re.compile(r"0o[0-7]+", re.ASCII)  # a number in YAML 1.2
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")  # among quotes only


def write_yaml(value: Mapping[str, Any]) -> str:
    """The mapping as text that `read_yaml` reads as the same, in the order of its keys."""
    written = _dump(value, _FastTextDumper)
    # libyaml writes what lies beyond 16 bits, such as an emoji, as escapes that nobody can read.
    return _dump(value, _TextDumper) if "\\U" in written else written


def _dump(value: Mapping[str, Any], dumper: type[yaml.SafeDumper]) -> str:
    written: str = yaml.dump(
        value,
        Dumper=dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )
    return written


class _NoAliases:
    """Says everything twice rather than by an alias."""

    def ignore_aliases(self, data: object) -> bool:
        return True


class _TextDumper(_NoAliases, yaml.SafeDumper):
    pass


class _FastTextDumper(_NoAliases, _FastDumper):  # type: ignore[misc, valid-type]  # by the build
    pass


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Several lines as a block; in quotes what could be read as something else than text."""
    style = None
    if _INVISIBLE.search(text):
        style = '"'
    # Spaces at an end of a line cannot be seen in a block; quotes show them.
    elif "\n" in text and not re.search(r"(?m)[ \t]+$|\A\s", text):
        style = "|"
    elif text in WORDS or NUMBER.fullmatch(text) or _NUMBER_ELSEWHERE.fullmatch(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


for _dumper in (_TextDumper, _FastTextDumper):
    _dumper.add_representer(str, _represent_text)
