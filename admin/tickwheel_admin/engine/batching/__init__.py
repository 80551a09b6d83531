"""Batches: gathered, and halved when one row is refused."""
