"""Lines of a crontab that set a variable, and how a job gets it.

As `load_env` of Debian's cron 3.0pl1 reads them: the value is taken as it stands, nothing in it is
expanded; quotes around a whole value keep its blanks, any others are part of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

# What these say is for cron itself: no program that it starts looks at them. Shells ignore an IFS
# that they are given.
_OF_CRON = ("CRON_TZ", "RANDOM_DELAY", "MAILTO", "MAILFROM", "SHELL", "LOGNAME", "USER", "IFS")
# An agent refuses these as variables of a job, as they decide which code runs; a script may set
# them, for whoever may edit it decides that anyway. A test compares them with the agent's own list.
OF_SCRIPT = (
    *("LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "MALLOC_*", "NLSPATH"),
    *("PATH", "CDPATH", "ENV", "BASH_*", "BASHOPTS", "SHELLOPTS", "PS4", "ZDOTDIR"),
    *("PROMPT_COMMAND", "HOME", "TMPDIR"),
    *("PYTHON*", "PERL*", "RUBY*", "GEM_*", "BUNDLE_*", "NODE_*", "npm_*", "PHP*"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
    *("PSModulePath", "DOTNET_*", "COMPlus_*", "CORECLR_*", "LUA_*"),
    *("GIT_*", "SSH_ASKPASS", "EDITOR", "VISUAL", "PAGER", "OPENSSL_*", "SSLKEYLOGFILE"),
)
_READ_ONLY = ("BASHOPTS", "SHELLOPTS")  # of bash, which refuses to set them
_NAME = re.compile(r"(?!TICKWHEEL_)[A-Za-z_][A-Za-z0-9_]{0,127}")
_LINE = re.compile(
    r"""[ \t]*
    (?: "(?P<double>[^"]+)" | '(?P<single>[^']+)' | (?P<plain>[^\s="']+) )
    [ \t]*=[ \t]*
    (?: "(?P<in_double>[^"]*)"[ \t]* | '(?P<in_single>[^']*)'[ \t]* | (?P<text>[^\s"'].*) )
    """,
    re.VERBOSE,
)
_EMPTY = re.compile(r"""[ \t]*[^\s="']+[ \t]*=[ \t]*""")


def sets_to_nothing(line: str) -> bool:
    """Whether it is a name and a sign of equality, as of an empty variable without its quotes."""
    return _EMPTY.fullmatch(line) is not None


def read_variable(line: str) -> tuple[str, str] | None:
    """Name and value; None: the line sets no variable."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name = match["double"] or match["single"] or match["plain"]
    if match["text"] is not None:
        return name, match["text"].rstrip()
    return name, match["in_double"] or match["in_single"] or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVariables:
    """Where the variables of a line go."""

    exports: tuple[str, ...]  # lines of the script
    parameters: Mapping[str, str]  # of the job
    left_out: tuple[str, ...]  # names that no job can have


def variables_of_job(environment: Mapping[str, str]) -> JobVariables:
    """What becomes of the variables that hold for a line."""
    exports: list[str] = []
    parameters: dict[str, str] = {}
    left_out: list[str] = []
    for name, value in environment.items():
        if name in _OF_CRON:
            continue
        if not _NAME.fullmatch(name) or name in _READ_ONLY:
            left_out.append(name)
        elif any(fnmatchcase(name, pattern) for pattern in OF_SCRIPT):
            exports.append(f"export {name}={shlex.quote(value)}")
        else:
            parameters[name] = value
    return JobVariables(exports=tuple(exports), parameters=parameters, left_out=tuple(left_out))
