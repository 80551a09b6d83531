"""Turns due triggers into runs."""
