"""Forks, threads and signals."""
