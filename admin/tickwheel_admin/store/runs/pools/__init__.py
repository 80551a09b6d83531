"""Runs in pools: the line before a pool, and the second count of who holds its slots."""
