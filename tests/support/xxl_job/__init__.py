"""A stand-in for the database of an XXL-JOB installation: its tables by version, and rows."""
