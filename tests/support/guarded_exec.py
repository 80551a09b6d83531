"""Becomes a command that dies with the process that started it.

    python guarded_exec.py PARENT_PID SIGNAL USER COMMAND…

A program of its own, because `preexec_fn` is not safe in a process with threads. The change of user
comes first: it would clear the parent-death signal. A shell that runs the tests in the background
makes them ignore Ctrl-C, and what they start with them: the command does not.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import sys

PR_SET_PDEATHSIG = 1
KEEP_USER = "-"


def main() -> None:
    parent, death_signal, user, *command = sys.argv[1:]
    libc = ctypes.CDLL(None)
    if user != KEEP_USER:
        account = pwd.getpwnam(user)
        os.setgid(account.pw_gid)
        os.setgroups([])
        os.setuid(account.pw_uid)
    if sys.platform == "linux":  # elsewhere a crashed test run may leave its servers behind
        libc.prctl(PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != int(parent):
            sys.exit("the starting process has gone")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
