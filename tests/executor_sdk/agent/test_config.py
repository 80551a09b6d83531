"""The agent's configuration file: everything that is wrong, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickwheel_executor import ConfigurationError
from tickwheel_executor.agent.config import read_config
from tickwheel_executor.agent.example import EXAMPLE

TOKEN = "t" * 40


def read(tmp_path: Path, text: str, **environ: str) -> list[str]:
    """The problems of a file with this text."""
    path = tmp_path / "agent.toml"
    path.write_text(text)
    try:
        read_config(path, environ)
    except ConfigurationError as error:
        return list(error.problems)
    return []


def test_every_problem_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    problems = read(
        tmp_path,
        """
        [agent]
        admins = ["ftp://a"]
        slots = 0
        token_file = "/no/such/file"
        colour = "red"
        [children]
        run_as = "nobody-of-this-name"
        memory_mb = "much"
        cgroups = "atuo"
        [script]
        languages = ["shell", "cobol"]
        interpreters = { lua = ["lua"] }
        public_keys = ["x"]
        [command]
        directories = []
        [htp]
        """,
        TICKWHEEL_EXECUTOR="",
    )
    assert sorted(problem.partition(":")[0] for problem in problems) == [
        *("agent",) * 3,  # no executor, no token, an admin that is no URL
        *("agent.colour", "agent.slots", "agent.token_file"),
        *("children.cgroups", "children.memory_mb", "children.run_as"),
        *("command.programs", "htp"),
        *("script.interpreters.lua", "script.languages", "script.public_keys"),
    ]
    assert "did you mean [http]?" in problems[0]
    assert all(len(problem) < 300 for problem in problems)


def test_nothing_is_offered_that_the_file_does_not_offer(tmp_path: Path) -> None:
    text = f'[agent]\nadmins = ["http://a"]\nexecutor = "crm"\ntoken = "{TOKEN}"\n'
    [problem] = read(tmp_path, text)
    assert problem.startswith("nothing is offered; add at least one section of [script], [command]")
    path = tmp_path / "agent.toml"
    path.write_text(text + '[script]\nlanguages = ["shell"]\n')
    config = read_config(path, {})
    assert list(config.make_executor().handlers) == ["script"]


def test_the_environment_completes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    environ = {
        "TICKWHEEL_ADMINS": "http://a,http://b",
        "TICKWHEEL_EXECUTOR": "crm",
        "TICKWHEEL_TOKEN_FILE": str(file),
    }
    path = tmp_path / "agent.toml"
    path.write_text(
        f"""
        [http]
        [sql.connections.crm]
        url = "sqlite:///{tmp_path}/crm.db"
        [file.roots]
        data = "{tmp_path}"
        [command]
        programs = ["*"]
        """
    )
    config = read_config(path, environ)
    assert (config.executor, config.admins) == ("crm", ("http://a", "http://b"))
    assert list(config.make_executor().handlers) == ["command", "http", "sql", "file"]


def test_the_example_is_valid_but_for_its_token(tmp_path: Path) -> None:
    missing, no_token = read(tmp_path, EXAMPLE)
    assert missing.startswith("agent.token_file: /etc/tickwheel/agent.token cannot be read")
    assert no_token.startswith("agent: no token")


@pytest.mark.parametrize(
    ("text", "message"),
    [("[agent", "cannot be read"), ("agent = 3\n[script]\nlanguages=['shell']", "write a table")],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    problems = read(tmp_path, text)
    assert any(message in problem for problem in problems), problems
