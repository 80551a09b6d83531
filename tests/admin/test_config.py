"""Configuration: where values come from, and how every mistake is told at once."""

from __future__ import annotations

import base64
import dataclasses
from ipaddress import ip_network
from pathlib import Path

import pytest

from tickwheel_admin.config import Config, ConfigError, LogFormat, LogLevel, load_config
from tickwheel_shared import otel

ROOT = Path(__file__).parent.parent.parent


def write(directory: Path, text: str) -> Path:
    file = directory / "tickwheel.toml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(
    flags: dict[str, object] | None = None,
    *,
    file: Path | None = None,
    **environment: str,
) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        load_config(flags, file=file, environment=environment)
    return refusal.value.problems


def test_without_settings_it_is_an_embedded_admin_for_this_machine_alone() -> None:
    config = load_config(environment={"XDG_DATA_HOME": "/srv/data"})

    assert config.data_dir == Path("/srv/data/tickwheel")
    assert config.database_url == "sqlite:////srv/data/tickwheel/tickwheel.db"
    assert config.is_embedded
    assert (config.host, config.port) == ("127.0.0.1", 8500)
    assert config.public_url == "http://127.0.0.1:8500"
    assert config.retention_days == 30
    assert config.trusted_proxies == ()


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'port = 1001\nhost = "127.0.0.2"\nname = "from-file"')
    environment = {"TICKWHEEL_PORT": "1002", "TICKWHEEL_HOST": "127.0.0.3"}

    config = load_config({"port": 1003, "host": None}, file=file, environment=environment)

    assert (config.port, config.host, config.name) == (1003, "127.0.0.3", "from-file")


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "retention_days = 7")

    assert load_config(environment={"TICKWHEEL_CONFIG": str(file)}).retention_days == 7


def test_every_problem_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path, 'prot = 1\nretention_days = 0\ncolour = "red"')

    found = problems({"host": ""}, file=file, TICKWHEEL_PORT="70000", TICKWHEEL_LOG_LEVEL="loud")

    assert found == [
        f"{file}: prot: unknown setting; did you mean port?",
        f"{file}: colour: unknown setting; known are: {', '.join(_names())}",
        "--host: must be a text of 1 to 200 printable characters",
        "TICKWHEEL_PORT: must be a whole number from 1 to 65535",
        f"{file}: retention_days: must be a whole number from 1 to 36500",
        "TICKWHEEL_LOG_LEVEL: must be one of debug, info, warning, error",
    ]


def test_a_misspelt_variable_is_told_but_other_programs_are_left_alone() -> None:
    assert problems(TICKWHEEL_PUBLIC_URI="http://x") == [
        "TICKWHEEL_PUBLIC_URI: unknown setting; did you mean TICKWHEEL_PUBLIC_URL?"
    ]
    kubernetes = {"TICKWHEEL_PORT": "tcp://10.0.0.1:8500", "TICKWHEEL_SERVICE_HOST": "10.0.0.1"}
    sdk = {"TICKWHEEL_TOKEN": "x", "TICKWHEEL_ADMINS": "http://a", "TICKWHEEL_EXECUTOR": "demo"}
    assert load_config(environment=kubernetes | sdk).port == 8500
    prefix, port = "TICKWHEEL_METRICS_", "tcp://10.0.0.2:9464"
    of_metrics = {
        f"{prefix}PORT": port,
        f"{prefix}SERVICE_HOST": "10.0.0.2",
        f"{prefix}SERVICE_PORT": "9464",
        f"{prefix}PORT_9464_TCP": port,
        f"{prefix}PORT_9464_TCP_PROTO": "tcp",
        f"{prefix}PORT_9464_TCP_PORT": "9464",
        f"{prefix}PORT_9464_TCP_ADDR": "10.0.0.2",
    }
    assert load_config(environment=of_metrics).metrics_port is None


