"""Hostile values in every place of every request and of every frame: see test_fuzz_http.py."""
