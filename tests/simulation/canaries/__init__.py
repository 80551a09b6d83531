"""Canary retries of failures in the simulated cluster."""
