"""Pages of backfills."""
