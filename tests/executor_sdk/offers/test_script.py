"""The offer `script`: languages, hashes, signatures, and what a script may not do."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.availability import unavailable
from tickwheel_executor import ConfigurationError
from tickwheel_executor.offers.script import Script
from tickwheel_executor.offers.script_pins import signed_text
from tickwheel_executor.testing import HandlerEnd, run_handler
from tickwheel_shared.protocol import RunScript as Source

from .running import CHILDREN, shell, source

# The same in every language: arguments, standard input, a variable, errors, a result, an exit code.
PROGRAMS = {
    "shell": 'printf "%s|" "$@" "$(cat)" "$COLOUR"; echo; echo bad >&2; '
    'echo \'{"n": 1}\' > "$TICKWHEEL_RESULT"; exit 3',
    "python": "import os, sys\nprint(*sys.argv[1:], sys.stdin.read(), os.environ['COLOUR'], '', "
    "sep='|')\nprint('bad', file=sys.stderr)\n"
    "open(os.environ['TICKWHEEL_RESULT'], 'w').write('{\"n\": 1}')\nsys.exit(3)",
    "node": "const fs = require('fs');\nconst all = [...process.argv.slice(2), "
    "fs.readFileSync(0, 'utf8'), process.env.COLOUR, ''];\nconsole.log(all.join('|'));\n"
    "console.error('bad');\nfs.writeFileSync(process.env.TICKWHEEL_RESULT, '{\"n\": 1}');\n"
    "process.exitCode = 3;",
    "perl": 'my $in = join "", <STDIN>; print join("|", @ARGV, $in, $ENV{COLOUR}, ""), "\\n"; '
    'warn "bad\\n"; open my $f, ">", $ENV{TICKWHEEL_RESULT}; print $f "{\\"n\\": 1}"; '
    "close $f; exit 3",
    "php": '<?php echo implode("|", [...array_slice($argv, 1), stream_get_contents(STDIN), '
    'getenv("COLOUR"), ""]), "\\n"; fwrite(STDERR, "bad\\n"); '
    'file_put_contents(getenv("TICKWHEEL_RESULT"), "{\\"n\\": 1}"); exit(3);',
    "ruby": 'puts [*ARGV, STDIN.read, ENV["COLOUR"], ""].join("|"); warn "bad"; '
    'File.write(ENV["TICKWHEEL_RESULT"], "{\\"n\\": 1}"); exit 3',
}
ATTACKS = ["$(id)", "; id", "-e", "--help", "{directory}", 'a"b', "ü x"]


async def run(offer: Script, script: Source, **parameters: Any) -> HandlerEnd:
    return await run_handler(offer.run, "script", parameters=parameters, script=script)


@pytest.mark.parametrize("language", PROGRAMS)
async def test_every_language_gets_the_same(language: str) -> None:
    try:
        offer = Script(languages=(language,), children=CHILDREN)
    except ConfigurationError:
        unavailable(f"there is no interpreter for {language}")
    end = await run(
        offer,
        source(language, PROGRAMS[language]),
        arguments=ATTACKS,
        stdin="in",
        environment={"COLOUR": "red"},
        skip_exit_code=4,
    )
    assert end.lines("info") == ["|".join([*ATTACKS, "in", "red", ""])]
    assert end.lines("warning") == ["bad"]
    assert (end.outcome, end.message) == ("failed", "exit code 3: bad")


async def test_an_owner_can_name_any_interpreter(tmp_path: Path) -> None:
    program = tmp_path / "backwards {0}"
    program.write_text('#!/bin/sh\necho "$1 $3"; rev "$2"\n')
    program.chmod(0o755)
    interpreters = {"backwards": [str(program), "--flag"]}
    offer = Script(languages=("backwards",), children=CHILDREN, interpreters=interpreters)
    assert (await run(offer, source("backwards", "abc"), arguments=["x"])).lines() == [
        "--flag x",
        "cba",
    ]


async def test_only_languages_of_the_owner_run() -> None:
    offer = Script(languages=("perl",))
    end = await run(offer, source("shell", "id"))
    assert (end.final, end.log) == (True, [("error", f"Fail: {end.message}")])
    assert end.message == "this machine runs no shell scripts; its owner allows: perl"
    assert "has no script" in (await run_handler(offer.run, "script")).message


async def test_a_script_that_was_changed_does_not_run() -> None:
    changed = Source("shell", "rm -rf /", source("shell", "ls").sha256)
    end = await run(Script(languages=("shell",), children=CHILDREN), changed)
    assert (end.outcome, end.final) == ("failed", True)
    assert end.message.startswith("the script's hash is not that of its text")


async def test_only_known_or_signed_scripts_run_where_the_owner_says_so(tmp_path: Path) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    raw = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    pem = tmp_path / "key.pem"
    pem.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    hashes = tmp_path / "hashes"
    hashes.write_text(f"# known\n{source('shell', 'echo known').sha256}  clean-up\n\n")

    def signed(language: str, text: str, by: Ed25519PrivateKey) -> Source:
        sign = by.sign(signed_text(language, source(language, text).sha256))
        return source("shell", text, signature=base64.b64encode(sign).decode())

    good = signed("shell", "echo signed", key)
    bad = {
        "it is not signed": source("shell", "echo signed"),
        "by none of the allowed keys": signed("shell", "echo signed", other),
        "its signature is": signed("python", "echo signed", key),  # of another language
        "its signature": Source(
            "shell", "echo x", source("shell", "echo x").sha256, good.signature
        ),
        "signature is by none": source("shell", "echo signed", signature="not base64!"),
    }
    for public_key in (raw, str(pem)):
        offer = Script(languages=("shell",), children=CHILDREN, public_keys=(public_key,))
        assert (await run(offer, good)).lines() == ["signed"]
        for message, script in bad.items():
            end = await run(offer, script)
            assert (end.outcome, end.final, message in end.message) == ("failed", True, True)
    offer = Script(
        languages=("shell",), children=CHILDREN, public_keys=(raw,), hashes_file=str(hashes)
    )
    for script in (good, source("shell", "echo known")):
        assert (await run(offer, script)).succeeded
    offer = Script(languages=("shell",), children=CHILDREN, hashes_file=str(hashes))
    assert "is not in" in (await run(offer, good)).message
    hashes.write_text(good.sha256)  # the owner changes it while the agent runs
    assert (await run(offer, good)).succeeded
    hashes.write_text("nonsense")
    assert "cannot be read: line 1" in (await run(offer, good)).message


def test_a_key_may_begin_as_a_path_does() -> None:
    key = base64.b64encode(bytes([0xFC] + [1] * 31)).decode()
    assert key.startswith("/")
    Script(languages=("shell",), public_keys=(key,))  # raises for a path that does not exist


def test_keys_and_files_that_cannot_be_used_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Script(
            languages=("shell", "cobol"),
            interpreters={"shell": ["/no/such/shell"]},
            hashes_file=str(tmp_path / "absent"),
            public_keys=("QUJD", "/no/such/key.pem"),
        )
    assert len(raised.value.problems) == 5


async def test_the_source_is_private_and_gone_afterwards() -> None:
    end = await shell('stat -c "%a %n" "$0" "${0%/*}" .; echo "$0"; ls "${0%/*}"')
    file, directory, work, path, *names = end.lines()
    assert (file[:3], directory[:3], work) == ("600", "700", "700 .")
    assert names == ["script.sh", "work"]
    assert not Path(path).parent.exists()


async def test_a_directory_that_resists_is_removed() -> None:
    text = """
    mkdir -p $(printf 'd/%.0s' $(seq 300)); mkdir closed; touch closed/x; chmod 0 closed
    ln -s /etc link; mkfifo pipe
    mkdir -p "$TICKWHEEL_CHECKPOINT/x"; pwd
    """
    end = await shell(text)
    [path] = end.lines("info")
    assert not Path(path).parent.exists()
    assert Path("/etc/passwd").exists()  # noqa: ASYNC240 (likewise)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('ln -s /etc/passwd "$TICKWHEEL_RESULT"', "it is a symbolic link"),
        ('mkfifo "$TICKWHEEL_RESULT"', "it is not an ordinary file"),
        ('mkdir "$TICKWHEEL_RESULT"', "it is not an ordinary file"),
        ('echo 1 > a; ln a "$TICKWHEEL_RESULT"', "it is a file of somebody else"),
        ('printf "\\377" > "$TICKWHEEL_RESULT"', "it is not UTF-8"),
        ('truncate -s 1G "$TICKWHEEL_RESULT"', "it has 1,073,741,824 bytes"),
    ],
)
async def test_a_result_is_never_read_through_a_link(text: str, problem: str) -> None:
    end = await shell(text)
    assert (end.outcome, end.result) == ("failed", None)
    assert end.message == f"$TICKWHEEL_RESULT cannot be read: {problem}"
