"""Handlers that nodes offer."""
