"""Directories of YAML documents: read, planned, applied and written."""
