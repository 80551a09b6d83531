"""`tickwheel backup` and `tickwheel restore`."""
