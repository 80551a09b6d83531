"""Pages of failure groups: the list and one of them."""
