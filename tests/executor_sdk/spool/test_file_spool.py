"""The spool on a real disk: safe, torn, shared, adopted, full."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.polling import wait_until_async
from tickwheel_executor import SpoolError
from tickwheel_executor.spool import file_spool
from tickwheel_executor.spool import record as spool_record
from tickwheel_executor.spool import segment as spool_segment
from tickwheel_executor.spool.file_spool import FileSpool
from tickwheel_shared.protocol import Outcome, Result

A, B, C = "a" * 32, "b" * 32, "c" * 32


def result(run: int, attempt: int = 1, *, text: str = "结果") -> Result:
    return Result(
        run=run,
        attempt=attempt,
        token=f"token-{run}",
        outcome=Outcome.SUCCEEDED,
        duration_ms=12,
        result=msgspec.Raw(msgspec.json.encode(text)),
        log_lines=3,
    )


def same(left: list[Result], right: list[Result]) -> bool:
    return [msgspec.json.encode(r) for r in left] == [msgspec.json.encode(r) for r in right]


def die(spool: FileSpool) -> None:
    """End as a process does that is killed: its locks go, its files stay."""
    spool._disk.shutdown()
    for home in spool._homes.values():
        os.close(home.lock)
    if spool._active is not None:
        os.close(spool._active_file)


async def opened(directory: Path, process: str, **options: object) -> FileSpool:
    spool = FileSpool(directory, process, **options)  # type: ignore[arg-type]
    await spool.open()
    return spool


def segments(directory: Path, process: str) -> list[Path]:
    return sorted((directory / process).glob("*.results"))


async def test_a_successor_adopts_what_a_dead_process_left(tmp_path: Path) -> None:
    first = await opened(tmp_path, A)
    await first.write([result(1), result(2)])
    await first.write([result(3)])
    die(first)
    second = await opened(tmp_path, B)
    adopted = await second.adopt()
    assert same(adopted, [result(1), result(2), result(3)])
    assert await second.adopt() == []  # each once
    for run in (1, 2, 3):
        second.remove(result(run))
    await wait_until_async(lambda: not (tmp_path / A).exists())
    await second.close()
    assert os.listdir(tmp_path) == [".lock"]


async def test_live_processes_leave_each_other_alone(tmp_path: Path) -> None:
    first = await opened(tmp_path, A)
    await first.write([result(1)])
    second = await opened(tmp_path, B)
    assert await second.adopt() == []
    await first.close()  # in good order, but without a receipt
    assert same(await second.adopt(), [result(1)])
    await second.close()
    third = await opened(tmp_path, C)  # adopted, and not delivered either
    assert same(await third.adopt(), [result(1)])
    await third.close()


async def test_the_lock_is_let_go_by_a_killed_process(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, os, signal; from pathlib import Path\n"
        "from tests.executor_sdk.spool.test_file_spool import opened, result, A\n"
        "async def main():\n"
        f"    spool = await opened(Path({str(tmp_path)!r}), A)\n"
        "    await spool.write([result(77)])\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await asyncio.wait_for(process.wait(), 30) == -9
    spool = await opened(tmp_path, B)
    assert same(await spool.adopt(), [result(77)])
    await spool.close()


async def test_file_and_directory_are_synced_before_write_returns(tmp_path: Path) -> None:
    synced: list[str] = []

    def note(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))

    spool = await opened(tmp_path / "deep" / "spool", A, fsync=note)
    home = tmp_path / "deep" / "spool" / A
    assert str(home) in synced  # the directory that names the segment
    assert str(home.parent) in synced
    synced.clear()
    await spool.write([result(1), result(2)])
    assert synced == [str(segments(home.parent, A)[0])]  # once for the batch
    await spool.close()


@pytest.mark.parametrize("cut", [1, 5, 11, 12, 40])
async def test_a_torn_tail_is_skipped(tmp_path: Path, cut: int) -> None:
    first = await opened(tmp_path, A)
    await first.write([result(1)])
    await first.write([result(2)])
    die(first)
    file = segments(tmp_path, A)[0]
    file.write_bytes(file.read_bytes()[:-cut])
    second = await opened(tmp_path, B)
    assert same(await second.adopt(), [result(1)])
    await second.close()


@pytest.mark.parametrize("offset", range(12))
@pytest.mark.parametrize("bit", [0, 7])
async def test_a_flipped_bit_in_a_header_costs_only_its_record(
    tmp_path: Path, offset: int, bit: int
) -> None:
    """Magic, length or checksum: a length of gigabytes must neither be believed nor allocated."""
    first = await opened(tmp_path, A)
    for run in (1, 2, 3):
        await first.write([result(run)])
    die(first)
    file = segments(tmp_path, A)[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 3 + offset] ^= 1 << bit
    file.write_bytes(data)
    second = await opened(tmp_path, B)
    assert same(await second.adopt(), [result(1), result(3)])
    await second.close()


async def test_every_place_at_which_a_write_can_be_torn_leaves_what_was_before(
    tmp_path: Path,
) -> None:
    first = await opened(tmp_path / "whole", A)
    await first.write([result(1)])
    safe = segments(tmp_path / "whole", A)[0].stat().st_size
    await first.write([result(2)])
    die(first)
    whole = segments(tmp_path / "whole", A)[0].read_bytes()
    file = tmp_path / "000001.results"
    for size in range(safe, len(whole)):
        file.write_bytes(whole[:size])
        found, is_kept = spool_segment.read(file)
        assert same(found, [result(1)])
        assert not is_kept


async def test_a_record_of_an_older_sdk_is_delivered(tmp_path: Path) -> None:
    old = b'{"type":"result","run":1,"attempt":2,"token":"t","outcome":"failed","duration_ms":3}'
    (tmp_path / A).mkdir()
    (tmp_path / A / "000001.results").write_bytes(spool_record.pack(old))
    spool = await opened(tmp_path, B)
    (found,) = await spool.adopt()
    assert (found.run, found.retry_after_ms, found.final) == (1, None, False)
    await spool.close()


async def test_what_cannot_be_read_does_not_hold_up_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for process, run in ((A, 1), (C, 3)):
        dead = await opened(tmp_path, process)
        await dead.write([result(run)])
        die(dead)
    (tmp_path / ("b" * 31 + "a") / "lock").mkdir(parents=True)  # no file that could be locked
    (tmp_path / A / "000000.results").mkdir()  # nor one that could be read
    spool = await opened(tmp_path, "d" * 32)
    assert same(await spool.adopt(), [result(1), result(3)])
    assert await spool.adopt() == []
    assert caplog.text.count("cannot be read") == 2  # said once
    spool.remove(result(1))
    await spool.close()
    assert (tmp_path / A / "000000.results").exists()
    third = await opened(tmp_path, B)
    assert same(await third.adopt(), [result(3)])
    await third.close()


async def test_a_record_of_another_version_is_kept_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await opened(tmp_path, A)

    class Newer:
        encode = staticmethod(lambda _: b'{"type":"result","newer":true}')

    monkeypatch.setattr(file_spool, "_encoder", Newer)
    await first.write([result(1)])
    die(first)
    second = await opened(tmp_path, B)
    assert await second.adopt() == []
    assert "cannot be read" in caplog.text
    assert await second.adopt() == []  # and not complained about again
    assert caplog.text.count("cannot be read") == 1
    assert len(list((tmp_path / A).glob("*.unreadable"))) == 1
    await second.close()


async def test_receipts_empty_the_disk(tmp_path: Path) -> None:
    spool = await opened(tmp_path, A, segment_bytes=500)
    for run in range(10):
        await spool.write([result(run)])
    assert len(segments(tmp_path, A)) > 2
    for run in range(10):
        spool.remove(result(run))
        spool.remove(result(run))  # twice is fine
    await wait_until_async(lambda: len(segments(tmp_path, A)) == 1)
    await wait_until_async(lambda: segments(tmp_path, A)[0].stat().st_size == 0)
    await spool.write([result(99)])
    die(spool)
    second = await opened(tmp_path, B)
    assert same(await second.adopt(), [result(99)])
    await second.close()


async def test_a_failed_write_is_an_error_and_what_was_safe_stays_safe(tmp_path: Path) -> None:
    failing = False

    def fsync(file: int) -> None:
        if failing:
            raise OSError(28, "No space left on device")
        os.fsync(file)

    spool = await opened(tmp_path, A, fsync=fsync)
    await spool.write([result(1)])
    failing = True
    with pytest.raises(SpoolError, match="No space left on device"):
        await spool.write([result(2)])
    with pytest.raises(SpoolError):
        await spool.write([])  # a test whether it works again
    failing = False
    await spool.write([result(2), result(3)])
    die(spool)
    second = await opened(tmp_path, B)
    adopted = await second.adopt()
    assert sorted(r.run for r in adopted) == [1, 2, 3]  # each once, though 2 was written twice
    await second.close()


async def test_modes_are_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        spool = await opened(tmp_path / "spool", A)
        await spool.write([result(1)])
    finally:
        os.umask(before)
    for path in (tmp_path / "spool").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    await spool.close()


async def test_other_things_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    spool = await opened(tmp_path, A)
    assert await spool.adopt() == []
    await spool.close()
    assert list((tmp_path / "data").iterdir()) == []
    assert (tmp_path / "notes.txt").read_text() == "mine"


async def test_a_place_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spool = FileSpool(tmp_path / "file" / "spool", A)
    with pytest.raises(SpoolError, match="Not a directory"):
        await spool.open()
