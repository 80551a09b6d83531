"""`tickwheel doctor`: what is set up wrong, or about to fail, each with its remedy."""
