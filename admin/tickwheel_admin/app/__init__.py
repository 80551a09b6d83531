"""Composition root: builds the parts of an admin and connects them; starts and stops them."""
