"""The offer `command`: a program with its arguments, never a line for a shell."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from tickwheel_executor.errors import ConfigurationError, Fail
from tickwheel_executor.run.context import Run

from . import HandlerRegistry
from .children.environment import check_job_environment
from .children.parameters import Environment, GraceSeconds, SkipExitCode, Stdin
from .children.running import Invocation, refuse_zero_bytes, run_child
from .children.settings import Children
from .config import ConfigTable

ANY = "*"
Argument = Annotated[str, Meta(max_length=32_768)]
Argv = Annotated[
    list[Argument],
    Meta(
        min_length=1,
        max_length=1_000,
        description="The program and its arguments, each as it is: no shell reads them.",
    ),
]
Directory = Annotated[
    str,
    Meta(
        max_length=4_096,
        description="Where it runs: a directory that the machine's owner allows; empty: a private "
        "one, removed at the end.",
    ),
]


@dataclass(kw_only=True)
class Command:
    """Runs programs of this machine.

    Args:
        programs: What may run: absolute paths of programs, or of directories, ending in "/", for
            every program in or below them. "*": any program.
        directories: Where programs may run: absolute paths; also every directory below.
        children: How they run.

    Raises:
        ConfigurationError: lists every path that is not absolute.
    """

    programs: Sequence[str] = (ANY,)
    directories: Sequence[str | os.PathLike[str]] = ()
    children: Children = field(default_factory=Children)

    def __post_init__(self) -> None:
        self._programs = tuple(self.programs)
        self._directories = tuple(os.fspath(each) for each in self.directories)
        problems = [
            f"programs: {each!r} is not absolute; write the whole path, as /usr/bin/rsync"
            for each in self._programs
            if each != ANY and not each.startswith("/")
        ]
        problems += [
            f"directories: {each!r} is not absolute; write the whole path"
            for each in self._directories
            if not each.startswith("/")
        ]
        if problems:
            raise ConfigurationError(problems)

    def register(self, executor: HandlerRegistry) -> None:
        """Register the handler `command`."""
        executor.handler("command")(self.run)

    async def run(
        self,
        run: Run,
        *,
        argv: Argv,
        cwd: Directory = "",
        environment: Environment = {},  # noqa: B006 (never changed)
        stdin: Stdin = "",
        skip_exit_code: SkipExitCode = None,
        stop_grace_seconds: GraceSeconds = 10.0,
    ) -> Any:
        """Run a program of the machine. Exit code 0: succeeded, 75: try again, 78: do not."""
        refuse_zero_bytes("argv", argv)
        check_job_environment(environment, self.children.allow_environment)
        program = self._program(argv[0])
        invocation = Invocation(
            argv=[program, *argv[1:]],
            environment=environment,
            cwd=self._directory(cwd) if cwd else None,
            stdin=stdin,
            grace_seconds=stop_grace_seconds,
            skip_exit_code=skip_exit_code,
        )
        return await run_child(self.children, run, invocation)

    def _program(self, name: str) -> str:
        """The path of an allowed program.

        Raises:
            Fail: there is none, or it is not allowed.
        """
        path = find_program(name, self.children.path)
        if path is None:
            raise Fail(f"argv: there is no program {name!r} on this machine")
        if not any(_allows(entry, path) for entry in self._programs):
            raise Fail(
                f"argv: {path} is not among the programs that this machine's owner allows "
                "(programs in its section [command])"
            )
        return path

    def _directory(self, cwd: str) -> str:
        path = os.path.realpath(cwd)
        roots = [os.path.realpath(root) for root in self._directories]
        if (
            "\x00" in cwd
            or not cwd.startswith("/")
            or not any(_is_in(path, each) for each in roots)
        ):
            raise Fail(
                f"cwd: {cwd!r} is not in a directory that this machine's owner allows "
                "(directories in its section [command])"
            )
        if not os.path.isdir(path):
            raise Fail(f"cwd: there is no directory {cwd!r} on this machine")
        return path

    @classmethod
    def from_config(
        cls, table: Mapping[str, Any], problems: list[str], *, children: Children | None = None
    ) -> Command | None:
        """The section [command] of an agent's file."""
        config = ConfigTable("command", table, problems)
        programs = config.texts("programs")
        directories = config.texts("directories")
        if not config.has("programs"):
            config.problem(
                "programs",
                'it is missing; write the programs that may run, as ["/usr/bin/rsync", '
                '"/opt/jobs/"], or ["*"] for any',
            )
        for each in directories:
            if each.startswith("/") and not Path(each).is_dir():
                config.problem("directories", f"there is no directory {each!r}; create it")
        config.finish()
        try:
            offer = cls(programs=programs, directories=directories, children=children or Children())
        except ConfigurationError as error:
            problems += [f"command.{problem}" for problem in error.problems]
            return None
        return offer if config.is_good else None


def find_program(name: str, path: str) -> str | None:
    """The absolute path of a program; only a name without "/" is looked for in `path`.

    Links in its directory are followed, but not the program itself: a program may behave according
    to the name that it was called by.
    """
    if not name or "\x00" in name:
        return None
    if "/" in name:
        candidates = [name] if name.startswith("/") else []
    else:
        candidates = [os.path.join(directory, name) for directory in path.split(":")]
    for candidate in candidates:
        directory, base = os.path.split(candidate)
        found = os.path.join(os.path.realpath(directory), base)
        if base not in ("", ".", "..") and os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    return None


def _allows(entry: str, path: str) -> bool:
    """Whether this entry of the owner's list allows a program, by its path of `find_program`."""
    if entry == ANY:
        return True
    if entry.endswith("/"):
        # A link that leads out of the directory is not in it.
        return _is_in(os.path.realpath(path), os.path.realpath(entry))
    directory, base = os.path.split(entry)
    return path == os.path.join(os.path.realpath(directory), base)


def _is_in(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
