"""Scripts of `tickwheel completion`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.admin.cli.client.scripted import Scripted
from tests.support.references.cli_reference import PAGE
from tickwheel_admin.cli import main
from tickwheel_admin.cli.client import exit_codes
from tickwheel_admin.cli.client.completion.bash import bash_script, zsh_script
from tickwheel_admin.cli.client.completion.fish import fish_script
from tickwheel_admin.cli.client.completion.tree import commands_of
from tickwheel_admin.cli.commands import make_parser

_TRY = """
tickwheel() {
    [ "$1 $2 $3" = "completion names job" ] && printf 'shop/a b\\nshop/report\\nshop/c:d\\n'
}
for line in "$@"; do
    IFS=, read -ra COMP_WORDS <<< "$line,"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _tickwheel
    (IFS=,; echo "${COMPREPLY[*]}")
done
"""


def test_bash_completes_commands_flags_values_and_names(tmp_path: Path) -> None:
    script = tmp_path / "complete.bash"
    script.write_text(bash_script(commands_of(make_parser())) + _TRY)
    wanted = {
        "tickwheel,jo": "job",
        "tickwheel,run,st": "start",
        "tickwheel,run,list,--state,f": "failed,failed_any",
        "tickwheel,run,list,-o,": "table,json,yaml",
        "tickwheel,job,show,-o,json,shop/": "shop/a\\ b,shop/report,shop/c:d",
        "tickwheel,job,show,shop/a\\ ": "shop/a\\ b",
        "tickwheel,job,show,'shop/a ": "shop/a b",
        "tickwheel,job,show,shop/c,:": "d",
        "tickwheel,job,show,shop/c,:,d": "d",
        "tickwheel,run,list,--state,=,canc": "cancelled",
        "tickwheel,run,list,--job,shop/r": "shop/report",
        "tickwheel,executor,token,": "rotate,end-old",
        "tickwheel,user,add,--exe": "--executor",
        "tickwheel,completion,": "bash,zsh,fish",
        "tickwheel,secret,set,shop,--prof": "--profile",
        "tickwheel,run,start,report,--cancel": "--cancel-on-interrupt",
    }
    done = subprocess.run(
        ["bash", str(script), *wanted], capture_output=True, text=True, check=True, timeout=30
    )
    assert dict(zip(wanted, done.stdout.splitlines(), strict=True)) == wanted


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("evil", r"evil\$\(touch\ ran\)\`touch\ ran\`"), ('"evil', r"evil\$(touch ran)\`touch ran\`")],
)
def test_bash_runs_nothing_that_is_in_a_name(typed: str, wanted: str, tmp_path: Path) -> None:
    script = tmp_path / "complete.bash"
    evil = "tickwheel() { echo 'evil$(touch ran)`touch ran`'; }\n"
    ask = 'COMP_WORDS=(tickwheel job show "$1"); COMP_CWORD=3; _tickwheel; echo "$COMPREPLY"\n'
    script.write_text(bash_script(commands_of(make_parser())) + evil + ask)
    done = subprocess.run(
        ["bash", str(script), typed],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == (f"{wanted}\n", "")
    # What was completed names the job and does not run it, once it is entered.
    entered = typed[:1].strip("e") + wanted + typed[:1].strip("e")
    subprocess.run(["bash", "-c", f": {entered}"], check=True, timeout=30, cwd=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_zsh_quotes_names_as_bash_does(tmp_path: Path) -> None:
    if shutil.which("zsh") is None:
        return  # what it makes of the script is seen where it is installed
    script = tmp_path / "complete.zsh"
    names = "tickwheel() { echo 'shop/a$(touch ran)'; echo 'shop/c:d' }\n"
    ask = '_tickwheel; print -rl -- "${COMPREPLY[@]}"\n'
    words = "emulate -R ksh; COMP_WORDS=(tickwheel job show shop/); COMP_CWORD=3\n"
    script.write_text(zsh_script(commands_of(make_parser())) + names + words + ask)
    done = subprocess.run(
        ["zsh", "-f", str(script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        cwd=tmp_path,
    )
    wanted = ["shop/a\\$\\(touch\\ ran\\)", "shop/c:d"]
    assert (done.stdout.splitlines(), done.stderr) == (wanted, "")
    assert not (tmp_path / "ran").exists()


def test_fish_has_every_command_and_flag_with_its_help() -> None:
    script = fish_script(commands_of(make_parser()))
    assert "complete -c tickwheel -n '__tickwheel_at \\'run\\'' -a 'start' -d 'start one" in script
    assert "-l follow -d 'print its log meanwhile (implies --wait)'" in script
    assert "-l job -x -a '(tickwheel completion names job 2>/dev/null)'" in script
    assert "completion names'" not in script
    if shutil.which("fish") is None:
        return  # what it makes of the script is seen where it is installed
    script += """
function tickwheel; printf 'shop/report\\n'; end
for line in 'run start -p x=1 --wait-' 'run list --state canc' 'job show -o json shop/r'
    complete -C "tickwheel $line"
end
"""
    done = subprocess.run(
        ["fish", "--no-config"], input=script, capture_output=True, text=True, timeout=30
    )
    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert (found, done.stderr) == (["--wait-timeout", "cancelled", "shop/report"], "")


def test_names_come_from_the_server_or_not_at_all(
    admin: Scripted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [{"executor_name": "shop", "config": {"name": name}} for name in ("a", "b\x1b")]
    admin.will((200, {"items": jobs, "next": None}), (503, "busy"))
    assert main(["completion", "names", "job"]) == 0
    assert capsys.readouterr() == ("shop/a\n", "")
    assert main(["completion", "names", "executor"]) == 1
    monkeypatch.delenv("TICKWHEEL_URL")
    assert main(["completion", "names", "pool"]) == 1
    assert capsys.readouterr() == ("", "")


def test_the_page_about_commands_tells_every_exit_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for code in {*exit_codes.BY_OUTCOME.values(), exit_codes.NOT_ENDED, exit_codes.INTERRUPTED}:
        assert re.search(rf"^\|[^|]*\b{code}\b", page, re.MULTILINE), code
