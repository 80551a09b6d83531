"""The process for work that cannot be bounded."""
