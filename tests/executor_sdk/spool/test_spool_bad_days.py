"""Bad days of the spool: said clearly, nothing safe is lost, and no new work while it fails."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor_sdk.scripted_admin import ScriptedAdmin, connect, receipt, request
from tests.support.polling import wait_until, wait_until_async
from tests.support.processes import ManagedProcess
from tickwheel_executor import SpoolError
from tickwheel_executor.spool import delivery
from tickwheel_executor.spool import record as spool_record
from tickwheel_executor.spool.file_spool import FileSpool
from tickwheel_executor.testing import FakeAdmin, RunRefusedError
from tickwheel_shared.protocol import Accepted, Refused, Result

from .test_file_spool import A, B, die, opened, result, same, segments

# --- what is found --------------------------------------------------------------------------------


async def test_records_of_another_format_are_kept_and_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = await opened(tmp_path, A)
    await first.write([result(1)])
    die(first)
    file = segments(tmp_path, A)[0]
    newer = spool_record.pack(b"something that only its SDK reads").replace(b"TWR1", b"TWR2", 1)
    data = newer + file.read_bytes()
    file.write_bytes(data)
    second = await opened(tmp_path, B)
    assert same(await second.adopt(), [result(1)])
    assert "records of format 2, and this SDK reads format 1" in caplog.text
    second.remove(result(1))
    kept = file.with_suffix(".unreadable")
    await wait_until_async(kept.exists)
    assert kept.read_bytes() == data
    assert str(kept.name) in caplog.text
    await second.close()


async def test_a_file_of_nothing_but_another_format_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / A).mkdir()
    newer = spool_record.pack(b"{}").replace(b"TWR1", b"TWR9", 1)
    (tmp_path / A / "000001.results").write_bytes(newer)
    spool = await opened(tmp_path, B)
    assert await spool.adopt() == []
    assert caplog.text.count("records of format 9") == 1
    assert (tmp_path / A / "000001.unreadable").read_bytes() == newer
    assert await spool.adopt() == []
    assert caplog.text.count("records of format 9") == 1
    await spool.close()


async def test_a_torn_tail_is_said_and_a_tail_of_zeros_is_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for process, tail in ((A, spool_record.pack(b"x" * 50)[:-1]), (B, b"\0" * 4096)):
        dead = await opened(tmp_path, process)
        await dead.write([result(1 if process == A else 2)])
        die(dead)
        with segments(tmp_path, process)[0].open("ab") as file:
            file.write(tail)
    spool = await opened(tmp_path, "c" * 32)
    assert same(await spool.adopt(), [result(1), result(2)])
    assert caplog.text.count("torn record (61 bytes)") == 1
    for run in (1, 2):
        spool.remove(result(run))
    await wait_until_async(lambda: not (tmp_path / A).exists() and not (tmp_path / B).exists())
    await spool.close()


async def test_damage_is_said_and_the_damaged_file_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = await opened(tmp_path, A)
    await first.write([result(1), result(2), result(3)])
    die(first)
    file = segments(tmp_path, A)[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    second = await opened(tmp_path, B)
    assert same(await second.adopt(), [result(1), result(3)])
    assert f"is damaged: {len(data) // 3} bytes" in caplog.text
    for run in (1, 3):
        second.remove(result(run))
    await wait_until_async(file.with_suffix(".unreadable").exists)
    await second.close()


# --- at the start ---------------------------------------------------------------------------------


async def test_a_place_where_this_process_may_not_write_is_said_with_a_way_out() -> None:
    spool = FileSpool(Path("/sys/tickwheel"), A)  # where nobody may, root included
    with pytest.raises(SpoolError) as caught:
        await spool.open()
    assert str(caught.value).startswith("the spool directory /sys/tickwheel: ")
    assert f"this process (user {os.geteuid()}) may not write there" in str(caught.value)
    assert "`spool_dir`" in str(caught.value)


async def test_a_disk_that_is_full_at_the_start_is_said_and_nothing_is_left_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    spool = FileSpool(tmp_path, A)
    with pytest.raises(SpoolError, match="No space left on device: make room, or give another"):
        await spool.open()
    monkeypatch.undo()
    await wait_until_async(lambda: os.listdir(tmp_path) == [".lock"])


# --- later ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
async def test_while_nothing_can_be_written_new_runs_are_refused_and_results_are_sent(
    tmp_path: Path,
    number: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(delivery, "_RETRY_WRITE_SECONDS", 0.05)
    is_well = True

    def fsync(file: int) -> None:
        if not is_well:
            raise OSError(number, os.strerror(number))
        os.fsync(file)

    async def work() -> str:
        return "done"

    admin = ScriptedAdmin()
    admin.gives_receipts = False  # so that what is not safe is seen to be written later
    spool = FileSpool(tmp_path, A, fsync=fsync)
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    is_well = False
    session.send(request(1))
    assert (await session.expect(Result)).run == 1  # no safer in memory than on the wire
    session.send(request(2))
    refused = await session.expect(Refused)
    assert (refused.run, refused.reason) == (2, "spool_failed")
    assert f"{tmp_path}: {os.strerror(number)}" in refused.message
    assert caplog.text.count("results cannot be saved on disk, new runs are refused") == 1

    is_well = True
    await wait_until_async(lambda: "runs are accepted" in caplog.text)
    session.send(request(3))
    assert (await session.expect(Accepted)).run == 3
    await session.expect(Result)
    node.abort()
    die(spool)
    second = await opened(tmp_path, B)
    assert sorted(each.run for each in await second.adopt()) == [1, 3]
    await second.close()


async def test_a_full_disk_is_not_taken_for_a_good_one_because_nothing_needs_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.write, 10**9

    def limited(file: int, data: memoryview) -> int:
        if len(data) > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    monkeypatch.setattr(os, "write", limited)
    spool = await opened(tmp_path, A)
    room = 100
    with pytest.raises(SpoolError):
        await spool.write([result(1)])
    with pytest.raises(SpoolError):
        await spool.write([])  # what the node does to see whether it may take runs again
    room = 10**9
    await spool.write([])
    assert [each.stat().st_size for each in segments(tmp_path, A)] == [0]
    await spool.close()


async def test_a_directory_that_was_deleted_is_said_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivery, "_RETRY_WRITE_SECONDS", 0.05)
    directory = tmp_path / "spool"

    async def work() -> str:
        return "done"

    admin = ScriptedAdmin()
    admin.gives_receipts = False
    spool = FileSpool(directory, A)
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    shutil.rmtree(directory)
    session.send(request(1))
    sent = await session.expect(Result)
    assert "somebody has deleted it" in caplog.text
    await wait_until_async(lambda: "runs are accepted" in caplog.text)
    (file,) = segments(directory, A)
    assert len(spool_record.unpack(file.read_bytes()).payloads) == 1
    session.send(receipt(sent))
    await wait_until_async(lambda: file.stat().st_size == 0)
    assert await node.drain(5)
    assert os.listdir(directory) == [".lock"]


FULL_DISK = """
import os, resource, time
from tickwheel_executor import Executor
from tickwheel_executor.spool import delivery

