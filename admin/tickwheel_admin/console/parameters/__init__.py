"""Forms of parameters."""
