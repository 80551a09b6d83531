"""Use cases of failure groups: finding and treating them."""
