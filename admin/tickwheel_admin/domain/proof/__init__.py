"""Proof of a period: what should have run, what became of it, and that the sums agree."""
