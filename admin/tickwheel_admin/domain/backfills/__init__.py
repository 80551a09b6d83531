"""Rules of backfills: fires of the past that are run now."""
