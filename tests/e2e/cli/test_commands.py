"""The command line against a real admin and node, each command a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.e2e.cluster import TICKWHEEL, Cluster
from tests.support import guarded_exec
from tests.support.polling import wait_until
from tests.support.processes import free_port


def tickwheel(environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # A test run in the background of a shell ignores Ctrl-C, and so would its children.
        [sys.executable, guarded_exec.__file__, str(os.getpid()), "9", "-", *TICKWHEEL, *words],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors


def test_runs_are_started_followed_interrupted_and_watched(sqlite_url: str, tmp_path: Path) -> None:
    with Cluster(tmp_path, sqlite_url) as cluster:
        cluster.start_admin()
        cluster.add_executor()
        cluster.start_node("node-1")
        for name in ("report", "fail", "work"):
            cluster.add_job(name, name)
        hanging = cluster.add_job("hang", "wait_for_cancel")
        known = {
            "TICKWHEEL_URL": cluster.admins[0].url,
            "TICKWHEEL_API_TOKEN": cluster.api().token,
        }
        lonely = known | {"TICKWHEEL_URL": f"http://127.0.0.1:{free_port()}"}

        # Side by side: what takes time is the start of Python.
        follows = tickwheel(known, "run", "start", "shop/report", "-p", "count=2", "--follow")
        fails = tickwheel(known, "job", "run", "fail", "-p", "month=13", "--wait")
        lost = tickwheel(lonely, "job", "list")
        refused = tickwheel(known | {"TICKWHEEL_API_TOKEN": "twa_wrong"}, "job", "list")
        waits = tickwheel(known, "run", "start", "hang", "--follow", "--cancel-on-interrupt")
        code, out, _ = ended(follows)
        assert code == 0
        assert [line.partition("INFO    ")[2] for line in out.splitlines()[:2]] == [
            "line 1 of 2 – 第 1 行",
            "line 2 of 2 – 第 2 行",
        ]
        assert "succeeded after" in out.splitlines()[-1]
        code, out, _ = ended(fails)
        assert (code, "no such month: 13" in out) == (10, True)
        assert ended(lost)[0] == 3
        assert "(login.required)" in ended(refused)[2]
        assert refused.returncode == 4

        assert waits.stdout is not None
        assert "waiting to be cancelled" in waits.stdout.readline()
        follower = tickwheel(known, "run", "logs", "-f", "hang", "--plain")
        assert follower.stdout is not None
        assert follower.stdout.readline() == "waiting to be cancelled\n"
        waits.send_signal(signal.SIGINT)
        assert ended(waits)[0] == 130
        assert ended(follower)[0] == 0
        newest = cluster.api().get(f"/runs?job_id={hanging}&limit=1")["items"][0]
        assert (newest["state"], newest["cancel_reason"]) == ("cancelled", "operator")

        screen = _screen_of_top(known)
        assert "Nodes: 1" in screen
        assert "\x1b[?1049l" in screen  # the terminal is as it was


def _screen_of_top(environment: dict[str, str]) -> str:
    """What `tickwheel top` writes to a terminal of 80 × 24 until q is pressed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable,
            [*TICKWHEEL, "top"],
            os.environ | environment | {"TERM": "xterm-256color", "LANG": "C.UTF-8"},
        )
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    written = bytearray()
    ends_at = time.monotonic() + 60
    pressed = False
    try:
        while time.monotonic() < ends_at:
            ready, _, _ = select.select([terminal], [], [], 1)
            if not ready:
                continue
            try:
                piece = os.read(terminal, 65_536)
            except OSError:  # as Linux tells the end of a terminal
                break
            if not piece:
                break
            written += piece
            if not pressed and b"q quit" in written:
                os.write(terminal, b"q")
                pressed = True
    finally:
        os.close(terminal)
        wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, what="the end of top")
    return written.decode(errors="replace")
