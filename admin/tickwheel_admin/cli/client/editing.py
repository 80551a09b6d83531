"""Change an object in the user's editor; what was typed is never lost."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tickwheel_admin.cli.client.errors import UsageFailure
from tickwheel_admin.cli.client.inputs import document_of
from tickwheel_admin.cli.failure import Failure

_FALLBACK = "vi"


def edited(
    config: Mapping[str, Any], *, name: str, again: str, save: Callable[[dict[str, Any]], Any]
) -> Any:
    """What `save` returns for the changed object; None if nothing was changed.

    Args:
        name: how the file is called.
        again: the command that sends the file again when it was refused.

    Raises:
        UsageFailure: the editor cannot be started, or the text is no object; it stays in its file.
        Failure: as `save` raises it; the same.
    """
    before = yaml_of(config)
    handle, place = tempfile.mkstemp(prefix=f"tickwheel-{name}-", suffix=".yaml")  # mode 0600
    file = Path(place)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(before)
    try:
        _open_editor(file)
        after = file.read_text(encoding="utf-8")
        made = None if after == before else save(document_of(after, place))
    except Failure as failure:
        failure.args = (f"{failure}\n  Your text is in {place}: `{again} {place}` sends it.",)
        raise
    file.unlink()
    return made


def yaml_of(config: Mapping[str, Any]) -> str:
    """The object as YAML without what says nothing; texts of several lines as such."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes lines as lines."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    shown = {name: value for name, value in config.items() if value not in (None, "", [], {})}
    told: str = yaml.dump(shown, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=100)
    return told


def _open_editor(file: Path) -> None:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _FALLBACK
    try:
        done = subprocess.run([*shlex.split(command), str(file)], check=False)  # noqa: S603 - the user's own editor
    except (OSError, ValueError) as error:
        raise UsageFailure(
            f"the editor {command!r} cannot be started ({error}); set EDITOR, or use -f FILE"
        ) from None
    if done.returncode != 0:
        raise UsageFailure(f"the editor ended with {done.returncode}; nothing was changed")
