"""Records what nodes report."""
