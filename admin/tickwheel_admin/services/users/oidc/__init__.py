"""Logging in by OpenID Connect."""
