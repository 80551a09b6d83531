"""Which node gets a run: what a job asks for, and small pure functions that choose."""
