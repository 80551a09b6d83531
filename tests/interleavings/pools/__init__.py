"""Pools: claims of several executors."""