@pytest.mark.parametrize(
    "text", ["port = ", "= 1", "\xff", "[port]\nx = 1", 'port = "x"', "port = true", "port = 1.5"]
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tickwheel.toml"
    file.write_bytes(text.encode("latin-1"))

    [problem] = problems(file=file)
    assert problem.startswith(str(file))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    assert problems(file=tmp_path / "none.toml") == [
        f"{tmp_path / 'none.toml'}: cannot be read: No such file or directory"
    ]


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("mysql://user:hunter2@db/tickwheel", "did you mean mysql+pymysql://…?"),
        ("postgres://user:hunter2@db/tickwheel", "did you mean postgresql+psycopg://…?"),
        ("hunter2", "is not a database URL"),
        ("sqlite://", "must name a file"),
        ("sqlite:///:memory:", "must name a file"),
    ],
)
def test_bad_database_urls_are_explained_without_their_password(url: str, complaint: str) -> None:
    [problem] = problems(TICKWHEEL_DATABASE_URL=url)

    assert complaint in problem
    assert "hunter2" not in problem


def test_the_password_in_the_database_url_is_not_shown_by_accident() -> None:
    config = load_config(
        environment={"TICKWHEEL_DATABASE_URL": "mysql+pymysql://u:hunter2@db/tickwheel"}
    )

    assert not config.is_embedded
    assert "hunter2" not in f"{config!r} {config}"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("https://tickwheel.example/", "https://tickwheel.example"),
        ("http://10.0.0.1:8500", "http://10.0.0.1:8500"),
        ("http://[::1]:8500", "http://[::1]:8500"),
    ],
)
def test_public_urls_are_made_uniform(given: str, taken: str) -> None:
    assert load_config({"public_url": given}, environment={}).public_url == taken


@pytest.mark.parametrize(
    "given",
    ["", "tickwheel.example", "ftp://x", "http://u:p@x", "http://x/path", "http://x?q", "http://["],
)
def test_other_public_urls_are_refused(given: str) -> None:
    assert problems({"public_url": given})


def test_an_admin_on_every_address_is_reached_by_its_name() -> None:
    for host in ("0.0.0.0", "::"):
        url = load_config({"host": host}, environment={}).public_url
        assert "0.0.0.0" not in url
        assert "[::]" not in url


def test_proxies_are_networks() -> None:
    config = load_config(environment={"TICKWHEEL_TRUSTED_PROXIES": "10.0.0.0/8, ::1"})

    assert config.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("::1"))
    assert problems(TICKWHEEL_TRUSTED_PROXIES="10.0.0.1/8")
    assert problems(TICKWHEEL_TRUSTED_PROXIES="nginx")


def test_enumerations_are_read(tmp_path: Path) -> None:
    file = write(tmp_path, 'log_format = "JSON"\nlog_level = "debug"')
    config = load_config(file=file, environment={})

    assert (config.log_format, config.log_level) == (LogFormat.JSON, LogLevel.DEBUG)


def test_the_object_cannot_be_changed() -> None:
    config = load_config(environment={})
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.port = 1  # type: ignore[misc]


def test_every_setting_is_explained_in_the_docs() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")

    for name in _names():
        assert f"`{name}`" in text
        assert f"`TICKWHEEL_{name.upper()}`" in text


def _names() -> list[str]:
    """Of settings; `given_at` only tells where their values come from."""
    return [each.name for each in dataclasses.fields(Config) if each.name != "given_at"]


def test_a_provider_for_logins_is_read_whole() -> None:
    config = load_config(
        {"public_url": "http://10.0.0.1:8500"},
        environment={
            "TICKWHEEL_CONSOLE_URL": "https://jobs.example",
            "TICKWHEEL_OIDC_ISSUER": "https://sso.example/realms/main",
            "TICKWHEEL_OIDC_CLIENT_ID": "tickwheel",
            "TICKWHEEL_OIDC_CLIENT_SECRET": "hidden",
            "TICKWHEEL_OIDC_ROLES": "ops=operator@billing, admins=admin",
            "TICKWHEEL_PASSWORD_LOGIN": "false",
        },
    )

    assert config.oidc is not None
    assert config.oidc.redirect_url == "https://jobs.example/login/oidc/callback"
    assert [(rule.group, rule.grant.role, rule.executor) for rule in config.oidc.roles] == [
        ("ops", "operator", "billing"),
        ("admins", "admin", None),
    ]
    assert config.oidc.username_claim == "preferred_username"
    assert not config.password_login
    assert config.is_public_over_tls  # browsers come to the console's address
    assert "hidden" not in repr(config) + repr(config.oidc)


