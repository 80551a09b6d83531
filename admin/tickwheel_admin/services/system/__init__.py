"""The installation: audit, settings, admins."""
