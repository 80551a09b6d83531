"""Commands that speak to an admin."""
