"""The script for bash, which zsh can use, too."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from tickwheel_admin.cli.client.completion.tree import CommandWords

_SCRIPT = """\
_tickwheel_names() {
    tickwheel completion names "$1" 2>/dev/null
}

_tickwheel() {
    local cur prev place word i choices flags names
    COMPREPLY=()
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD-1]}
    place=""
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="$place ${COMP_WORDS[i]}"
        case "$word" in
            @PATHS@) place=$word ;;
        esac
    done
    choices=""
    flags=""
    names=""
    case "$place|$prev" in
@VALUES@
        *)
            case "$place" in
@WORDS@
            esac
            ;;
    esac
    if [ "${cur#-}" != "$cur" ]; then
        choices=$flags
    elif [ -n "$names" ]; then
        choices="$choices
$(_tickwheel_names "$names")"
    fi
    local IFS=$'\\n'
    COMPREPLY=($(compgen -W "$choices" -- "$cur"))
}

complete -o default -F _tickwheel tickwheel
"""
# `path` and `words` have a meaning of their own in zsh.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit

"""


def bash_script(commands: Iterable[CommandWords]) -> str:
    """The text of the script."""
    paths, values, words = [], [], []
    for command in commands:
        place = "".join(f" {word}" for word in command.path)
        if command.path:
            paths.append(f'"{place}"')
        for flag in command.flags:
            if not flag.takes_value:
                continue
            cases = " | ".join(f'"{place}|{each}"' for each in flag.flags)
            said = f"names={flag.names}" if flag.names else f"choices={_lines(flag.values)}"
            values.append(f"        {cases}) {said} ;;")
        said = f"choices={_lines([*command.commands, *command.values])}"
        said += f"; flags={_lines(each for flag in command.flags for each in flag.flags)}"
        said += f"; names={command.names}" if command.names else ""
        words.append(f'                "{place}") {said} ;;')
    return (
        _SCRIPT.replace("@PATHS@", " | ".join(paths))
        .replace("@VALUES@", "\n".join(values))
        .replace("@WORDS@", "\n".join(words))
    )


def zsh_script(commands: Iterable[CommandWords]) -> str:
    """The same, loaded by zsh's own way to use scripts for bash."""
    return _ZSH + bash_script(commands)


def _lines(words: Iterable[str]) -> str:
    return shlex.quote("\n".join(words))