def test_groups_with_commas_come_as_a_list(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        'oidc_issuer = "https://sso.example"\noidc_client_id = "x"\n'
        'oidc_roles = ["cn=ops,ou=it=developer+scripts"]',
    )

    (rule,) = load_config(file=file, environment={}).oidc_roles

    assert (rule.group, rule.grant.role, rule.grant.scripts) == ("cn=ops,ou=it", "developer", True)


@pytest.mark.parametrize(
    ("setting", "value", "problem"),
    [
        ("OIDC_ISSUER", "http://sso.example", "must be the https:// address of the provider"),
        ("OIDC_ISSUER", "https://sso.example?x=1", "must be the https:// address of the provider"),
        ("OIDC_ISSUER", "https://user@sso.example", "must be the https:// address"),
        ("OIDC_ROLES", "ops", "'ops' must be group=role"),
        ("OIDC_ROLES", "ops=root", "'ops=root' has no role of viewer, operator"),
        ("OIDC_ROLES", "ops=viewer@", "'ops=viewer@' must be group=role"),
        ("OIDC_ROLES", "ops=viewer+scripts", "scripts go with the roles developer and admin"),
        ("PASSWORD_LOGIN", "perhaps", "must be true or false"),
    ],
)
def test_what_is_wrong_about_logins_is_told(setting: str, value: str, problem: str) -> None:
    given = {"OIDC_ISSUER": "http://127.0.0.1:9000", "OIDC_CLIENT_ID": "x"} | {setting: value}

    (found,) = problems(**{f"TICKWHEEL_{name}": text for name, text in given.items()})

    assert found.startswith(f"TICKWHEEL_{setting}: ")
    assert problem in found


def test_settings_about_logins_must_fit_together() -> None:
    assert problems(TICKWHEEL_OIDC_ISSUER="https://sso.example") == [
        "oidc_client_id: is needed with oidc_issuer: the name that the provider knows"
    ]
    assert problems(TICKWHEEL_OIDC_ROLES="a=admin", TICKWHEEL_PASSWORD_LOGIN="no") == [
        "oidc_roles: means nothing without oidc_issuer",
        "password_login: false without oidc_issuer would let nobody in",
    ]


KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.urlsafe_b64encode(bytes(range(200, 232))).decode()


def test_the_first_secret_key_is_the_new_one() -> None:
    config = load_config(environment={"TICKWHEEL_SECRET_KEY": f"{OTHER_KEY},{KEY}"})

    assert config.secret_key == (bytes(range(200, 232)), bytes(range(32)))
    assert KEY not in repr(config)


def test_secret_keys_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY + "\n" + OTHER_KEY + "\n")

    config = load_config(environment={"TICKWHEEL_SECRET_KEY_FILE": str(file)})

    assert len(config.secret_key) == 2


def test_every_problem_of_secret_keys_is_told_and_no_key(tmp_path: Path) -> None:
    found = problems(
        TICKWHEEL_SECRET_KEY=f"{KEY},short,{KEY},{base64.b64encode(bytes(32)).decode()}"
    )

    assert len(found) == 1
    for text in ("key 2 is not 32 bytes", "key 3 is there twice", "key 4 is not random"):
        assert text in found[0]
    assert KEY not in found[0]
    assert "short" not in found[0]
    missing = str(tmp_path / "missing")
    assert "No such file" in problems(TICKWHEEL_SECRET_KEY_FILE=missing)[0]
    both = problems(TICKWHEEL_SECRET_KEY=KEY, TICKWHEEL_SECRET_KEY_FILE=missing)
    assert "give one of them" in both[0]


