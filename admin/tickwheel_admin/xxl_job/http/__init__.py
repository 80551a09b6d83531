"""Connections to executors, and what is said over them; nothing of the protocol itself."""
