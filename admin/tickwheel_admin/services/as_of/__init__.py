"""The time machine."""
