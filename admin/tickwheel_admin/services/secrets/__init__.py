"""Secrets that must be read back."""
