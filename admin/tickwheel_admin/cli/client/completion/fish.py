"""The script for fish."""

from __future__ import annotations

from collections.abc import Iterable

from tickwheel_admin.cli.client.completion.tree import CommandWords, FlagWords

_HEAD = """\
# Whether the words typed so far lead to this command, and not to one within it.
function __tickwheel_at
    set -l path
    for word in (commandline -opc)[2..]
        if contains -- (string join -- ' ' $path $word) @PATHS@
            set path $path $word
        end
    end
    test "$path" = "$argv[1]"
end

complete -c tickwheel -f
"""


def fish_script(commands: Iterable[CommandWords]) -> str:
    """The text of the script."""
    known = list(commands)
    told = {command.path: command.told for command in known}
    paths = " ".join(_quoted(" ".join(command.path)) for command in known if command.path)
    lines = [_HEAD.replace("@PATHS@", paths)]
    for command in known:
        place = _quoted(f"__tickwheel_at {_quoted(' '.join(command.path))}")
        start = f"complete -c tickwheel -n {place}"
        for name in command.commands:
            about = _quoted(told[*command.path, name])
            lines.append(f"{start} -a {_quoted(name)} -d {about}")
        if command.values:
            lines.append(f"{start} -a {_quoted(' '.join(command.values))}")
        if command.names:
            lines.append(f"{start} -a {_quoted(_names(command.names))}")
        lines += [f"{start} {_flag(flag)}" for flag in command.flags]
    return "\n".join(lines) + "\n"


def _flag(flag: FlagWords) -> str:
    parts = [f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in flag.flags]
    if flag.values:
        parts.append(f"-x -a {_quoted(' '.join(flag.values))}")
    elif flag.names:
        parts.append(f"-x -a {_quoted(_names(flag.names))}")
    elif flag.takes_value:
        parts.append("-r -F")
    return " ".join([*parts, "-d", _quoted(flag.told)])


def _names(kind: str) -> str:
    return f"(tickwheel completion names {kind} 2>/dev/null)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
