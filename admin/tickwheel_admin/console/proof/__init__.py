"""The proof of a period."""
