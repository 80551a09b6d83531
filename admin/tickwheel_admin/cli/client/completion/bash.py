"""The script for bash, which zsh can use, too."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from tickwheel_admin.cli.client.completion.tree import CommandWords

# Names come from a server, and `compgen -W` would run what is in them: `$(…)`. So they are compared
# here, and quoted as the word was begun. A raw text: its backslashes are the shell's.
_SCRIPT = r"""
_tickwheel_names() {
    tickwheel completion names "$1" 2>/dev/null
}

# What a word that was typed so far says.
_tickwheel_unquoted() {
    case "$1" in
        \'*) printf '%s' "${1#?}" ;;
        \"*) printf '%s' "${1#?}" | sed 's/\\\(.\)/\1/g' ;;
        *) printf '%s' "$1" | sed 's/\\\(.\)/\1/g' ;;
    esac
}

# A word as it is typed after the same quotation mark as $2.
_tickwheel_quoted() {
    case "$2" in
        \'*) printf '%s' "$1" | sed "s/'/'\\\\''/g" ;;
        \"*) printf '%s' "$1" | sed 's/[$`"\\]/\\&/g' ;;
        *) printf '%q' "$1" ;;
    esac
}

_tickwheel() {
    local cur prev place word i choices flags names begun before choice
    COMPREPLY=()
    i=$COMP_CWORD
    cur=${COMP_WORDS[i]}
    # bash parts words at colons and equals signs; the parts before the last one stay as they are.
    before=""
    if [ "$cur" = "=" ]; then
        cur=""
    elif [ "$i" -gt 1 ] && [ "${COMP_WORDS[i-1]}" = "=" ]; then
        i=$((i - 1))
    fi
    if [ "$cur" = ":" ]; then
        cur=""
        before=":"
    fi
    while [ "$i" -gt 2 ]; do
        case "${COMP_WORDS[i]}|${COMP_WORDS[i-1]}" in
            ":|"* | *"|:") ;;
            *) break ;;
        esac
        i=$((i - 1))
        before=${COMP_WORDS[i]}$before
    done
    prev=${COMP_WORDS[i-1]}
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
    before=$(_tickwheel_unquoted "$before")
    begun=$before$(_tickwheel_unquoted "$cur")
    while IFS= read -r choice; do
        case "$choice" in
            "") ;;
            "$begun"*)
                COMPREPLY+=("$(_tickwheel_quoted "${choice#"$before"}" "$cur")")
                ;;
        esac
    done <<< "$choices"
}

complete -o default -F _tickwheel tickwheel
""".lstrip()
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
