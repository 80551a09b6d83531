"""The past as it was at an instant."""
