"""Which line of a script failed, in the words of each language."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.runs.script_line import failing_line

PYTHON = """exit code 1
Traceback (most recent call last):
  File "/var/lib/tickwheel/r7/script.py", line 9, in <module>
    main()
  File "/var/lib/tickwheel/r7/script.py", line 4, in main
    json.loads("{")
  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
    return _default_decoder.decode(s)
ValueError: line 77 of script"""
NODE = """/tmp/x/script.js:3
throw new Error("no")
    at main (/tmp/x/script.js:3:7)
    at Object.<anonymous> (/tmp/x/script.js:8:1)"""


@pytest.mark.parametrize(
    ("language", "message", "line"),
    [
        ("python", PYTHON, 4),
        ("python", 'File "/tmp/x/script.py", line 2\n    if\n     ^\nSyntaxError', 2),
        ("shell", "exit code 127: /tmp/x/script.sh: 3: frobnicate: not found", 3),
        ("shell", "/tmp/x/script.sh: line 6: frobnicate: command not found", 6),
        ("perl", "Can't open x at /tmp/x/script.pl line 5.", 5),
        ("php", "PHP Fatal error: Uncaught Error in /tmp/x/script.php:3\n on line 7", 3),
        ("php", "PHP Warning: fopen() in /tmp/x/script.php on line 7", 7),
        ("ruby", "/tmp/x/script.rb:2:in `a': no (RuntimeError)\n from /tmp/x/script.rb:9", 2),
        ("node", NODE, 3),
        ("powershell", "At /tmp/x/script.ps1:5 char:3", 5),
        ("shell", "/tmp/x/script.sh: line 400: x", None),  # it has no such line
        ("shell", "myscript.sh: line 3: x", None),
        ("python", "exit code 3", None),
        ("python", None, None),
    ],
)
def test_the_failing_line(language: str, message: str | None, line: int | None) -> None:
    assert failing_line(language, message, lines=20) == line
