"""Output in all its ugliness, as lines of the run's log."""

from __future__ import annotations

from pathlib import Path

from tickwheel_executor import Run
from tickwheel_executor.offers.children.output import OutputLines
from tickwheel_executor.offers.command import Command
from tickwheel_executor.testing import HandlerEnd, run_handler
from tickwheel_shared.protocol import MAX_LINE_CHARS, Level

from .running import CHILDREN, offered, shell


async def written(*pieces: bytes) -> HandlerEnd:
    """What becomes of these reads of a pipe."""

    async def handler(run: Run) -> str:
        output = OutputLines(run, Level.INFO)
        for piece in pieces:
            output.feed(piece)
        output.finish()
        return output.last_lines(2)

    return await run_handler(handler)


async def test_lines_are_put_together_from_pieces_of_any_size() -> None:
    text = "first\n\nsecond ü €\nthird\r\nlast"
    data = text.encode()
    for size in (1, 3, len(data)):
        end = await written(*(data[at : at + size] for at in range(0, len(data), size)))
        lines = [line for line in end.lines() if line]
        assert lines == ["first", "second ü €", "third", "last"], size
        assert end.result == "third\nlast"


async def test_what_is_no_text_is_shown_as_far_as_it_goes() -> None:
    end = await written(b"\xff\xfe bad\nnul\x00\n\x1b[31mred\x1b[0m\n50%\r100%\r\nend\r")
    assert end.lines() == ["\ufffd\ufffd bad", "nul\ufffd", "\x1b[31mred\x1b[0m", "100%", "end"]
    assert end.result == "100%\nend"


async def test_a_line_without_end_is_cut_and_takes_no_memory() -> None:
    end = await written(*[b"x" * 65_536] * 50, b"y\nnext\n", b"z" * 20_000 + b"\n")
    first, second, third = end.lines()
    assert (len(first), second, len(third)) == (MAX_LINE_CHARS, "next", MAX_LINE_CHARS)
    assert third.endswith("… [cut, 20000 characters]")


async def test_a_secret_is_in_no_line_and_no_message() -> None:
    secret, lines = "hunter2-hunter2", "word " * 400
    text = f"printf hunter2-; sleep 0.1; echo hunter2; echo '{lines}{secret}'; echo {secret} >&2; "
    for command in (text, f"for i in $(seq 300); do echo {secret} >&2; done; "):
        end = await shell(f"{command} exit 1", secrets=[secret])
        assert not end.succeeded
        assert all("hunter2" not in each for each in (*end.lines(), end.message))
        assert "•••" in end.message


async def test_progress_is_taken_out_of_the_output() -> None:
    end = await written(
        b"a\n::progress 0.5 half of it::\nb\n::progress 0.",
        b"75::\r\n::progress 7 done::\n::progress x::\n ::progress 0.1::\n::progress 1.2.3::\n",
    )
    assert end.progress == [(0.5, "half of it"), (0.75, ""), (1.0, "done")]
    assert end.lines() == ["a", "b", "::progress x::", " ::progress 0.1::", "::progress 1.2.3::"]


async def test_both_streams_are_read_to_their_end() -> None:
    end = await shell("printf out; printf err >&2; exec >&-; printf more >&2")
    assert (end.lines("info"), end.lines("warning")) == (["out"], ["errmore"])


async def test_a_flood_is_counted_and_not_kept(tmp_path: Path) -> None:
    argv = ["sh", "-c", "yes 0123456789 | head -c 110000000; echo '::progress 1 all::'"]
    async with offered(tmp_path, Command(children=CHILDREN), max_log_mb=1) as admin:
        run = await admin.begin("command", {"argv": argv})
        end = await run.end()
    kept = sum(1 for line in end.lines() if line == "0123456789")
    *_, full, last = [line for line in end.log if line.text != "0123456789"]
    assert end.succeeded
    assert kept == 1024 * 1024 // 20  # no line counts less
    assert full.text.startswith("the log is full, further lines are left out")
    assert last.text.startswith(f"{10_000_000 - kept:,} lines were left out")
    assert end.progress[-1] == (1.0, "all")
