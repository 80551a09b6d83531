"""The import of an XXL-JOB installation: read, plan, write."""
