"""Private database servers for tests: own directory, own port, gone when the test run is.

A server keeps its data and its port over `crash()` and `stop()`, so that tests can play an outage.
"""

from __future__ import annotations

from tests.support.servers.base import DatabaseServer
from tests.support.servers.galera import Galera
from tests.support.servers.mariadb import MariaDB
from tests.support.servers.postgresql import PostgreSQL

__all__ = ["DatabaseServer", "Galera", "MariaDB", "PostgreSQL"]
