"""Directories of files as the state that is wanted."""
