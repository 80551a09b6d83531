"""Events of this admin and of the others."""
