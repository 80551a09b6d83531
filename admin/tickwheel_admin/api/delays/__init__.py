"""Who delays whom."""
