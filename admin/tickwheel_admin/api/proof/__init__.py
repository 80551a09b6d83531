"""Proofs of a period."""
