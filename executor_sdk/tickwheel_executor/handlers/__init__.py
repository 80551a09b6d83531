"""Registering and calling handlers."""
