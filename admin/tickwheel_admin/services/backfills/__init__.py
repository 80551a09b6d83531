"""Use cases of backfills."""
