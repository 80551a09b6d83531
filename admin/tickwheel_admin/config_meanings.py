"""What each setting means: the table in docs/configuration.md is made from this and config.py."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SettingMeaning:
    """What people need to know of a setting; what its reader and default say is not repeated."""

    text: str  # Markdown, as in docs/
    default: str | None = None  # where the default depends on the machine or other settings


MEANINGS = {
    "database_url": SettingMeaning(
        "where everything is stored; see below",
        default="SQLite in `data_dir`",
    ),
    "data_dir": SettingMeaning(
        "directory of the embedded database, and of the console's compiled templates; created with "
        "mode 0700. It does not depend on the working directory, so an admin "
        "started from elsewhere finds its data",
        default="`$XDG_DATA_HOME/tickwheel`, else `~/.local/share/tickwheel`",
    ),
    "host": SettingMeaning(
        "address to listen on; `0.0.0.0` for all",
    ),
    "port": SettingMeaning(
        "port for browsers, programs and nodes alike",
    ),
    "name": SettingMeaning(
        "the name of this admin in the console and in logs",
        default="host name",
    ),
    "public_url": SettingMeaning(
        "where nodes reach *this* admin. Nodes connect to each admin separately, so it must "
        "not be the address of a load balancer",
        default="`http://<host>:<port>`, with `tls_cert` `https://…`",
    ),
    "console_url": SettingMeaning(
        "where browsers reach the console: the address of the load balancer or proxy if there "
        "is one; the same for all admins. With `https://`, cookies are sent over TLS only",
        default="`public_url`",
    ),
    "tls_cert": SettingMeaning(
        "a file in PEM with this admin's certificate, and those between it and its authority: "
        "its ports then speak [TLS](deployment.md#tls) only. Replaced files are taken without "
        "a restart",
    ),
    "tls_key": SettingMeaning(
        "a file in PEM with the key of that certificate, without a passphrase; required with "
        "`tls_cert`",
    ),
    "tls_client_ca": SettingMeaning(
        "a file in PEM with authorities: nodes are let in only with a certificate that one of "
        "them has signed",
    ),
    "retention_days": SettingMeaning(
        "ended runs and their logs are deleted after this number of days",
    ),
    "trusted_proxies": SettingMeaning(
        "addresses or networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are "
        "believed. Without it the proxy counts as the client, and all users share one limit "
        "of failed logins",
    ),
    "log_format": SettingMeaning(
        "text lines (further lines of an entry are indented by four spaces), or one JSON "
        "object per line; always on stderr. See [Log events](log-events.md)",
        default="`console` on a terminal, else `json`",
    ),
    "log_level": SettingMeaning(
        "the least severe events that are written",
    ),
    "password_login": SettingMeaning(
        "whether users may log in by password; `false` only together with `oidc_issuer`",
    ),
    "oidc_issuer": SettingMeaning(
        "the OpenID provider for logins; see below",
    ),
    "oidc_client_id": SettingMeaning(
        "the client id of this installation at the provider; required with `oidc_issuer`",
    ),
    "oidc_client_secret": SettingMeaning(
        "the client secret; none for a public client. Like the database URL, it has no flag",
    ),
    "oidc_name": SettingMeaning(
        "the button says “Log in with …”",
    ),
    "oidc_username_claim": SettingMeaning(
        "the claim used as user name at the first login",
    ),
    "oidc_roles_claim": SettingMeaning(
        "the claim that lists the user's groups; `realm_access.roles` is a nested one",
    ),
    "oidc_roles": SettingMeaning(
        "roles of group members: `ops=operator@billing, admins=admin`",
    ),
    "secret_key": SettingMeaning(
        "the key that encrypts secrets in the database; see below. No flag",
        default="SQLite: made in `data_dir`",
    ),
    "secret_key_file": SettingMeaning(
        "a file that contains the key or keys instead, as container platforms mount secrets",
    ),
    "xxl_job_networks": SettingMeaning(
        "networks in which executors of XXL-JOB's protocol are called: `127.0.0.0/8 "
        "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 ::1 fc00::/7` unless you say otherwise. "
        "Link-local addresses, those of cloud metadata services, multicast and unspecified "
        "addresses are never called, also inside a wider network such as `0.0.0.0/0`",
        default="private networks and loopback",
    ),
    "alarm_networks": SettingMeaning(
        "networks in which [channels](alarms.md#where-messages-may-go) deliver alarms, beside "
        "public addresses: `10.0.0.0/8` for a mail server or webhook of your own network. "
        "Link-local addresses, those of cloud metadata services, multicast and unspecified "
        "addresses are never called",
    ),
    "metrics_port": SettingMeaning(
        "a port for [`/metrics`](metrics.md) alone, without logins. Without it the page is on "
        "`port` only, for users and API tokens that may see all executors",
    ),
    "metrics_host": SettingMeaning(
        "address to listen on for `metrics_port`. One that other machines can reach needs a token",
    ),
    "metrics_token": SettingMeaning(
        "the bearer token that scrapers send to `metrics_port`, "
        "for example of `openssl rand -hex 24`. No flag",
    ),
    "metrics_token_file": SettingMeaning(
        "a file that contains the token instead",
    ),
    "metrics_executors": SettingMeaning(
        "the number of executors, the oldest ones, that have series of their own; all others "
        "together have one each",
    ),
    "metrics_jobs": SettingMeaning(
        "jobs that have series of their own, as `executor/job`: `billing/send-invoices`; at "
        "most 100",
    ),
    "tracing": SettingMeaning(
        "whether this admin records [traces](tracing.md) with OpenTelemetry; needs the extra "
        "`otel`",
    ),
    "trace_url": SettingMeaning(
        "where your tracing system shows a trace, with `{trace_id}` in the place of its id, "
        "as `https://jaeger.example/trace/{trace_id}`: the pages of runs link there",
    ),
}
