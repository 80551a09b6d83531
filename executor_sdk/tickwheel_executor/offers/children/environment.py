"""The environment of a child: little of the agent's, and nothing that changes what a program is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from tickwheel_executor.errors import Fail

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INHERITED = ("HOME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "TZ", "USER")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")

# What decides which code a program loads: a job must not set them, unless its machine's owner says
# so. Patterns as of the shell.
REFUSED = (
    *("LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "MALLOC_*", "NLSPATH"),
    *("PATH", "IFS", "CDPATH", "ENV", "BASH_*", "BASHOPTS", "SHELLOPTS", "PS4", "ZDOTDIR"),
    *("PROMPT_COMMAND", "SHELL", "HOME", "USER", "LOGNAME", "TMPDIR"),
    *("PYTHON*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "NODE_*", "npm_*", "PHP*"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
    *("PSModulePath", "DOTNET_*", "COMPlus_*", "CORECLR_*", "LUA_*"),
    *("GIT_*", "SSH_ASKPASS", "EDITOR", "VISUAL", "PAGER", "OPENSSL_*", "SSLKEYLOGFILE"),
)
RESERVED = "TICKWHEEL_*"


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of these patterns is this name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def inherited(environ: Mapping[str, str], more: tuple[str, ...]) -> dict[str, str]:
    """What a child gets of the agent's own environment; the agent's token is never part of it."""
    return {
        name: value
        for name, value in environ.items()
        if matches(name, (*INHERITED, *more)) and not matches(name, (RESERVED,))
    }


def check_job_environment(environment: Mapping[str, str], allowed: tuple[str, ...]) -> None:
    """Refuse what a job must not set.

    Raises:
        Fail: names the first variable that is refused.
    """
    for name, value in environment.items():
        if not _NAME.match(name):
            rule = "letters, digits and _, not beginning with a digit"
            raise Fail(f"environment: {name!r} is no name of a variable: {rule}")
        if "\x00" in value:
            raise Fail(f"environment: {name} contains a zero byte")
        if matches(name, (RESERVED,)):
            raise Fail(f"environment: {name}: names with TICKWHEEL_ are the agent's own")
        if matches(name, REFUSED) and not matches(name, allowed):
            raise Fail(
                f"environment: {name} changes which code a program runs, so a job must not set it; "
                "whoever owns the machine can allow it (allow_environment)"
            )
