"""The kinds of triggers."""
