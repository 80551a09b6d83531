"""A node behind a network of its own, whose cable can be pulled (Linux, root, iproute2)."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.drill.bed import SLOTS, Bed
from tests.drill.measure import late
from tests.drill.proxy import FaultProxy
from tests.drill.report import Outcome
from tests.drill.scenarios import noticed
from tests.support.polling import wait_until

NODE = "node-far"
HERE, THERE = "10.213.7.1", "10.213.7.2"


def why_not() -> str:
    """Why this machine has no network namespaces for us; empty when it has."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    if os.geteuid() != 0:
        return "it needs root"
    name = f"tickwheel-try-{os.getpid()}"
    tried = _ip("netns", "add", name)
    if tried.returncode:
        return tried.stderr.strip()
    _ip("netns", "delete", name)
    return ""


class Cable:
    """Joins the namespace to this host."""

    def __init__(self, name: str, device: str) -> None:
        self.name = name
        self._device = device

    def pull(self) -> None:
        """Packets vanish from now on, and no connection learns of it."""
        _must("link", "set", self._device, "down")

    def plug_in(self) -> None:
        """What was not acknowledged is sent again by the kernels."""
        _must("link", "set", self._device, "up")


@contextmanager
def cable() -> Iterator[Cable]:
    """A namespace with one cable to this host, gone afterwards."""
    name, device = f"tickwheel-{os.getpid()}", f"twd{os.getpid()}"
    with ExitStack() as stack:
        _must("netns", "add", name)
        stack.callback(_ip, "netns", "delete", name)  # takes the cable with it
        _must("link", "add", device, "type", "veth", "peer", "name", "far", "netns", name)
        _must("address", "add", f"{HERE}/30", "dev", device)
        _must("link", "set", device, "up")
        _must("-n", name, "address", "add", f"{THERE}/30", "dev", "far")
        _must("-n", name, "link", "set", "far", "up")
        yield Cable(name, device)


def partitioned_node(bed: Bed) -> Outcome:
    """A node's cable is pulled while it works, and plugged in when its runs are elsewhere."""
    outcome = Outcome(database=bed.kind, drill="partitioned node")
    with ExitStack() as stack:
        wire = stack.enter_context(cable())
        relays = [
            stack.enter_context(FaultProxy(admin.port, host=HERE)) for admin in bed.admins.values()
        ]
        far = bed.cluster.start_node(
            NODE,
            slots=SLOTS,
            admins=",".join(relay.url for relay in relays),
            within=("ip", "netns", "exec", wire.name),
        )
        wait_until(lambda: all(relay.connections() for relay in relays), what=f"{NODE} to connect")
        fires = bed.fires(f"partitioned {time.monotonic_ns()}")
        time.sleep(5)
        at = time.time()
        wire.pull()
        outcome.figures["noticed_vanished"] = noticed(bed, NODE) - at
        time.sleep(3)
        wire.plug_in()
        time.sleep(5)
        settled = bed.settle(fires)
        outcome.runs = len(settled.ledger.runs)
        outcome.problems += settled.problems
        outcome.figures["late"] = late(settled, since=at)
        assert far.process.stop() == 0, f"{NODE} did not end well: {far.process.log}"
    return outcome


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def _must(*arguments: str) -> None:
    done = _ip(*arguments)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
