"""Distributed job scheduler: the admin server."""

from importlib.metadata import version

__version__ = version("tickwheel-admin")
