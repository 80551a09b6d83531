"""The offer `script`: the source that a script job carries, run by an interpreter from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from .interpreters import Interpreter, find
from .script_pins import ScriptPins

# Those that write a traceback; a warning of a shell, long before the end, is not where it failed.
_TRACED = frozenset({"python", "node", "ruby"})

Arguments = Annotated[
    list[Annotated[str, Meta(max_length=32_768)]],
    Meta(
        max_length=1_000,
        description="Arguments of the script, each as it is: no shell reads them.",
    ),
]


@dataclass(kw_only=True)
class Script:
    """Runs the scripts of script jobs.

    Args:
        languages: Which: shell, python, node, php, powershell, perl, ruby, or one of
            `interpreters`.
        interpreters: Commands by language, in place of those that are found in the PATH of
            `children`, or for further languages. The script's file and its arguments are appended.
        hashes_file: Only scripts whose SHA-256 is a line of this file may run.
        public_keys: Only scripts signed with one of these ed25519 keys may run: base64 of the 32
            bytes, or the absolute path of a PEM file. With both, one of the two is enough.
        children: How they run.

    Raises:
        ConfigurationError: lists every language without an interpreter, and every unusable key.
    """

    languages: Sequence[str]
    interpreters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hashes_file: str | None = None
    public_keys: Sequence[str] = ()
    children: Children = field(default_factory=Children)

    def __post_init__(self) -> None:
        problems: list[str] = []
        self.found: dict[str, Interpreter] = {}
        for language in self.languages:
            named = tuple(self.interpreters.get(language, ()))
            interpreter = find(language, named, self.children.path)
            if isinstance(interpreter, str):
                problems.append(f"languages: {interpreter}")
            else:
                self.found[language] = interpreter
        problems += [
            f"interpreters.{language}: it is not among the languages; add it there too"
            for language in self.interpreters
            if language not in self.languages
        ]
        if not self.languages:
            problems.append('languages: there is none; write some, as ["shell", "python"]')
        try:
            self._pins = ScriptPins(self.hashes_file, self.public_keys)
        except ConfigurationError as error:
            problems += error.problems
        if problems:
            raise ConfigurationError(problems)

    def register(self, executor: HandlerRegistry) -> None:
        """Register the handler `script`."""
        executor.handler("script")(self.run)

    async def run(
        self,
        run: Run,
        *,
        arguments: Arguments = [],  # noqa: B006 (never changed)
        environment: Environment = {},  # noqa: B006 (never changed)
        stdin: Stdin = "",
        skip_exit_code: SkipExitCode = None,
        stop_grace_seconds: GraceSeconds = 10.0,
    ) -> Any:
        """Run the job's script. Exit code 0: succeeded, 75: try again, 78: do not."""
        script = run.script
        if script is None:
            raise Fail("this job has no script: the handler script needs one")
        interpreter = self.found.get(script.language)
        if interpreter is None:
            raise Fail(
                f"this machine runs no {script.language} scripts; its owner allows: "
                f"{', '.join(self.found)}"
            )
        self._pins.check(script)
        refuse_zero_bytes("arguments", arguments)
        check_job_environment(environment, self.children.allow_environment)
        invocation = Invocation(
            prefix=interpreter.prefix,
            argv=arguments,
            environment=environment,
            files={interpreter.file_name: script.source},
            stdin=stdin,
            grace_seconds=stop_grace_seconds,
            skip_exit_code=skip_exit_code,
            traced=interpreter.file_name if script.language in _TRACED else "",
        )
        return await run_child(self.children, run, invocation)

    @classmethod
    def from_config(
        cls, table: Mapping[str, Any], problems: list[str], *, children: Children | None = None
    ) -> Script | None:
        """The section [script] of an agent's file."""
        config = ConfigTable("script", table, problems)
        interpreters = config.table("interpreters")
        settings: dict[str, Any] = {
            "languages": config.texts("languages"),
            "interpreters": {name: interpreters.texts(name) for name in interpreters},
            "hashes_file": config.text("hashes_file") or None,
            "public_keys": config.texts("public_keys"),
            "children": children or Children(),
        }
        config.finish()
        try:
            offer = cls(**settings)
        except ConfigurationError as error:
            problems += [f"script.{problem}" for problem in error.problems]
            return None
        return offer if config.is_good else None
