"""Output in all its ugliness, as lines of the run's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwheel_executor import Run
from tickwheel_executor.offers.children.output import OutputLines
from tickwheel_executor.offers.command import Command
from tickwheel_executor.testing import HandlerEnd, run_handler
from tickwheel_shared.protocol import MAX_LINE_CHARS, Level

from .running import CHILDREN, offered, shell

PYTHON = """Traceback (most recent call last):
  File "/tmp/r/script.py", line 9, in <module>
    main()
  File "/tmp/r/script.py", line 4, in main
    json.loads("{")
    ^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode
    obj, end = self.raw_decode(s)
ValueError: line 77 of script"""
NODE = """/tmp/r/script.js:3
  return null.x;
         ^

TypeError: no
    at inner (/tmp/r/script.js:3:15)
    at outer (/tmp/r/script.js:5:1)
    at Object.<anonymous> (/tmp/r/script.js:8:1)
    at middle (/usr/share/x.js:8:1)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)
    at node:internal/main/run_main_module:28:49

Node.js v20.20.2"""
RUBY = """/tmp/r/script.rb:2:in `a': no (RuntimeError)
\tfrom /tmp/r/script.rb:3:in `b'
\tfrom /tmp/r/script.rb:4:in `c'
\tfrom /tmp/r/script.rb:5:in `d'
\tfrom /tmp/r/script.rb:6:in `e'
\tfrom /tmp/r/script.rb:7:in `<main>'"""


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


@pytest.mark.parametrize(
    ("file", "told", "begins"),
    [
        (
            "script.py",
            PYTHON,
            ["ValueError: line 77 of script", 'File "/tmp/r/script.py", line 4, in main', "…"],
        ),
        (
            "script.py",
            'File "/tmp/r/script.py", line 2\n    if\n    ^^\nSyntaxError: bad',
            ["SyntaxError: bad", 'File "/tmp/r/script.py", line 2', "if"],
        ),
        ("script.py", "nothing\n" * 9, ["nothing"] * 5),
        ("script.py", "", []),
        ("script.js", NODE, ["TypeError: no", "/tmp/r/script.js:3", "…"]),
        (
            "script.js",
            f"at x (/tmp/r/script.js:1:1)\n{NODE}",
            ["TypeError: no", "/tmp/r/script.js:3", "…"],
        ),
        ("script.rb", RUBY, ["/tmp/r/script.rb:2:in `a': no (RuntimeError)", "…"]),
        ("", PYTHON, ['File "/usr/lib/python3.11/json/__init__.py", line 346, in loads']),
    ],
)
async def test_a_long_traceback_keeps_what_was_raised_and_the_place_in_the_script(
    file: str, told: str, begins: list[str]
) -> None:
    async def handler(run: Run) -> str:
        output = OutputLines(run, Level.WARNING)
        output.feed(told.encode() + b"\n")
        return output.last_lines(5, traced=file)

    lines = str((await run_handler(handler)).result).splitlines()
    assert lines[: len(begins)] == begins
    assert len(lines) <= 7
    assert len(set(lines)) == len(lines) or "nothing" in lines
    assert not [line for line in lines if line.startswith(("^", "Node.js", "at Module"))]


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
