"""What becomes of due runs, as far as no database is asked."""
