"""Who takes part and in which version, clocks, keys, and what people have left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tickwheel_admin.cli.doctor.finding import Finding, Grade, error, warning
from tickwheel_admin.services.overview.attention.concern import Concern, Severity
from tickwheel_admin.store.doctor.installation import ChannelFailures, PausedSince, UnreachedAddress
from tickwheel_admin.web.i18n import translate

MAX_OFFSET_MS = 2_000
FORGOTTEN_MS = 24 * 3_600_000
FORGOTTEN_EXECUTOR_MS = 7 * 24 * 3_600_000
_SHOWN = 5
_SEE_OPERATIONS = "See the table “Needs attention” in docs/operations.md."


def attention(concerns: Iterable[Concern]) -> Iterator[Finding]:
    """What the overview lists as well."""
    for each in concerns:
        grade = Grade.ERROR if each.severity is Severity.ERROR else Grade.WARNING
        yield Finding(
            check=f"attention.{each.kind.value}",
            grade=grade,
            what=_sentence(each),
            remedy=_SEE_OPERATIONS,
        )


def _sentence(concern: Concern) -> str:
    text = translate(concern.template, concern.params, "en")
    where = " / ".join(name for name in (concern.executor_name, concern.job_name) if name)
    return f"{where}: {text}" if where else text


def clock(offset_ms: int) -> Iterator[Finding]:
    """Whether this machine's clock agrees with the database's."""
    if abs(offset_ms) > MAX_OFFSET_MS:
        yield warning(
            "clock.here",
            "The clock of this machine differs from the database's by"
            f" {abs(offset_ms) / 1000:.1f} s. Fires go by the database's,"
            " log lines and certificates by the machine's.",
            "Synchronise both with NTP (chrony, systemd-timesyncd).",
        )


def node_clocks(off: Mapping[str, int]) -> Iterator[Finding]:
    """Whether the clocks of nodes agree with the database's.

    Args:
        off: by node, the milliseconds by which its clock was ahead when it connected.
    """
    if not off:
        return
    told = ", ".join(
        f"{name} by {abs(ms) / 1000:,.0f} s {'ahead' if ms > 0 else 'behind'}"
        for name, ms in sorted(off.items(), key=lambda each: -abs(each[1]))[:_SHOWN]
    )
    more = f" and {len(off) - _SHOWN} more" if len(off) > _SHOWN else ""
    yield warning(
        "clock.nodes",
        f"Clocks of nodes differed from the database's when they connected: {told}{more}. Fires do"
        " not depend on them, the times of log lines do.",
        "Synchronise the machines with NTP (chrony, systemd-timesyncd); this is measured again when"
        " a node connects.",
    )


def versions(here: str, admins: Mapping[str, str], sdks: Mapping[str, int]) -> Iterator[Finding]:
    """Whether admins and nodes are of one version.

    Args:
        admins: version by name, of those that are up.
        sdks: how many live nodes have each, "python/1.4.0".
    """
    others = sorted(f"{name} {version}" for name, version in admins.items() if version != here)
    if others:
        yield warning(
            "versions.admins",
            f"This program is version {here}; there are admins of other ones:"
            f" {', '.join(others[:_SHOWN])}.",
            "Bring all admins to one version; two neighbouring ones work together meanwhile.",
        )
    far = {sdk: count for sdk, count in sdks.items() if _is_far(here, sdk.rpartition("/")[2])}
    if far:
        told = ", ".join(f"{count} with {sdk}" for sdk, count in sorted(far.items())[:_SHOWN])
        yield warning(
            "versions.nodes",
            f"Nodes are more than one minor version away from {here}: {told}.",
            "Upgrade the SDK of their services; one minor version of difference is supported.",
        )


def _is_far(here: str, there: str) -> bool:
    try:
        ours, theirs = ([int(part) for part in v.split(".")[:2]] for v in (here, there))
    except ValueError:
        return False  # of another make, such as an executor of XXL-JOB
    return ours[0] != theirs[0] or abs(ours[1] - theirs[1]) > 1


def reach_of_executors(unreached: Sequence[UnreachedAddress]) -> Iterator[Finding]:
    """Whether executors that the admins have to call answer them."""
    if not unreached:
        return
    told = ", ".join(
        f"{each.executor} at {each.address}"
        f"{' (it registers)' if each.registers else ''}: {each.error}"
        for each in unreached[:_SHOWN]
    )
    more = f", and {len(unreached) - _SHOWN} more" if len(unreached) > _SHOWN else ""
    yield error(
        "network.executors",
        f"Executors of XXL-JOB do not answer the admins: {told}{more}. Runs for them wait.",
        "Let the admins reach these addresses (firewalls, networks of containers), or let the"
        " executors register one that can be reached (xxl.job.executor.address).",
    )


def secrets(unreadable: list[str], *, has_key: bool) -> Iterator[Finding]:
    """Whether this configuration decrypts what is stored."""
    if not unreadable:
        return
    more = f" and {len(unreadable) - _SHOWN} more" if len(unreadable) > _SHOWN else ""
    what = (
        "no key of this configuration decrypts" if has_key else "there is no secret_key to decrypt"
    )
    yield error(
        "secrets.key",
        f"{len(unreadable)} secrets cannot be read, {what} them:"
        f" {', '.join(unreadable[:_SHOWN])}{more}. Runs that use them wait.",
        "Add the key to TICKWHEEL_SECRET_KEY of all admins, or enter the secrets again.",
    )


def left_behind(
    paused: Iterable[PausedSince], channels: Iterable[ChannelFailures], *, now: int
) -> Iterator[Finding]:
    """Pauses that nobody has ended for long, and channels that reach nobody."""
    for each in paused:
        limit = FORGOTTEN_MS if each.executor is None else FORGOTTEN_EXECUTOR_MS
        if now - each.paused_at > limit:
            what = "Everything" if each.executor is None else f"The executor {each.executor}"
            days = (now - each.paused_at) // (24 * 3_600_000)
            yield warning(
                "pause.forgotten",
                f"{what} has been paused for {days} days: no fire runs.",
                "Resume it in the console, if that is not meant.",
            )
    for channel in channels:
        yield error(
            "alarms.channel",
            f"The alarm channel {channel.name} did not deliver {channel.failed} messages of the"
            f" last day: {channel.error or 'no answer'}.",
            "Send a test message from its page, and correct its settings.",
        )


def self_audit(stands: bool) -> Iterator[Finding]:
    """Whether the ledger differs from what should have happened."""
    if stands:
        yield error(
            "self_audit.differences",
            "The self-audit has found differences between what should have fired and the ledger,"
            " and nobody has looked at them.",
            "Look at the page Self-audit of the console.",
        )


def nobody_serves(admins: Mapping[str, str]) -> Iterator[Finding]:
    """Whether any admin works on the database."""
    if not admins:
        yield error(
            "admins.none",
            "No admin works on this database: nothing fires.",
            "Start one: tickwheel serve.",
        )
