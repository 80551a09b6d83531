"""Endpoints of backfills."""
