"""Rules of jobs."""
