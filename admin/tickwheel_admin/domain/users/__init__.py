"""Users, sessions and tokens."""
