"""An existing XXL-JOB database, read only: its schema, its tables in pages, and its log."""
