"""Distributed job scheduler: the admin server."""
