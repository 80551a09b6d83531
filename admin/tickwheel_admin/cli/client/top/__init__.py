"""`tickwheel top`: what runs and waits, in a terminal."""
