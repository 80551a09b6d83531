"""Processes, threads and signals."""
