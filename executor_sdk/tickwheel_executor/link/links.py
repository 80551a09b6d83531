"""All links of a node: one to every admin, the lease that they renew, and which to send on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random

from tickwheel_executor.settings import normal_url
from tickwheel_shared.protocol import Message, Welcome

from .channel import Connect
from .link import Link, LinkOwner

_logger = logging.getLogger("tickwheel.link")

FORGET_SECONDS = 300.0  # after so long, an unreachable admin that no other names is dropped
SUCCESSION_SECONDS = 5.0  # an admin closes the older of two sockets of a node at once
CUT_OFF_AFTER = 0.8  # of the lease: the rest is for stopping what must not outlive it
REPORT_SECONDS = 60.0  # how often unreachable admins are logged
MAX_LINKS = 64  # a bound on what a welcome makes the node open


class AdminLinks:
    """Opens, lists and drops links. `owner` is the node that they belong to."""

    def __init__(
        self,
        admins: Sequence[str],
        owner: LinkOwner,
        *,
        token: str,
        connect: Connect,
        random: Random,
    ) -> None:
        self._configured = tuple(admins)
        # The token must not be sent unencrypted because an admin names others by http://.
        self._only_https = all(url.startswith("https://") for url in admins)
        self._make: Callable[[str], Link] = lambda url: Link(
            url, owner, token=token, connect=connect, random=random
        )
        self._random = random
        self._links: dict[str, Link] = {}
        self._runners: dict[str, asyncio.Task[None]] = {}
        self._named: frozenset[str] = frozenset()  # by the latest list of any admin
        self._refused: set[str] = set()  # learned URLs that were logged as refused
        self._stopped = False
        self._lease_seconds = 15.0
        self._acknowledged_at = 0.0
        self._was_welcome = False  # an admin has ever welcomed this node
        self._refused_by_all = asyncio.Event()

    def start(self) -> None:
        """Start to connect to every configured admin."""
        for url in self._configured:
            self._add(url)

    @property
    def any_open(self) -> bool:
        """Whether an admin can be reached."""
        # A copy: threads call this too, while links come and go.
        return any(link.is_open for link in list(self._links.values()))

    def states(self) -> dict[str, bool]:
        """Base URL of each admin, and whether it can be reached; threads may ask."""
        return {url: link.is_open for url, link in list(self._links.items())}

    def open_links(self) -> list[Link]:
        """Links that accept messages."""
        return [link for link in self._links.values() if link.is_open]

    def pick(self, preferred: Link | None = None, *, avoid: Link | None = None) -> Link | None:
        """An open link: the preferred one, or any; the one to avoid only if no other is open."""
        if preferred is not None and preferred.is_open:
            return preferred
        if avoid is None:
            return next((link for link in self._links.values() if link.is_open), None)
        others = [link for link in self._links.values() if link.is_open and link is not avoid]
        if others:
            return self._random.choice(others)
        return avoid if avoid.is_open else None

    def broadcast(self, message: Message) -> None:
        """Send to every admin."""
        for link in self.open_links():
            link.send(message)

    def successor_of(self, link: Link, now: float) -> Link | None:
        """An open link to an admin of the same name, welcomed just before this one was closed.

        Then it is the same admin by another URL. The name alone proves nothing: two admins may
        have the same one.
        """
        for other in self._links.values():
            recent = now - other.welcomed_at <= SUCCESSION_SECONDS
            if other is not link and other.is_open and recent and other.admin == link.admin:
                return other
        return None

    # --- welcome, acknowledgement, lease ----------------------------------------------------------

    def welcomed(self, welcome: Welcome, sent_at: float) -> None:
        """An admin has registered the node: the lease runs from the hello."""
        self._was_welcome = True
        self._lease_seconds = welcome.lease_ms / 1000
        self.acknowledged(sent_at)
        self.learn(welcome.admins)

    def learn(self, admins: Sequence[str]) -> None:
        """The URLs of all live admins: connect to new ones."""
        urls = [url for url in map(self._learnable, admins) if url is not None]
        self._named = frozenset(urls)
        for url in urls:
            if url not in self._links and len(self._links) < MAX_LINKS:
                _logger.info("learned of another admin at %s", url)
                self._add(url)

    def acknowledged(self, sent_at: float) -> None:
        """The lease was renewed, by a message that was sent at this time."""
        self._acknowledged_at = max(self._acknowledged_at, sent_at)

    def lease_is_over(self, now: float) -> bool:
        """Whether admins may consider this node dead by now."""
        return now - self._acknowledged_at >= self._lease_seconds

    @property
    def cut_off_seconds(self) -> float:
        """After so long without acknowledgement this node counts as cut off."""
        return CUT_OFF_AFTER * self._lease_seconds

    @property
    def cut_off_at(self) -> float:
        """Loop time at which runs that must not overlap with others have to be stopped."""
        return self._acknowledged_at + self.cut_off_seconds

    async def until_refused(self) -> str:
        """Wait until every configured admin has refused this node and none ever welcomed it; why.

        A token or name that never worked is a wrong setting; one that has worked is not.
        """
        await self._refused_by_all.wait()
        return "; ".join(f"{url}: {self._links[url].trouble}" for url in self._configured)

    def check(self, now: float) -> None:
        """Drop all sockets when the lease is over, drop admins that no other names any more, and
        log which are unreachable. Called about once a second."""
        if self.lease_is_over(now):
            # Our runs may be started elsewhere now: nothing that still waits in a socket may arrive
            # after that and look alive.
            for link in self.open_links():
                link.drop(f"no heartbeat was acknowledged for {self._lease_seconds:.0f} s")
        for url, link in list(self._links.items()):
            down_for = 0.0 if link.down_since is None else now - link.down_since
            if (
                down_for > FORGET_SECONDS
                and url not in self._configured
                and url not in self._named
                and self.any_open
            ):
                _logger.info("admin %s is gone", url)
                del self._links[url]
                self._runners.pop(url).cancel()

        if not self._was_welcome and all(self._links[url].refused for url in self._configured):
            self._refused_by_all.set()
        self._report_unreachable(now)

    def _report_unreachable(self, now: float) -> None:
        """Log once a minute which admins are unreachable and why, in one line."""
        away = [link for link in self._links.values() if link.complaint]
        if not any(
            link.reported_at is not None and now - link.reported_at >= REPORT_SECONDS
            for link in away
        ):
            return
        reasons = "; ".join(f"{link.url}: {link.complaint}" for link in away)
        if self.any_open:
            _logger.warning("trying again to reach admins that do not answer: %s", reasons)
        else:
            since = max(now if at is None else at for at in (each.down_since for each in away))
            _logger.warning(
                "no admin has answered for %.0f s, trying again until one does: %s",
                now - since,
                reasons,
            )
        for link in away:
            link.reported_at = now

    def _learnable(self, text: str) -> str | None:
        problem: str | None
        try:
            url = normal_url(text)
            insecure = self._only_https and not url.startswith("https://")
            problem = "it is not https, as the configured ones are" if insecure else None
        except ValueError as error:
            url, problem = text, str(error)
        if problem is None:
            return url
        if url not in self._refused and len(self._refused) < MAX_LINKS:
            self._refused.add(url)
            _logger.warning("not connecting to admin %r, named by another admin: %s", url, problem)
        return None

    # --- start and end ----------------------------------------------------------------------------

    def _add(self, url: str) -> None:
        if self._stopped:
            return
        link = self._make(url)
        self._links[url] = link
        self._runners[url] = asyncio.get_running_loop().create_task(
            link.run(), name=f"tickwheel link {url}"
        )

    async def close(self, within_seconds: float) -> None:
        """Close every socket gracefully, within the time given."""
        self._stopped = True
        await asyncio.gather(*(link.close() for link in self._links.values()))
        runners = [self._runners[link.url] for link in self.open_links()]
        if runners:
            await asyncio.wait(runners, timeout=within_seconds)
        for runner in self._runners.values():
            runner.cancel()
        await asyncio.gather(*self._runners.values(), return_exceptions=True)

    def abort(self, *, break_channels: bool) -> None:
        """End at once, without a message to anybody."""
        self._stopped = True
        for url, runner in self._runners.items():
            self._links[url].abort(break_channel=break_channels)
            runner.cancel()
