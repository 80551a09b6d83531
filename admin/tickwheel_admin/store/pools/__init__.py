"""Pools: their rows, their slots, and the line of runs before them."""
