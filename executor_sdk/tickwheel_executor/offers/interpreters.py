"""Interpreters of script languages: where they are, and how they are called."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from .command import find_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """How scripts of a language are run: these arguments, the file, the job's arguments."""

    language: str
    argv: tuple[str, ...]  # the first one is absolute
    suffix: str  # of the script's file

    @property
    def prefix(self) -> tuple[str, ...]:
        """The command before the job's arguments, as of `Invocation`."""
        own = (each.replace("{", "{{").replace("}", "}}") for each in self.argv)
        return (*own, f"{{directory}}/{self.file_name}")

    @property
    def file_name(self) -> str:
        """Name of the script's file."""
        return f"script{self.suffix}"


@dataclass(frozen=True, slots=True)
class _Known:
    programs: tuple[str, ...]  # the first that is found
    suffix: str
    flags: tuple[str, ...] = ()


_KNOWN: Mapping[str, _Known] = {
    "shell": _Known(("bash", "sh"), ".sh"),
    "python": _Known(("python3", "python"), ".py", ("-u",)),
    "node": _Known(("node", "nodejs"), ".js"),
    "php": _Known(("php",), ".php"),
    "powershell": _Known(
        ("pwsh", "powershell"), ".ps1", ("-NoProfile", "-NonInteractive", "-File")
    ),
    "perl": _Known(("perl",), ".pl"),
    "ruby": _Known(("ruby",), ".rb"),
}
LANGUAGES = tuple(_KNOWN)


def find(language: str, named: tuple[str, ...], path: str) -> Interpreter | str:
    """The interpreter of a language, or what is wrong.

    Args:
        named: the command that the machine's owner names for it; empty: none.
        path: where programs are looked for.
    """
    known = _KNOWN.get(language)
    if named:
        program = find_program(named[0], path)
        if program is None:
            return f"there is no program {named[0]!r}; install it, or name another"
        return Interpreter(
            language=language,
            argv=(program, *named[1:]),
            suffix=known.suffix if known is not None else "",
        )
    if known is None:
        names = ", ".join(LANGUAGES)
        return (
            f"the language {language!r} is not one of {names}; name its interpreter: "
            f'interpreters = {{ {language} = ["/usr/bin/{language}"] }}'
        )
    for name in known.programs:
        if (program := find_program(name, path)) is not None:
            return Interpreter(language=language, argv=(program, *known.flags), suffix=known.suffix)
    return (
        f"no {' or '.join(known.programs)} for {language!r} in {path}; install it, name it in "
        "interpreters, or leave the language out"
    )


async def version_of(interpreter: Interpreter) -> str:
    """The first line that it prints about its version; "" if it does not say."""
    process = await asyncio.create_subprocess_exec(
        interpreter.argv[0],
        "--version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 10)
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines()]
    return next((line for line in lines if line), "")
