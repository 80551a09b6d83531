"""Proofs of a period, for people and as a signed file."""
