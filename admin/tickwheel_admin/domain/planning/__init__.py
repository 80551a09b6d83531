"""Which runs a trigger brings, and when."""
