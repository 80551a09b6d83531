"""The life of a node."""