def test_networks_that_are_never_called_are_refused() -> None:
    assert ip_network("10.0.0.0/8") in load_config(environment={}).xxl_job_networks
    config = load_config(environment={"TICKWHEEL_XXL_JOB_NETWORKS": "203.0.113.0/24 0.0.0.0/0"})
    assert config.xxl_job_networks == (ip_network("203.0.113.0/24"), ip_network("0.0.0.0/0"))
    (problem,) = problems(TICKWHEEL_XXL_JOB_NETWORKS="10.0.0.0/8,169.254.169.254/32,fe80::/10")
    assert "169.254.169.254/32, fe80::/10: link-local" in problem
    assert load_config(environment={}).alarm_networks == ()
    (problem,) = problems(TICKWHEEL_ALARM_NETWORKS="10.0.0.0/8,169.254.0.0/16")
    assert "169.254.0.0/16: link-local" in problem


def test_metrics_are_on_the_consoles_port_alone_unless_there_is_another() -> None:
    config = load_config(environment={})
    assert (config.metrics_port, config.metrics_host, config.metrics_token) == (
        None,
        "127.0.0.1",
        None,
    )
    assert (config.metrics_executors, config.metrics_jobs) == (100, ())


def test_a_port_for_metrics_that_others_can_reach_needs_a_token(tmp_path: Path) -> None:
    token = "0123456789abcdef" * 2
    open_port = {"TICKWHEEL_METRICS_PORT": "9464", "TICKWHEEL_METRICS_HOST": "0.0.0.0"}
    file = tmp_path / "token"
    file.write_text(f"{token}\n")

    (problem,) = problems(**open_port)
    assert "metrics_host: 0.0.0.0 can be reached from other machines" in problem
    for given in (
        {"TICKWHEEL_METRICS_TOKEN": token},
        {"TICKWHEEL_METRICS_TOKEN_FILE": str(file)},
    ):
        assert load_config(environment=open_port | given).metrics_token == token
    here = {"TICKWHEEL_METRICS_PORT": "9464", "TICKWHEEL_METRICS_HOST": "::1"}
    assert load_config(environment=here).metrics_token is None


@pytest.mark.parametrize(
    ("setting", "value", "rule"),
    [
        ("METRICS_TOKEN", "short", "24 to 200"),
        ("METRICS_TOKEN", "a" * 30, "random"),
        ("METRICS_TOKEN_FILE", "/nowhere/token", "cannot be read"),
        ("METRICS_PORT", "8500", "is the port of the console"),
        ("METRICS_EXECUTORS", "1001", "from 0 to 1000"),
        ("METRICS_JOBS", "invoices", "is not executor/job"),
        ("METRICS_JOBS", ",".join(f"a/{n}" for n in range(101)), "at most 100"),
    ],
)
def test_metrics_settings_that_cannot_be_used(setting: str, value: str, rule: str) -> None:
    (problem,) = problems(**{f"TICKWHEEL_{setting}": value})

    assert setting.lower() in problem.lower()
    assert rule in problem
    assert value not in problem or "TOKEN" not in setting or value.startswith("/")


def test_jobs_with_series_of_their_own(tmp_path: Path) -> None:
    file = write(tmp_path, 'metrics_jobs = ["billing/a, b/c", "shop/x"]')

    assert load_config(file=file, environment={}).metrics_jobs == ("billing/a, b/c", "shop/x")
    told = {"TICKWHEEL_METRICS_JOBS": "billing/a, shop/x,"}
    assert load_config(environment=told).metrics_jobs == ("billing/a", "shop/x")


def test_traces_need_their_packages_and_a_place_for_their_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "https://jaeger.example/trace/{trace_id}"
    given = {"TICKWHEEL_TRACING": "yes", "TICKWHEEL_TRACE_URL": url}
    config = load_config(environment=given)
    assert (config.tracing, config.trace_url) == (True, url)
    for wrong in ("https://jaeger.example/", "javascript:alert('{trace_id}')", f"{url}{url}"):
        assert "has {trace_id} once" in problems(TICKWHEEL_TRACE_URL=wrong)[0]
    monkeypatch.setattr(otel, "is_installed", lambda: False)
    assert "pip install opentelemetry-sdk" in problems(TICKWHEEL_TRACING="1")[0]
    assert not load_config(environment={"TICKWHEEL_TRACING": "no"}).tracing
