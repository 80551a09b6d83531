"""The disks of this machine: room, and what kind of file system holds the embedded database."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tickwheel_admin.cli.doctor.finding import Finding, error, warning

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs",
     "fuse.glusterfs", "fuse.s3fs", "virtiofs", "lustre"}
)  # fmt: skip
MIN_FREE_BYTES = 1024**3
MIN_FREE_SHARE = 0.05
_MOUNTS = Path("/proc/self/mounts")


def disk(what: str, directory: Path) -> Iterator[Finding]:
    """Whether the disk of a directory has room; nothing if there is no such directory."""
    if not directory.exists():
        return
    usage = shutil.disk_usage(directory)
    if usage.free < MIN_FREE_BYTES or usage.free < MIN_FREE_SHARE * usage.total:
        share = usage.free / max(usage.total, 1)
        yield error(
            "machine.disk",
            f"The disk of {what} ({directory}) has {usage.free / 1024**2:,.0f} MiB left,"
            f" {share:.0%} of it.",
            "Make room, or use a larger disk: without room no result is stored.",
        )


def embedded(
    directory: Path, *, kind_of: Callable[[Path], str | None] | None = None
) -> Iterator[Finding]:
    """Whether the directory of the embedded database is private, and on a local disk."""
    if not directory.exists():
        return
    kind = (kind_of or file_system_of)(directory)
    if kind in NETWORK_FILE_SYSTEMS:
        yield error(
            "machine.file_system",
            f"The embedded database in {directory} is on a network file system ({kind}), on which"
            " locks and writes are not safe: it can be destroyed.",
            "Put it on a local disk (TICKWHEEL_DATA_DIR), or move to a server with"
            " `tickwheel backup --move-to`.",
        )
    if directory.stat().st_mode & 0o077:
        yield warning(
            "machine.permissions",
            f"Others can look into {directory}, where the database and its key are.",
            f"Run chmod 700 {directory}.",
        )


def file_system_of(directory: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of the file system that holds a directory, as the kernel calls it; None: unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return None
    resolved = directory.resolve()
    depth, found = -1, None
    for line in lines:
        _device, where, kind, *_ = line.split(" ")
        mounted = Path(where.replace("\\040", " "))
        # The deepest one holds it; of two at one place, the later covers the earlier one.
        if resolved.is_relative_to(mounted) and len(mounted.parts) >= depth:
            depth, found = len(mounted.parts), kind
    return found
