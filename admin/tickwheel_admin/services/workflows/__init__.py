"""Workflows: saving them, and what becomes of their runs."""
