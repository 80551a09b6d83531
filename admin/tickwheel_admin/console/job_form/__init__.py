"""The form of a job."""
