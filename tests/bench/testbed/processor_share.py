"""Hold a process to a share of a processor core, in a control group (cgroup) of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 10_000  # a tenth of the kernel's default: a held process pauses for milliseconds
PROCESSES = "cgroup.procs"


class CannotHoldError(Exception):
    """The machine, or who runs this, lacks what it takes; the text says what."""

    def __init__(self) -> None:
        super().__init__("holding an admin to a share of a core needs the right to write cgroups")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hierarchy:
    """The tree of groups that shares out processor time."""

    top: Path
    is_unified: bool  # version 2 of cgroups: one tree for memory, processors and all else

    def limit(self, group: Path, share: float) -> None:
        """Let all processes of the group together have so much of one core."""
        quota_us = round(share * PERIOD_US)
        if self.is_unified:
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))

    def group_of(self, pid: int) -> Path:
        """Where the process is now, or the top where that cannot be seen from this container."""
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            is_this = not controllers if self.is_unified else "cpu" in controllers.split(",")
            group = self.top / path.lstrip("/")
            if is_this and (group / PROCESSES).exists():
                return group
        return self.top


@contextmanager
def held_to(pid: int, share: float, *, cgroups: Path = CGROUPS) -> Iterator[None]:
    """Within the block the process has at most this share of one core, for all its threads.

    Afterwards it is where it was before, without that limit; it may also have ended meanwhile.
    Children that it has already started are not held, those that it starts in the block are.

    Args:
        share: of one core; at least 0.1, as the kernel takes no quota below a millisecond.
        cgroups: where the machine shows its control groups.

    Raises:
        CannotHoldError: before the block is entered; nothing is left behind.
    """
    try:
        hierarchy = _hierarchy(cgroups)
    except OSError as error:
        raise CannotHoldError from error
    home = hierarchy.group_of(pid)
    group = hierarchy.top / f"tickwheel-bench-{pid}"
    try:
        try:
            group.mkdir(exist_ok=True)
            hierarchy.limit(group, share)
            (group / PROCESSES).write_text(str(pid))
        except OSError as error:
            raise CannotHoldError from error
        yield
    finally:
        _remove(group, home)


def _hierarchy(cgroups: Path) -> _Hierarchy:
    """The tree, version 1 where both are mounted; OSError where it is not there or read-only."""
    first = _Hierarchy(top=cgroups / "cpu", is_unified=False)
    if (first.top / PROCESSES).exists():
        return first
    switches = cgroups / "cgroup.subtree_control"
    if "cpu" not in switches.read_text().split():
        # Left on afterwards: it limits nobody, and somebody else may rely on it by then.
        switches.write_text("+cpu")
    return _Hierarchy(top=cgroups, is_unified=True)


def _remove(group: Path, home: Path) -> None:
    """Move what still runs in the group home, and remove the group if it was made."""
    if not group.exists():
        return
    for pid in (group / PROCESSES).read_text().split():
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            (home / PROCESSES).write_text(pid)
    group.rmdir()
