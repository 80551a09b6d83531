"""Finding things: the command palette, and the words of other schedulers."""
