"""Pure rules: no I/O, no SQL, no HTTP, no clock. Everything here is a function of its arguments."""
