"""Who delays whom: what runs waited for, and whose runs caused it."""