delivery._RETRY_WRITE_SECONDS = 0.1
executor = Executor("billing")
executor.handler("large")(lambda: "x" * 60_000)
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
executor.start()
for name, limit in (("full", 30_000), ("well", most)):
    while not os.path.exists(name):
        time.sleep(0.01)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    os.rename(name, name + " now")
while not os.path.exists("end"):
    time.sleep(0.01)
"""


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with FakeAdmin() as admin:
        yield admin


def test_a_real_limit_of_the_system_is_met_and_taken_away(admin: FakeAdmin, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FULL_DISK)
    settings = {"TICKWHEEL_ADMINS": admin.url, "TICKWHEEL_TOKEN": admin.token}
    with ManagedProcess(
        [sys.executable, "program.py"],
        tmp_path / "log",
        environment=settings | {"XDG_STATE_HOME": str(tmp_path)},
        directory=tmp_path,
    ) as program:
        assert admin.run("large").result().succeeded
        (tmp_path / "full").touch()
        wait_until((tmp_path / "full now").exists)
        assert admin.run("large").result().succeeded  # it was begun, so it is told
        with pytest.raises(RunRefusedError, match=r"spool_failed.*File too large"):
            admin.run("large").result()
        (tmp_path / "well").touch()
        program.wait_for_line("runs are accepted")
        assert admin.run("large").result().succeeded
        (tmp_path / "end").touch()
        assert program.wait() == 0


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tickwheel")
